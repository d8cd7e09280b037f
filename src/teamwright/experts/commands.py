"""`teamwright ask`, and `teamwright experts`: answers with experts, their templates, and their ratings by past runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.terminal.open import require_task, run_on_loop, with_journal
from teamwright.cli.terminal.options import (
    Events,
    Full,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    NoInput,
    Quiet,
    RunId,
    TaskFile,
    read_task,
    run_limits,
)
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    one_line,
    redirect_prints,
    say,
    write_json,
    write_result,
)
from teamwright.values.text.display import NOTHING, number_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cli.views.drive import ViewOptions
    from teamwright.cli.views.prompt import Prompt
    from teamwright.experts.ratings import Rating, Ratings
    from teamwright.experts.router import AskRequest, DraftedTeam, Route, Router
    from teamwright.experts.templates import ExpertTemplate, ExpertTemplates
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.run_request import Confirmer
    from teamwright.values.limits import Limits, SpendForecast
    from teamwright.values.people import Question
    from teamwright.values.specs.manifest import AnyModel, Source


MOST_RUNS = 1000
HEADS = (
    "RUNS",
    "STEPS",
    "ASSUMED",
    "JUDGED",
    "PASSED",
    "FIRST TRY",
    "REVISIONS",
    "SCORE",
    "TOKENS",
    "PRICE",
    "PER PASS",
)
EXPLAINED = (
    "PASSED is the share of judged work that an evaluator passed; ≥ is what is certain of it, with 95 %. ASSUMED is"
    " work without a review."
)
UNJUDGED = "No work in these runs was judged: set  evaluate  on agents, teams or steps to learn who is good at what."


def rate(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN…]", help="Runs: their ids, prefixes of them, or `last`; by default all."),
    ] = None,
    team: Annotated[str | None, typer.Option("--team", help="Only runs of this team.")] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Rate experts and templates by past runs: what passed its evaluation, after which revisions, at what price."""
    check_out(out)

    async def work(journal: Journal) -> int:
        from teamwright.errors import UsageError
        from teamwright.experts.ratings import rate_runs

        found = await rate_runs(journal, await _run_ids(journal, runs, team))
        for run, reason in list(found.left_out.items())[:10]:
            say(f"run {run} is left out: {reason}")
        if not found.experts:
            of = f" of the team {team!r}" if team else ""
            raise UsageError(f"There is no run{of} in which a member worked; start one with  teamwright run")
        write_json(found.to_json(), out) if json else write_result(ratings_text(found), out)
        return 0

    return with_journal(work)


async def _run_ids(journal: Journal, runs: Sequence[str] | None, team: str | None) -> list[str]:
    from teamwright.cli.terminal.open import find_run

    found = [await find_run(journal, run) for run in runs] if runs else await journal.top_runs(MOST_RUNS)
    wanted = [one.id for one in found if team is None or one.team == team]
    return list(dict.fromkeys([*wanted, *(one.id for one in await journal.descendants(wanted))]))


def ratings_text(ratings: Ratings) -> str:
    """The ratings as tables, the best first."""
    from teamwright.cli.terminal.output import columns

    experts = [("EXPERT", "TEMPLATE", *HEADS)]
    experts += [(one_line(one.name), one_line(one.template) or NOTHING, *_cells(one)) for one in ratings.experts]
    lines = [columns(experts)]
    if ratings.templates:
        lines += [
            "",
            columns([("TEMPLATE", *HEADS), *((one_line(one.name), *_cells(one)) for one in ratings.templates)]),
        ]
    judged = any(one.judged for one in ratings.experts)
    return "\n".join([*lines, "", EXPLAINED if judged else UNJUDGED])


def _cells(one: Rating) -> tuple[str, ...]:
    from teamwright.values.text.display import price_text

    per_pass = NOTHING if one.tokens_per_pass is None else f"{number_text(one.tokens_per_pass)} tokens"
    return (
        number_text(one.runs),
        number_text(one.steps),
        number_text(one.assumed),
        number_text(one.judged),
        NOTHING if one.pass_rate is None or one.at_least is None else f"{one.pass_rate:.0%} (≥ {one.at_least:.0%})",
        NOTHING if one.first_time is None else f"{one.first_time:.0%}",
        NOTHING if one.revisions is None else f"{one.revisions:.2f}",
        NOTHING if one.score is None else f"{one.score:.2f}",
        number_text(one.total_tokens),
        price_text(one.usd) if one.usd is not None else NOTHING,
        price_text(one.usd_per_pass) if one.usd_per_pass is not None else per_pass,
    )


app = typer.Typer(help="List, show, create and rate experts.", no_args_is_help=True, rich_markup_mode=None)
app.command()(rate)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a template.")]
Folder = Annotated[
    Path, typer.Option("--folder", metavar="DIR", help="The folder of your own templates.", show_default=True)
]
DEFAULT = Path("experts")

TEMPLATE = """\
# A template of an expert: an agent with  expert: {name}  is made from it.
description: What the expert does, in one sentence. The other experts read it.
capabilities: [what, it, is, good, at]
avatar: "🙂"
color: "#0f766e"
persona: >-
  Who the expert is, and what it has seen.
thinking_style: >-
  How it looks at a problem.
collaboration_strategy: >-
  What it gives to the others, and what it asks of them.
instructions: |
  ## Method

  1. What it does first, and how it knows that it is done.

  ## What you deliver

  - The form of the result.

  ## What you refuse

  - What it must not do, also if it is asked to.

  ## How you disagree

  How it objects, and when it gives in.
"""


@app.command("list")
def list_templates(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD…]", help="Only those with these words in a name, a capability or a task."),
    ] = None,
    folder: Folder = DEFAULT,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the templates, built-in ones and your own, or those that match words, the best first.

    Templates with mistakes are named with them.
    """
    check_out(out)
    templates = _templates(folder)
    readable = _readable(templates)
    if not words:
        return _write(readable, out, json=json)
    found = templates.search(" ".join(words))
    if not found and not json:
        say("No template fits; list them all with  teamwright experts list")
    return _write(found, out, json=json)


@app.command()
def show(name: Name, folder: Folder = DEFAULT, json: Json = False, out: Out = None) -> int:
    """Show a template whole, with its instructions."""
    check_out(out)
    template = _templates(folder).get(name)
    if json:
        write_json(template.to_json(), out)
    else:
        write_result(_whole(template), out)
    return 0


@app.command()
def new(
    name: Name,
    source: Annotated[str | None, typer.Option("--from", metavar="TEMPLATE", help="Copy this template.")] = None,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Create a template of your own; an existing file is never overwritten."""
    from teamwright.errors import UsageError
    from teamwright.experts.templates import ExpertTemplate

    ExpertTemplate(name=name)  # refuses a name that is none
    copied = None if source is None else Path(_templates(folder).get(source).file)
    text = TEMPLATE.format(name=name) if copied is None else copied.read_text("utf-8")
    file = folder / f"{name}.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{str(file)!r} exists already; choose another name, or edit it.") from error
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be written: {error.strerror}.") from error
    if json:
        write_json({"name": name, "file": str(file)})
    else:
        write_result(f"created {file}; use it with  expert: {name}")
    return 0


def _templates(folder: Path) -> ExpertTemplates:
    """The built-in templates and those of a folder, if it exists."""
    from teamwright.experts.templates import ExpertTemplates

    return ExpertTemplates(*([folder] if folder.is_dir() else []))


def _readable(templates: ExpertTemplates) -> Sequence[ExpertTemplate]:
    """Return the templates without mistakes, and tell the mistakes of the others."""
    found, problems = templates.list_readable()
    if problems:
        say("\n".join(("Templates that can't be read:", *map(str, problems))))
    return found


def _write(found: Sequence[ExpertTemplate], out: Path | None, *, json: bool) -> int:
    if json:
        write_json([one.to_json() for one in found], out)
    elif found:
        from teamwright.cli.terminal.output import columns

        rows = [(one.name, "" if one.built_in else "own", one_line(one.description)) for one in found]
        if not any(own for _, own, _ in rows):
            rows = [(name, about) for name, _, about in rows]
        write_result(columns(rows), out)
    return 0


def _whole(template: ExpertTemplate) -> str:
    """The template as text: what it is, its profile, and its instructions."""
    profile, agent = template.profile, template.agent
    origin = "built in" if template.built_in else template.file
    facts = {
        "capabilities": ", ".join(agent.capabilities),
        "persona": profile.persona,
        "thinking style": profile.thinking_style,
        "collaboration": profile.collaboration_strategy,
        "skills": ", ".join(profile.skills),
    }
    listed = [f"{name}: {value}" for name, value in facts.items() if value]
    heading = f"{profile.avatar} {template.name} ({origin})".strip()
    return "\n\n".join(filter(None, (f"{heading}\n{template.description}", *listed, agent.instructions_text.strip())))


Task = Annotated[
    str | None,
    typer.Argument(metavar="TASK", help='The task; "@team …" forms a team, "@team:analyst,editor …" names it.'),
]
Model = Annotated[
    str,
    typer.Option("--model", "-m", help="The model of everyone: provider:name, URL#name, local, scripted:replies.yaml."),
]
FormedStrategy = Literal["expert", "collaborate"]
FormedBy = Annotated[
    FormedStrategy,
    typer.Option(
        "--strategy",
        help="How the team works: all at once and then the lead (expert), or in phases that the lead plans.",
    ),
]
Auto = Annotated[bool, typer.Option("--auto", help="Form a team where one is suggested.")]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Show the plan and what it is expected to cost, and ask before it begins.")
]


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The arguments of `teamwright ask`."""

    text: str
    model: AnyModel
    folder: Path
    run_id: str | None
    limits: Limits | None
    auto: bool
    confirm: bool
    quiet: bool = False
    strategy: FormedStrategy = "expert"


@dataclass(frozen=True, slots=True)
class RoutedTask:
    """A task with its route: the source, and the draft of its team if it has one."""

    route: Route
    source: Source
    drafted: DraftedTeam | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The route and the formation as JSON data."""
        formation = self.source.formation
        formed = None if formation is None else formation.model_dump(mode="json")
        return {**self.route.to_json(), "formation": formed}


def ask(
    task: Task = None,
    *,
    file: TaskFile = None,
    model: Model = "local",
    auto: Auto = False,
    confirm: Confirm = False,
    strategy: FormedBy = "expert",
    run_id: RunId = None,
    folder: Folder = DEFAULT,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Answer a task with one agent or a team of experts, and say which and why."""
    from teamwright.cli.terminal.open import check_new_id
    from teamwright.cli.views.drive import ViewOptions
    from teamwright.teams.load import resolve_model

    check_out(out)
    check_new_id(run_id)
    text = require_task(read_task(task, file))
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    options = AskOptions(text, resolve_model(model), folder, run_id, limits, auto, confirm, quiet, strategy)
    with redirect_prints():
        return run_on_loop(partial(_ask, options, ViewOptions(json, events, quiet, out, no_input, full)))


async def _ask(options: AskOptions, shown: ViewOptions) -> int:
    from teamwright.cli.terminal.open import new_engine
    from teamwright.cli.views.drive import drive, report_end
    from teamwright.experts.router import parse_request
    from teamwright.runtime.same_run import require_same_task
    from teamwright.teams.load import team_from_source
    from teamwright.teams.preflight import check_ready

    request = parse_request(options.text)
    async with new_engine() as engine:
        router = _router(engine, options)
        if options.run_id is not None and await engine.journal.find(options.run_id) is not None:
            await require_same_task(engine.journal, options.run_id, request.task, options.model)
            return await _follow(engine, options.run_id, shown)
        await check_ready(team_from_source(router.agent(), engine.models), engine.models)
        routed = await _routed_task(router, request, options)
        confirm: bool | Confirmer = options.confirm
        if options.confirm and _can_prompt(shown):
            routed, confirm = await _confirmed(router, request, routed)
            shown = replace(shown, no_input=shown.no_input or confirm is True)  # put off: the run is paused
        team = team_from_source(routed.source, engine.models)
        handle = await engine.start(
            team, request.task, run_id=options.run_id, limits=router.limits_left, confirm=confirm
        )
        ended = await drive(engine, handle, shown)
        return await report_end(engine, ended, shown, more={"routing": routed.to_json()})


async def _follow(engine: Engine, run_id: str, shown: ViewOptions) -> int:
    """Report a run that exists already: nothing is routed or formed again."""
    from teamwright.cli.views.drive import report_end

    say(f"run {run_id} exists already; nothing new is started")
    return await report_end(engine, await engine.runs.result(run_id), shown)


def _router(engine: Engine, options: AskOptions) -> Router:
    from teamwright.experts.router import Router
    from teamwright.experts.templates import ExpertTemplates

    folders = [options.folder] if options.folder.is_dir() else []
    templates = ExpertTemplates(*folders)
    return Router(engine, options.model, Path.cwd(), templates, options.run_id, options.limits, options.strategy)


async def _routed_task(router: Router, request: AskRequest, options: AskOptions) -> RoutedTask:
    """Route the task, form its team, and say why."""
    from teamwright.cli.views.results import formation_of

    route = await router.route(request)
    tell = _silent if options.quiet else say
    tell(route.reason)
    takes_team = route.mode == "team" or (route.suggests_team and (options.auto or options.confirm))
    if not takes_team:
        if route.suggests_team:
            tell('form it with  --auto, or with  teamwright ask "@team …"')
        return RoutedTask(route, router.agent())
    drafted = await router.draft(request)
    routed = RoutedTask(replace(route, mode="team"), router.team(drafted), drafted)
    tell(formation_of(routed.source))
    return routed


def _silent(text: str) -> None:
    """Say nothing."""


def _can_prompt(shown: ViewOptions) -> bool:
    return not shown.no_input and sys.stdin.isatty() and sys.stderr.isatty()


async def _confirmed(router: Router, request: AskRequest, routed: RoutedTask) -> tuple[RoutedTask, bool | Confirmer]:
    """Show the plan with its forecast until the person decides or puts it off; an edit shows it again."""
    from rich.console import Console

    from teamwright.cli.views.prompt import Keyboard, Prompt
    from teamwright.cli.views.results import formation_of

    prompt = Prompt(Console(stderr=True), Keyboard(sys.stdin.fileno()))
    while True:
        forecast = await _forecast(router, request, routed)
        answer = await prompt.ask("plan", _question(routed, forecast))
        if answer is None:
            return routed, True
        if answer.text != "edit":
            return routed, _answering(begin=answer.text == "yes")
        routed = _edited(router, routed, str(answer.data), prompt)
        say(formation_of(routed.source))


def _answering(*, begin: bool) -> Confirmer:
    """The answer of the person to the run, which records it."""
    return lambda _: begin


async def _forecast(router: Router, request: AskRequest, routed: RoutedTask) -> str:
    from teamwright.runtime.people.confirmation import forecast_text
    from teamwright.teams.load import team_from_source
    from teamwright.wings import required_hook

    team = team_from_source(routed.source, router.engine.models)
    forecast_run = required_hook("forecast", "Confirming what a run will cost")
    forecast: SpendForecast = await forecast_run(router.engine.journal, team, request.task, router.limits_left)
    return forecast_text(forecast)


def _question(routed: RoutedTask, forecast: str) -> Question:
    from teamwright.values.people import Question

    if routed.drafted is None:
        return Question(text=f"May one agent begin?\n{forecast}", choices=("yes", "no"), reason="approval")
    draft = routed.drafted.draft.model_dump_json(indent=2, exclude_unset=True)
    text = f"May this team begin? Its experts can be edited.\n{forecast}"
    return Question(text=text, choices=("yes", "edit", "no"), reason="approval", draft=draft, form="json")


def _edited(router: Router, routed: RoutedTask, text: str, prompt: Prompt) -> RoutedTask:
    """The plan with the edited draft; unchanged, with the reason, if the draft can't be used."""
    from pydantic import ValidationError

    from teamwright.experts.formation import TeamDraft
    from teamwright.experts.router import DraftedTeam
    from teamwright.values.text.validation_messages import misfits_of, misfits_text

    try:
        draft = TeamDraft.model_validate_json(text)
    except ValidationError as error:
        prompt.say(f"The edit can't be used: {misfits_text(misfits_of(error, text))}. Nothing is changed.")
        return routed
    how = routed.drafted.how if routed.drafted is not None else "named"
    drafted = DraftedTeam(draft, how, ("a person has edited the team",))
    return replace(routed, source=router.team(drafted), drafted=drafted)
