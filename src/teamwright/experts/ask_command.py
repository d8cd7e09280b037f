"""`teamwright ask`: answers a task with one agent or with a team of experts that it forms, and says which and why."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say
from teamwright.experts.template_commands import DEFAULT, Folder, open_templates

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cli.question_prompt import Prompt
    from teamwright.experts.router import AskRequest, DraftedTeam, Route, Router
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.run_request import Confirmer
    from teamwright.values.limits import Limits, SpendForecast
    from teamwright.values.people import Question
    from teamwright.values.specs.manifest import Source
    from teamwright.values.specs.models import AnyModel


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
    options = AskOptions(text, resolve_model(model), folder, run_id, limits, auto, confirm, quiet, strategy)
    with redirect_prints():
        return run_on_loop(partial(_ask, options, ViewOptions(json, events, quiet, out, no_input, full)))


async def _ask(options: AskOptions, shown: ViewOptions) -> int:
    from teamwright.cli.foreground_run import drive, report_end
    from teamwright.cli.terminal.command_setup import new_engine
    from teamwright.experts.router import parse_request
    from teamwright.runtime.run_identity import require_same_task
    from teamwright.teams.preflight import check_ready
    from teamwright.teams.team_loader import team_from_source

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
    from teamwright.cli.foreground_run import report_end

    say(f"run {run_id} exists already; nothing new is started")
    return await report_end(engine, await engine.runs.result(run_id), shown)


def _router(engine: Engine, options: AskOptions) -> Router:
    from teamwright.experts.router import Router

    templates = open_templates(options.folder)
    return Router(engine, options.model, Path.cwd(), templates, options.run_id, options.limits, options.strategy)


async def _routed_task(router: Router, request: AskRequest, options: AskOptions) -> RoutedTask:
    """Route the task, form its team, and say why."""
    from teamwright.cli.views.result_wording import formation_of

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

    from teamwright.cli.question_prompt import Keyboard, Prompt
    from teamwright.cli.views.result_wording import formation_of

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
    from teamwright.teams.team_loader import team_from_source
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
