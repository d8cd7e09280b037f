"""`teamwright runs tail`: follows a run, whichever process drives it, from any event number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import say, write_json, write_result
from teamwright.cli.text.results import status_text, why_text
from teamwright.cli.views.event_lines import EventLines
from teamwright.cli.views.view import PlainLines, Silent, View
from teamwright.errors import UsageError

if TYPE_CHECKING:
    from teamwright.cli.interactive.drive import ViewOptions
    from teamwright.runtime.engine import Engine


async def follow(engine: Engine, run_id: str, after: int, shown: ViewOptions) -> None:
    """Show the events after a number as they arrive, then the run's status."""
    lines: list[str] = []
    write = write_result if shown.out is None else lines.append
    view: View = PlainLines(engine.journal, write, numbered=True, full=shown.full)
    if shown.events or shown.json:
        view = EventLines(engine.journal, full=shown.full) if shown.events else Silent()
    known = await engine.journal.read(run_id, 0, after) if after else []
    if after and len(known) < after:
        last = known[-1].number if known else 0
        raise UsageError(f"Run {run_id!r} has events 1 to {last}; --after {after} is past the last one.")
    for event in known:
        view.catch_up(event)
    if known or shown.json:  # otherwise the first lines say so
        found = await engine.runs.find(run_id)
        if found is not None and found.status == "queued":
            say(f"run {run_id} waits in its queue for a worker")
    async for item in engine.runs.follow(run_id, after, parts=True):
        await view.show(item)
    ended = await engine.runs.result(run_id)
    if shown.json:
        write_json(ended.to_json(), shown.out)
    elif not shown.events:
        lines.append(f"{status_text(ended)}: {why_text(ended.status, ended.stop_reason)}")
        write_result("\n".join(lines), shown.out)
