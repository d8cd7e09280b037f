"""Commands of `teamwright runs` that inspect a record: logs, checkpoints and the diff of two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_run
from teamwright.cli.terminal.options import Full, Run
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunSummary


def logs(
    run: Run,
    member: Annotated[
        str | None, typer.Option("--member", help="Only this member; a team includes its members.")
    ] = None,
    level: Annotated[str, typer.Option("--level", help="Minimum level: debug, info, warning or error.")] = "debug",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run stops.")] = False,
    full: Full = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Print what each member did, replied and logged."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.logs import LogQuery

        await LogQuery(found.id, member, level, follow, json, out, full).print_lines(engine)
        return 0

    return with_run(run, work)


def checkpoints(run: Run, json: Json = False, out: Out = None) -> int:
    """List the checkpoints of a run, at which it can be forked."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.text.checkpoints import points_table

        points = await engine.runs.checkpoints(found.id)
        if json:
            write_json([point.to_json() for point in points], out)
        else:
            write_result(points_table(points), out)
        return 0

    return with_run(run, work)


def checkpoint(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the checkpoint.")],
    by: Annotated[str, typer.Option("--by", help="Who sets it, which is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Set a named checkpoint at the current point of a run.

    `runs fork RUN --at NAME` forks there.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        made = await engine.runs.checkpoint(found.id, name, by=by)
        if json:
            write_json(made.to_json(), out)
        else:
            write_result(f"checkpoint {made.name} (event {made.number})", out)
        say(f"fork there with: teamwright runs fork {found.id} --at {made.name}")
        return 0

    return with_run(run, work)


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A run's id, a unique prefix of it, or `last`.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another run.")],
    json: Json = False,
    out: Out = None,
) -> int:
    """Compare two runs, and show where they diverge.

    The exit code is 0 whether or not they differ.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.interactive.find_run import find_run
        from teamwright.cli.text.diff import comparison_text
        from teamwright.history.diff import compare

        a, b = found.id, (await find_run(engine.journal, second)).id
        histories = await engine.runs.history(a), await engine.runs.history(b)
        comparison = compare(*histories, await engine.runs.result(a), await engine.runs.result(b))
        if json:
            write_json(comparison.to_json(), out)
        else:
            write_result(comparison_text(comparison), out)
        return 0

    return with_run(first, work)
