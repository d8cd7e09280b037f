"""Commands of `teamwright runs` that read closely: logs, checkpoints, and what two runs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import Json, Out, check_out, result, result_json, say

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunSummary


def logs(
    run: Run,
    member: Annotated[str | None, typer.Option("--member", help="Only this member; a team with all inside it.")] = None,
    level: Annotated[
        str, typer.Option("--level", help="At least this weighty: debug, info, warning or error.")
    ] = "debug",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run stops.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Print what each member did, said and logged."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.logs import LogQuery

        await LogQuery(found.id, member, level, follow, json, out).show(engine)
        return 0

    return with_run(run, work)


def checkpoints(run: Run, json: Json = False, out: Out = None) -> int:
    """List the points at which a fork of a run can begin."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.text.checkpoints import points_table

        points = await engine.runs.checkpoints(found.id)
        if json:
            result_json([point.to_json() for point in points], out)
        else:
            result(points_table(points), out)
        return 0

    return with_run(run, work)


def checkpoint(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the point that the run has come to.")],
    by: Annotated[str, typer.Option("--by", help="Who says so; it is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Give the present point of a run a name.

    `runs fork RUN --at NAME` goes back to it.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        made = await engine.runs.checkpoint(found.id, name, by=by)
        if json:
            result_json(made.to_json(), out)
        else:
            result(f"checkpoint {made.name} (event {made.number})", out)
        say(f"go back to it with: teamwright runs fork {found.id} --at {made.name}")
        return 0

    return with_run(run, work)


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A run's id, a unique beginning of it, or `last`.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another run.")],
    json: Json = False,
    out: Out = None,
) -> int:
    """Compare two runs, and say where they part.

    The exit code is 0 whether or not they differ.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.interactive.find_run import find_run
        from teamwright.cli.text.diff import compared
        from teamwright.history.diff import compare

        a, b = found.id, (await find_run(engine.journal, second)).id
        histories = await engine.runs.history(a), await engine.runs.history(b)
        comparison = compare(*histories, await engine.runs.result(a), await engine.runs.result(b))
        if json:
            result_json(comparison.to_json(), out)
        else:
            result(compared(comparison), out)
        return 0

    return with_run(first, work)
