"""`teamwright plan`: the schedule of a plan, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.options import TeamName, With
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
    from teamwright.strategies.plan.planner import PlannerSettings
    from teamwright.values.specs.plan import Plan


def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A task file, or a manifest of a team with steps.")],
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="The team's task, for steps that have none of their own.")
    ] = None,
    *,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", min=1, metavar="N", help="How many tasks may run at once (10).")
    ] = None,
    run_budget: Annotated[
        int | None, typer.Option("--run-budget", min=0, metavar="TOKENS", help="Tokens for the whole run.")
    ] = None,
    coordination_floor: Annotated[
        int | None,
        typer.Option(
            "--coordination-floor", min=0, metavar="TOKENS", help="Least tokens of coordination per task (8)."
        ),
    ] = None,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Evaluate topologies first; the best one sets the options that you omit.")
    ] = False,
    team: TeamName = None,
    more: With = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Schedule tasks: order, conflict-free batches, token budgets, critical path and handoffs.

    Nothing runs. Code that a manifest names is listed, not loaded.
    """
    from teamwright.cli.text.schedule import schedule_text
    from teamwright.strategies.plan.planner import prepare
    from teamwright.wings import required_hook

    check_out(out)
    read, settings = _read(file, task, team, more)
    given = {"max_parallel": max_parallel, "run_budget": run_budget, "coordination_floor": coordination_floor}
    settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
    if bundle:
        prepared, document, reason = required_hook("plan_bundle", "--bundle")(read, settings)
    else:
        prepared = prepare(read, settings)
        document, reason = prepared.to_json(), None
    _warn_over_budget(read, prepared.settings)
    if json:
        write_json(document, out)
    else:
        text = schedule_text(prepared, read)
        write_result(text if reason is None else f"{reason}\n\n{text}", out)
    return 0


def _read(file: Path, task: str | None, team: str | None, more: list[Path] | None) -> tuple[Plan, PlannerSettings]:
    """The plan of a task file or of a team with steps, and the planner settings that the team declares."""
    from teamwright.errors import UsageError
    from teamwright.strategies.plan.planner import PlannerSettings
    from teamwright.teams.manifests.plans import read_plan

    found = None if more or file.is_dir() else read_plan(file)
    if found is None:
        return _read_team(file, task, team, more)
    if task is not None or team is not None:
        raise UsageError(
            f"{str(file)!r} is a task file, whose tasks need no task or team besides; omit the task and --team."
        )
    return found, PlannerSettings()


def _read_team(file: Path, task: str | None, team: str | None, more: list[Path] | None) -> tuple[Plan, PlannerSettings]:
    from teamwright.agents.functions.imports import code_not_loaded
    from teamwright.cli.interactive.sys_path import report_unloaded_code
    from teamwright.teams.load import read_manifest, source_of
    from teamwright.teams.manifests.plans import preview_plan

    with code_not_loaded():
        loaded = read_manifest([file, *(more or ())], models_replaced=True)
        name = source_of(loaded, team=team).team
        found = preview_plan(name, loaded.manifest.teams.get(name), task)
    report_unloaded_code(loaded.manifest)
    return found


def _warn_over_budget(plan: Plan, settings: PlannerSettings) -> None:
    needed = sum(step.execution_tokens for step in plan.steps)
    if settings.run_budget is not None and needed >= settings.run_budget:
        say(
            f"warning: the work alone is estimated at {needed} tokens, and the run budget is {settings.run_budget}:"
            " nothing is left for coordination"
        )
