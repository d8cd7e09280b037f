"""`teamwright ask`: answers a task with one agent or with a team of experts that it forms, and says which and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import typer

from teamwright.cli.terminal.command_setup import require_task, run_on_loop
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
from teamwright.cli.terminal.output import Json, Out, check_out, clean, columns, redirect_prints, say
from teamwright.experts.template_commands import DEFAULT, Folder, open_templates

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cli.question_prompt import Prompt
    from teamwright.experts.team_or_agent import AskRequest, DraftedTeam, Route, Router
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.run_request import Confirmer
    from teamwright.strategies.plan.options import PlanOptions
    from teamwright.values.events.event import Event
    from teamwright.values.limits import Limits, SpendForecast
    from teamwright.values.people import Question
    from teamwright.values.specs.manifest import Source
    from teamwright.values.specs.models import AnyModel
    from teamwright.values.turns.turn import EvaluationVerdict


LABEL = 10
"""The width of the first column."""


def overview(source: Source) -> str:
    """Return a formed team as lines: its experts, its plan, its review, and warnings about how it was formed."""
    from teamwright.cli.terminal.result_wording import formation_rows
    from teamwright.strategies.registry import find_strategy

    if source.formation is None:
        return _labelled("agent", [f"{source.team} answers alone"])
    spec = source.manifest.teams[source.team]
    model = cast("type[PlanOptions]", find_strategy(spec.strategy).options)
    options = model.model_validate(spec.options)
    parts = {
        "team": columns(formation_rows(source)).split("\n"),
        "plan": list(_plan(options)),
        "review": [_review(options)],
        "warning": list(source.formation.warnings),
    }
    return clean("\n".join(_labelled(name, lines) for name, lines in parts.items() if lines))


def _labelled(name: str, lines: Sequence[str]) -> str:
    return "\n".join(f"{'' if number else name:<{LABEL}}{line}" for number, line in enumerate(lines))


def _plan(options: PlanOptions) -> Iterator[str]:
    """Yield what is done, in order."""
    if not options.steps:
        yield f"{options.lead} plans the steps, hands them out, and answers"
        return
    *first, last = options.steps
    if first:
        verb = "work on the task at once" if len(first) > 1 else "works on the task"
        yield f"1  {', '.join(str(step.role) for step in first)} {verb}"
    yield f"2  {last.role} puts the results together into the answer" if first else f"1  {last.role} answers"


def _review(options: PlanOptions) -> str:
    """Return what is reviewed, by whom, by how many criteria, and how often it may be revised."""
    from teamwright.experts.formation import PART_ID

    declared = next((step.evaluate for step in options.steps if step.evaluate is not None), options.evaluate)
    if declared is None or not declared.reviews:
        return "none"
    what = "the answer" if options.steps else "each step and the answer"
    asked = [one.id for one in declared.criteria if one.judge is not None]
    parts = sum(one.startswith(PART_ID) for one in asked)
    of_task = f", {parts} of them parts of the task" if parts else ""
    most = declared.revisions
    again = "one revision" if most == 1 else f"{most} revisions"
    return f"{what}, by {', then '.join(declared.judges)}: {len(asked)} criteria{of_task}; at most {again}"


class RunReview(NamedTuple):
    """Who judged the work of a run, how often, and the last verdict; without a judge it is not reviewed."""

    judges: tuple[str, ...]
    author: str
    attempts: int
    verdict: EvaluationVerdict | None = None

    def __str__(self) -> str:
        if self.verdict is None or not self.judges or self.verdict.outcome == "auto_pass_with_warning":
            why = f": {self.verdict.feedback}" if self.verdict is not None and self.verdict.feedback else ""
            return f"not reviewed{why}"
        passed = sum(one.passed for one in self.verdict.criteria)
        word = "passes" if self.verdict.outcome == "pass" else "does not pass"
        again = f" in attempt {self.attempts}" if self.attempts > 1 else ""
        text = f"{' and '.join(self.judges)} judged the answer of {self.author}: it {word}{again}"
        return clean(f"{text}, {passed} of {len(self.verdict.criteria)} criteria, score {self.verdict.score or 0:.2f}")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "judges": list(self.judges),
            "author": self.author,
            "attempts": self.attempts,
            "outcome": "not_reviewed" if self.verdict is None else self.verdict.outcome,
            "score": None if self.verdict is None else self.verdict.score,
        }


def review_of_run(events: Sequence[Event]) -> RunReview:
    """Return the last review in the record of a run."""
    from teamwright.values.events.team import TeamEvaluationResult

    results = [event.fact for event in events if isinstance(event.fact, TeamEvaluationResult)]
    last = next((one for one in reversed(results) if one.verdict.outcome != "not_reviewed"), None)
    if last is None:
        return RunReview((), "", 0)
    judges = tuple(dict.fromkeys(one.member for one in last.verdict.judges))
    return RunReview(judges, last.member, last.attempt, last.verdict)


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
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Begin without asking, and form a team also where one is only suggested.")
]
Confirm = Annotated[
    bool,
    typer.Option("--confirm", help="Ask before one agent begins, too; without a terminal the run pauses."),
]


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The arguments of `teamwright ask`."""

    text: str
    model: AnyModel
    folder: Path
    run_id: str | None
    limits: Limits | None
    yes: bool
    confirm: bool
    quiet: bool = False
    strategy: FormedStrategy = "expert"


@dataclass(frozen=True, slots=True)
class RoutedTask:
    """A task with its route: the source, and the draft of its team if it has one."""

    request: AskRequest

    route: Route
    source: Source
    drafted: DraftedTeam | None = None

    def to_json(self) -> dict[str, JsonValue]:
        formation = self.source.formation
        formed = None if formation is None else formation.model_dump(mode="json")
        return {**self.route.to_json(), "formation": formed}


def ask(
    task: Task = None,
    *,
    file: TaskFile = None,
    model: Model = "local",
    yes: Yes = False,
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
    """Answer a task with one agent or a team of experts, and say which and why.

    Examples:
      teamwright ask "Plan a bakery." --max-usd 1
      teamwright ask "@team:analyst,editor Compare the two offers." --confirm
    """
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cli.terminal.command_setup import check_new_id
    from teamwright.teams.team_loader import resolve_model

    check_out(out)
    check_new_id(run_id)
    text = require_task(read_task(task, file))
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    options = AskOptions(text, resolve_model(model), folder, run_id, limits, yes, confirm, quiet, strategy)
    with redirect_prints():
        return run_on_loop(partial(_ask, options, ViewOptions(json, events, quiet, out, no_input, full)))


async def _ask(options: AskOptions, shown: ViewOptions) -> int:
    from teamwright.cli.foreground_run import drive, local_hint, report_end
    from teamwright.cli.terminal.command_setup import new_engine
    from teamwright.experts.ask_command import review_of_run
    from teamwright.experts.team_or_agent import parse_request
    from teamwright.runtime.recorded.identity import require_same_task
    from teamwright.teams.preflight import check_ready
    from teamwright.teams.team_loader import team_from_source

    request = parse_request(options.text)
    async with new_engine() as engine:
        router = _router(engine, options)
        if options.run_id is not None and await engine.journal.find(options.run_id) is not None:
            await require_same_task(engine.journal, options.run_id, request.task, options.model)
            return await _follow(engine, options.run_id, shown)
        await check_ready(team_from_source(router.agent(), engine.models), engine.models)
        asks = not options.yes and not options.quiet and _can_prompt(shown)
        routed = await _routed_task(router, request, options, asks=asks)
        confirm: bool | Confirmer = options.confirm and not options.yes
        if asks and (options.confirm or routed.drafted is not None):
            routed, confirm = await _confirmed(router, routed, recorded=options.confirm)
            shown = replace(shown, no_input=shown.no_input or confirm is True)  # put off: the run is paused
        elif routed.drafted is not None and not options.quiet:
            say(await _overview(router, routed))
        team = team_from_source(routed.source, engine.models)
        handle = await engine.start(
            team, request.task, run_id=options.run_id, limits=router.limits_left, confirm=confirm
        )
        ended = await drive(engine, handle, shown)
        review = None if routed.drafted is None else review_of_run(await engine.journal.read(ended.run_id))
        if review is not None and not options.quiet:
            say(f"review    {review}")
        more = {"routing": routed.to_json(), "review": None if review is None else review.to_json()}
        hint = local_hint(routed.source.manifest, 'teamwright ask "…"')
        return await report_end(engine, ended, shown, hint, more=more)


async def _follow(engine: Engine, run_id: str, shown: ViewOptions) -> int:
    """Report a run that exists already: nothing is routed or formed again."""
    from teamwright.cli.foreground_run import report_end

    say(f"run {run_id} exists already; nothing new is started")
    return await report_end(engine, await engine.runs.result(run_id), shown)


def _router(engine: Engine, options: AskOptions) -> Router:
    from teamwright.experts.team_or_agent import Router

    templates = open_templates(options.folder)
    return Router(engine, options.model, Path.cwd(), templates, options.run_id, options.limits, options.strategy)


async def _routed_task(router: Router, request: AskRequest, options: AskOptions, *, asks: bool) -> RoutedTask:
    """Route the task, say why, and form its team: the one that was asked for, or one that is suggested to a person."""
    route = await router.route(request)
    tell = _silent if options.quiet else say
    tell(route.reason)
    if route.mode == "agent" and not (route.suggests_team and (asks or options.yes or options.confirm)):
        if route.suggests_team:
            tell('form it with  --yes, or with  teamwright ask "@team …"')
        return RoutedTask(request, route, router.agent())
    drafted = await router.draft(request)
    return RoutedTask(request, replace(route, mode="team"), router.team(drafted, request.task), drafted)


def _silent(text: str) -> None:
    """Say nothing."""


def _can_prompt(shown: ViewOptions) -> bool:
    return not shown.no_input and sys.stdin.isatty() and sys.stderr.isatty()


async def _overview(router: Router, routed: RoutedTask) -> str:
    """Return who works on the task, how, and what it is expected to cost, as an aligned table."""
    from teamwright.experts.ask_command import overview
    from teamwright.runtime.people.questions import forecast_text
    from teamwright.teams.team_loader import team_from_source
    from teamwright.wings import hooks

    if not sys.stderr.isatty():  # no one is there to decide by a forecast
        return overview(routed.source)
    team = team_from_source(routed.source, router.engine.models)
    forecast = "forecast  needs an optional part that is not installed: teamwright[lab]"
    for forecast_run in hooks("forecast"):
        expected: SpendForecast = await forecast_run(
            router.engine.journal, team, routed.request.task, router.limits_left
        )
        forecast = forecast_text(expected)
    return f"{overview(routed.source)}\n{forecast}"


async def _confirmed(router: Router, routed: RoutedTask, *, recorded: bool) -> tuple[RoutedTask, bool | Confirmer]:
    """Show the team, its plan and its forecast until the person decides or puts it off; an edit shows them again.

    A run that was put off or refused has a record that says so; one that begins has it where it is to be `recorded`.
    """
    from rich.console import Console

    from teamwright.cli.question_prompt import Keyboard, Prompt

    prompt = Prompt(Console(stderr=True, highlight=False), Keyboard(sys.stdin.fileno()))
    while True:
        say(await _overview(router, routed))
        answer = await prompt.ask("", _question(routed), with_draft=False)
        if answer is None:
            return routed, True
        match answer.text:
            case "edit":
                routed = _edited(router, routed, str(answer.data), prompt)
            case "alone":
                return RoutedTask(routed.request, replace(routed.route, mode="agent"), router.agent()), False
            case "yes" if not recorded:
                return routed, False
            case text:
                return routed, _answering(begin=text == "yes")


def _answering(*, begin: bool) -> Confirmer:
    """The answer of the person to the run, which records it."""
    return lambda _: begin


def _question(routed: RoutedTask) -> Question:
    from teamwright.values.people import Question

    if routed.drafted is None:
        return Question(text="May it begin?", choices=("yes", "no"), reason="approval")
    alone = ("alone",) if routed.route.suggests_team else ()
    draft = routed.drafted.draft.model_dump_json(indent=2, exclude_unset=True)
    choices = ("yes", *alone, "edit", "no")
    return Question(text="May this team begin?", choices=choices, reason="approval", draft=draft, form="json")


def _edited(router: Router, routed: RoutedTask, text: str, prompt: Prompt) -> RoutedTask:
    """The plan with the edited draft; unchanged, with the reason, if the draft can't be used."""
    from pydantic import ValidationError

    from teamwright.experts.formation import TeamDraft
    from teamwright.experts.team_or_agent import DraftedTeam
    from teamwright.values.text.validation_messages import misfits_of, misfits_text

    try:
        draft = TeamDraft.model_validate_json(text)
    except ValidationError as error:
        prompt.say(f"The edit can't be used: {misfits_text(misfits_of(error, text))}. Nothing is changed.")
        return routed
    how = routed.drafted.how if routed.drafted is not None else "named"
    drafted = DraftedTeam(draft, how, ("a person has edited the team",))
    return replace(routed, source=router.team(drafted, routed.request.task), drafted=drafted)
