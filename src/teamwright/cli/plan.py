"""`teamwright plan`: the schedule of a plan, before anything runs: a table of its tasks and its batches."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.options import TeamName, With
from teamwright.cli.terminal.output import Json, Out, check_out, columns, one_line, say, write_json, write_result
from teamwright.values.text.display import NOTHING, count_text, cut, number_text

if TYPE_CHECKING:
    from teamwright.strategies.plan.schedule_maker import PlannerSettings, Prepared
    from teamwright.values.specs.plan import Plan, Step

WIDTH = 80
TOKENS_COLUMN = 62
WIDEST = 24
MOST_ROWS = 60
MOST_DRAWN = 30
MOST_OF_PATH = 12
CRITICAL, OTHER = "◆", "●"


def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A task file, or a manifest of a team with steps.")],
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="The team's task, for steps that have none of their own.")
    ] = None,
    *,
    max_parallel: Annotated[
        int | None, typer.Option("--at-once", min=1, metavar="N", help="How many tasks may run at once (10).")
    ] = None,
    run_budget: Annotated[
        int | None, typer.Option("--max-tokens", min=0, metavar="TOKENS", help="Tokens for the whole run.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Prepare it for single, lead, star, mesh, or auto, the best."),
    ] = None,
    team: TeamName = None,
    more: With = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Schedule tasks: order, conflict-free batches, token budgets, critical path and handoffs.

    Nothing runs. Code that a manifest names is listed, not loaded. With --topology, the evaluation of topologies comes
    first, and the one that is taken sets the options that you omit.

    Examples:
      teamwright plan tasks.yaml --max-tokens 20000
      teamwright plan team.yaml "Write the report." --topology auto
    """
    from teamwright.strategies.plan.schedule_maker import prepare
    from teamwright.wings import required_hook

    check_out(out)
    read, settings = _read(file, task, team, more)
    given = {"max_parallel": max_parallel, "run_budget": run_budget}
    settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
    if topology is not None:
        prepared, document, reason = required_hook("plan_bundle", "--topology")(read, settings, topology)
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
    from teamwright.strategies.plan.schedule_maker import PlannerSettings
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
    from teamwright.cli.terminal.command_setup import report_unloaded_code
    from teamwright.teams.manifests.plans import preview_plan
    from teamwright.teams.team_loader import read_manifest, source_of

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


def schedule_text(prepared: Prepared, plan: Plan) -> str:
    """A schedule as a summary line, a table and a drawing."""
    return "\n\n".join([_summary(prepared), _table(prepared, plan), _drawing(prepared), _legend(prepared)])


def _summary(prepared: Prepared) -> str:
    figures, schedule, limit = prepared.diagnostics, prepared.schedule, prepared.settings.run_budget
    batches = f"{number_text(figures.batch_count)} batch{'' if figures.batch_count == 1 else 'es'}"
    return (
        f"{count_text(figures.task_count, 'task')} in {batches}, at most {figures.max_parallelism} at once"
        f" and {round(figures.mean_parallelism, 2):g} on average · {number_text(schedule.total_tokens)}"
        f"{'' if limit is None else f' of {number_text(limit)}'} tokens"
    )


def _table(prepared: Prepared, plan: Plan) -> str:
    schedule = prepared.schedule
    steps = {step.id: step for step in plan.steps}
    budgets = {budget.task: budget for budget in schedule.budgets}
    rows = [("BATCH", "TASK", "AGENT", "NEEDS", "OWNS", "WORK", "TALK", "WHAT")]
    for batch in schedule.batches:
        for task in batch.tasks[: MOST_ROWS + 1 - len(rows)]:
            budget = budgets[task]
            rows.append((
                str(batch.index), task, *_cells(steps[task]), number_text(budget.execution),
                number_text(budget.coordination), _short(one_line(steps[task].task or "")),
            ))  # fmt: skip
    kept = [place for place in range(len(rows[0])) if any(row[place] not in {NOTHING, ""} for row in rows[1:])]
    shown = columns([[row[place] for place in kept] for row in rows])
    more = len(schedule.order) - len(rows) + 1
    return f"{shown}\n… and {count_text(more, 'task')} more; --json has them all" if more else shown


def _cells(step: Step) -> tuple[str, str, str]:
    return step.assignee or NOTHING, _short(", ".join(step.needs)), _short(", ".join(step.owns))


def _short(text: str) -> str:
    text = one_line(text)
    return cut(text, WIDEST) if text else NOTHING


def _drawing(prepared: Prepared) -> str:
    """The batches from top to bottom, with the tasks of the critical path marked."""
    critical = set(prepared.diagnostics.critical_path)
    lines: list[str] = []
    batches = prepared.schedule.batches
    margin = len(str(min(len(batches), MOST_DRAWN) - 1)) + 2
    for batch in batches[:MOST_DRAWN]:
        if lines:
            lines.append(" " * margin + "↓")
        marked = [f"{CRITICAL if task in critical else OTHER} {task}" for task in batch.tasks]
        first, *rest = _wrapped(marked, TOKENS_COLUMN - margin - 2)
        tokens = count_text(batch.tokens, "token")
        lines.append((str(batch.index).ljust(margin) + first).ljust(TOKENS_COLUMN) + tokens)
        lines += [" " * margin + line for line in rest]
    if len(batches) > MOST_DRAWN:
        lines.append(f"… and {number_text(len(batches) - MOST_DRAWN)} more batches")
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(tasks: Sequence[str], width: int) -> Iterator[str]:
    """Tasks wrapped into lines; a mark is never separated from its task."""
    line = ""
    for task in tasks:
        if line and len(line) + 3 + len(task) > width:
            yield line
            line = ""
        line += ("   " if line else "") + task
    yield line


def _legend(prepared: Prepared) -> str:
    path = prepared.diagnostics.critical_path
    shown = [*path[:MOST_OF_PATH], "…"] if len(path) > MOST_OF_PATH else path
    text = f"{CRITICAL} critical path, {count_text(len(path), 'step')}: {' → '.join(shown)}"
    envelopes = (
        f"{count_text(len(prepared.envelopes), 'envelope')} to the workers, about"
        f" {count_text(prepared.envelope_tokens, 'token')}"
    )
    return "\n".join([*textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False), envelopes])
