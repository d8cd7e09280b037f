"""`teamwright runs apply` and `runs prune`: take over the changes of a run to its workspace, and remove its trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_engine, with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunSummary


def apply(
    run: Run,
    branch: Annotated[
        str, typer.Option("--branch", metavar="NAME", help="The name of the branch, teamwright/RUN by default.")
    ] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Take over what a run has changed: as a branch of its repository, or in its plain folder.

    The tree and the index of the repository stay as they are; merge the branch yourself. In a plain folder nothing is
    written if a file to write has changed since the run began.

    Examples:
      teamwright runs apply last
      teamwright runs apply last --branch fix-the-tests
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.runtime.recorded.reader import read_record
        from teamwright.runtime.trees.apply import RecordedBranch

        recorded = RecordedBranch(engine.journal, await read_record(engine.journal, found.id))
        done = await recorded.apply(branch)
        if json:
            write_json({"run_id": found.id, "commit": recorded.branch.tip(), "done": done}, out)
        else:
            write_result(done, out)
        return 0

    return with_run(run, work)


def prune(json: Json = False, out: Out = None) -> int:
    """Remove the trees of members of runs that have ended; one with changes that nothing records is kept, and named.

    Example:
      teamwright runs prune
    """
    check_out(out)

    async def work(engine: Engine) -> int:
        from teamwright.runtime.trees.run_trees import prune_trees

        pruned = await prune_trees(engine.journal)
        if json:
            write_json({"removed": pruned.removed, "kept": list(pruned.kept)}, out)
        else:
            write_result(f"{count_text(pruned.removed, 'tree')} removed", out)
        for place in pruned.kept:
            say(f"kept, since it has changes that no record has: {place}")
        return 0

    return with_engine(work)
