"""`teamwright runs blame`: which step of a bad run could be fixed, tried by forks of it."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, recorded_source, with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import Json, Out, check_out, columns, write_json, write_result
from teamwright.errors import UsageError
from teamwright.lab.commands.eval import goes_on
from teamwright.values.text.display import NOTHING, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from teamwright.history.run_history import RunHistory
    from teamwright.lab.experiments.blame import Blame, Fixed
    from teamwright.lab.experiments.dataset import Case, DataSet
    from teamwright.lab.experiments.grades import Judges
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.recorded.reader import TeamSource
    from teamwright.teams.team import Team
    from teamwright.values.specs.manifest import Source
    from teamwright.values.turns.results import RunSummary
    from teamwright.values.value import JsonValue

LONGEST_WHY = 72
GUESSES = "nothing was tried, so these are guesses"
HEADS = ("STEP", "MEMBER", "FIXED", "WHY IT IS SUSPECTED")


Expected = Annotated[str | None, typer.Argument(metavar="[EXPECTED]", help="Words that a good answer contains.")]
Cases = Annotated[Path | None, typer.Option("--from", metavar="FILE", help="A data set with a case of the run's task.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=50, metavar="N", help="Try the N first suspects.")]
Attempts = Annotated[
    int, typer.Option("--attempts", min=0, max=100, metavar="N", help="Fork so often before each; 0 tries nothing.")
]
Hint = Annotated[str | None, typer.Option("--hint", metavar="TEXT", help="What the member reads before its step.")]
OtherModel = Annotated[
    str, typer.Option("--model", metavar="MODEL", help="Another model for the member, in place of a hint.")
]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=100, metavar="N", help="At most N forks at once.")]
MostUsd = Annotated[
    float | None, typer.Option("--max-usd", min=0, metavar="X", help="Limit all forks together to X US dollars.")
]


def blame(
    run: Run,
    expected: Expected = None,
    *,
    cases: Cases = None,
    limit: Limit = 3,
    attempts: Attempts = 3,
    hint: Hint = None,
    model: OtherModel = "",
    at_once: AtOnce = 4,
    max_usd: MostUsd = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Name the steps of a bad run whose change could fix it, and try: fork before each, with a hint or another model.

    A run is bad if it failed, if a review did not pass, or if its answer is not what you say is expected. The same
    command goes on where it was interrupted.

    Example:
      teamwright runs blame last 42 --attempts 10 --max-usd 1
    """
    check_out(out)
    if expected is not None and cases is not None:
        raise UsageError("EXPECTED and --from both say what a good answer is; use one of them.")
    asked = hint if hint is not None else ("" if model else None)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.lab.experiments.blame import HINT, Blame
        from teamwright.lab.experiments.dataset import DataSet
        from teamwright.lab.experiments.experiment import Experiment
        from teamwright.lab.experiments.grades import Judges

        extend_sys_path()
        history = await engine.runs.history(found.id)
        source = await recorded_source(engine, found.id)
        judges = Judges(source.source, engine.models)
        data, case = _case(history, expected, cases, judges)
        known = data or DataSet(cases=())
        experiment = Experiment(engine, known, (), judges.team, limit=at_once, most_usd=max_usd)
        team = _teams(engine, source, model)
        blamed = Blame(experiment, history, case, team, attempts, HINT if asked is None else asked, model)
        await blamed.check()
        fixed = await blamed.tried(blamed.named()[:limit])
        if json:
            write_json({"run_id": found.id, "tried": any(one.tried for one in fixed), "steps": _as_json(fixed)}, out)
        else:
            write_result(_text(blamed, fixed), out)
        return 0

    with goes_on():
        return with_run(run, work)


def _case(
    history: RunHistory, expected: str | None, file: Path | None, judges: Judges
) -> tuple[DataSet | None, Case | None]:
    """What is expected of the run: the given words, or the case of its task."""
    from teamwright.lab.experiments.dataset import Case, DataSet, read_data_set

    if expected is not None:
        case = Case(id="expected", task=history.task, expected=expected)
        return DataSet(cases=(case,)), case
    if file is None:
        return None, None
    data = read_data_set(file, judges.problems)
    for case in data.cases:
        if case.task.strip() == history.task.strip():
            return data, case
    raise UsageError(f"No case of {str(file)!r} has the task of this run.")


def _teams(engine: Engine, source: TeamSource, model: str) -> Callable[[str], Team]:
    """Make the team of the run, in which a member may have another model."""

    @cache
    def make(member: str) -> Team:
        changed = source.changed(partial(_with_model, member=member, model=model)) if model else source
        return changed.build(engine.models, recorded=not model)

    return make


def _with_model(source: Source, *, member: str, model: str) -> Source:
    from teamwright.teams.team_loader import resolve_model

    spec = source.manifest.agents.get(member)
    if spec is None or spec.model is None:
        return source
    agents = {**source.manifest.agents, member: spec.model_copy(update={"model": resolve_model(model)})}
    return source.model_copy(update={"manifest": source.manifest.model_copy(update={"agents": agents})})


def _text(blamed: Blame, fixed: Sequence[Fixed]) -> str:
    from teamwright.lab.experiments.report import interval_text
    from teamwright.lab.simulation.trials import step_name

    rows = [
        (
            step_name(one.suspect.key),
            one.suspect.member,
            f"{one.fixed} of {one.tried}" if one.tried else NOTHING,
            cut("; ".join(one.suspect.why) or "nothing, but that it came early", LONGEST_WHY),
        )
        for one in fixed
    ]
    lines = [columns([HEADS, *rows]), ""]
    for one in fixed:
        if one.tried:
            step = step_name(one.suspect.key)
            lines.append(f"forked before step {step!r}: {one.fixed} of {one.tried} pass, {interval_text(one.rate)}")
    if not any(one.tried for one in fixed):
        how = "" if blamed.tries else "; --attempts 3 tries them"
        lines.append(f"{GUESSES}{how}")
    elif not any(one.fixed for one in fixed):
        lines.append("no fork fixed it: another step, or more than one, may be at fault")
    return "\n".join(lines)


def _as_json(fixed: Sequence[Fixed]) -> list[JsonValue]:
    from teamwright.lab.simulation.trials import step_name

    return [{"step": step_name(one.suspect.key), **one.to_json()} for one in fixed]
