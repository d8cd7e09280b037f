"""`teamwright runs test`: makes a case of a run, which `teamwright test` replays."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import check_out, say
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.testing.cases.case_file import LoadedCase
    from teamwright.values.turns.results import RunSummary

SUFFIXES = (".yaml", ".yml")


def make_case(
    run: Run,
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The case: FILE.yaml; its recording is written beside it.")
    ],
    manifest: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="The manifest of the team, if it is not found.")
    ] = None,
) -> int:
    """Make a test of a run: a case that `teamwright test` replays without calling anything.

    The case holds the task, what people answered and what the run did; the replies of models and tools are beside it.
    Secrets and paths of this machine are removed. Look at both files before you share them.

    Example:
      teamwright runs test last --out tests/cases/first.yaml
    """
    if out.suffix not in SUFFIXES:
        raise UsageError(f"--out {str(out)!r}: a case is a YAML file; write  --out {out.with_suffix('.yaml')}")
    out.parent.mkdir(parents=True, exist_ok=True)
    check_out(out)

    import anyio.to_thread

    async def work(engine: Engine, found: RunSummary) -> int:
        extend_sys_path()
        case, changed = await _make(engine, found, out, manifest)
        return await anyio.to_thread.run_sync(partial(_verify, case, changed))

    return with_run(run, work)


async def _make(engine: Engine, found: RunSummary, out: Path, manifest: Path | None) -> tuple[LoadedCase, str]:
    """Write the case of a run, with what its calls sent as the team was then; returns it with what has changed."""
    import anyio.to_thread

    from teamwright.testing.cases.case_of_run import case_of_run, with_prompts, write_case

    history, result = await engine.runs.history(found.id), await engine.runs.result(found.id)
    case, source, team = await case_of_run(engine.journal, history, result, out, manifest)
    case = await anyio.to_thread.run_sync(partial(with_prompts, case, source))
    write_case(case)
    return case, f"{str(team.manifest)!r} has changed since the run" if team.has_changed else ""


def _verify(case: LoadedCase, changed: str) -> int:
    """Replay the case that was written, and say how that went."""
    from teamwright.testing.cases.replay import run_case

    what = [f"{len(case.recording.replies)} replies"]
    if case.case.answers:
        what.append(f"{count_text(len(case.case.answers), 'answer')} of people")
    say(f"wrote {case.path} with {' and '.join(what)}; replay it with  teamwright test {case.path}")
    result = run_case(case.path)
    if result.passes:
        return 0
    say(f"it does not pass now{f', since {changed}' if changed else ''}:")
    for line in result.lines():
        say(line)
    return 1
