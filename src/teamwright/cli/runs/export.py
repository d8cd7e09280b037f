"""`teamwright runs export`: a run as one JSON document or one HTML file, or runs in another journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import find_run, with_run
from teamwright.cli.terminal.options import complete_runs
from teamwright.cli.terminal.output import Json, check_out, one_line, say, write_file, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import size_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.copy import CopiedRun
    from teamwright.runtime.engine import Engine
    from teamwright.values.events.agent import Body
    from teamwright.values.events.event import Event
    from teamwright.values.turns.results import RunSummary

FORMAT = "teamwright.run/1"
PAGE_ENDINGS = (".html", ".htm")
JOURNAL_ENDINGS = (".db", ".sqlite")


def export(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]…",
            help="A run's id, a unique prefix of it, or `last`; into a journal several, by default all.",
            autocompletion=complete_runs,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="In an HTML file: the prompts of all turns too.")] = False,
    json: Json = False,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE|URL", help="A file: FILE.json, FILE.html, or a journal: FILE.db, a URL."),
    ] = None,
) -> int:
    """Export a run as one JSON document or one HTML file, or copy runs into another journal.

    The document holds the result, the manifest, the events, and the bodies that events refer to. `--out FILE.html`
    shows the conversation, the plan and the money, with everything masked that looks like a secret. `--out FILE.db`, or
    the URL of a Postgres database, copies runs from the journal in use, or from that of --journal, and checks each by
    its digest: runs that are being driven are left out, and a copied run must be resumed in one of the two only.

    Examples:
      teamwright runs export last --out run.html
      teamwright runs export --out backup.db
      teamwright runs export --out postgresql://localhost/teamwright
    """
    from teamwright.journal.location import is_url

    if out is not None and (is_url(out) or Path(out).suffix.lower() in JOURNAL_ENDINGS):
        return _copy_runs(runs, out, json=json)
    file = None if out is None else Path(out)
    check_out(file)
    if len(runs or ()) != 1:
        raise UsageError("Name one run to export; several, or all, go into a journal:  --out FILE.db, or a URL")
    html = file if file is not None and file.suffix.lower() in PAGE_ENDINGS and not json else None

    async def work(engine: Engine, found: RunSummary) -> int:
        if html is not None:
            return await export_page(engine, found.id, html, prompts=full)
        write_json(await export_run(engine, found.id), file, private=True)
        return 0

    return with_run((runs or [""])[0], work)


async def export_run(engine: Engine, run_id: str) -> dict[str, JsonValue]:
    """Return the run's result, manifest and events, and every body that an event refers to.

    Files of the task and of tools are named by the events, with type and size; their bytes are left out.
    """
    from teamwright.history.event_bodies import bodies_of
    from teamwright.journal.codec import decode_body
    from teamwright.values.events.agent import AgentReplied

    history = await engine.runs.history(run_id)
    ended = await engine.runs.result(run_id)
    bodies = {body for event in history.events for body in bodies_of(event)}
    replies = [event.fact for event in history.events if isinstance(event.fact, AgentReplied)]
    bodies.update(artifact.hash for reply in replies for artifact in reply.artifacts)
    texts = await engine.journal.bodies(bodies - set(_tool_files(history.events)))
    return {
        "format": FORMAT,
        "result": ended.to_json(),
        "task": history.task,
        "manifest": history.manifest,
        "events": [event.to_json() for event in history.events],
        "bodies": {body: decode_body(text) for body, text in sorted(texts.items())},
    }


async def export_page(engine: Engine, run_id: str, file: Path, *, prompts: bool) -> int:
    """Write a run as one HTML file."""
    from teamwright.wings import required_hook

    text = await required_hook("export_page", "A run as an HTML file")(engine, run_id, prompts=prompts)
    write_file(text, file, private=True)
    say(f"run {run_id} written to {str(file)!r} ({size_text(len(text.encode()))}); open it in a browser")
    return 0


def _tool_files(events: Iterable[Event]) -> Iterator[Body]:
    from teamwright.values.events.agent import AgentReturned

    for event in events:
        if isinstance(event.fact, AgentReturned):
            yield from (artifact.hash for artifact in event.fact.artifacts)


def _copy_runs(runs: list[str] | None, target: str, *, json: bool) -> int:
    """Copy runs into another journal, and print how many; the exit code is 1 if one of them is not there after it."""
    import anyio

    copied = anyio.run(_copy, runs, target, not json)
    if json:
        write_json([one.to_json() for one in copied])
    else:
        write_result(_summary(copied))
    return 0 if all(one.outcome in ("copied", "present") for one in copied) else 1


async def _copy(runs: list[str] | None, target: str, tell: bool) -> list[CopiedRun]:
    from teamwright.journal.copy import copy_runs
    from teamwright.journal.location import has_journal, resolve_journal

    if not has_journal():
        raise UsageError("There is no journal to copy from; name one with  --journal FILE")
    source, other = resolve_journal(), resolve_journal(target)
    copied: list[CopiedRun] = []
    await source.open()
    try:
        named = None if not runs else [(await find_run(source, run)).id for run in runs]
        await other.open()
        try:
            async for run in copy_runs(source, other, named):
                copied.append(run)
                if tell and run.outcome not in ("copied", "present"):
                    say(f"{one_line(run.run_id)}: {run.reason}")
        finally:
            await other.close()
    finally:
        await source.close()
    return copied


def _summary(copied: list[CopiedRun]) -> str:
    from collections import Counter

    counts = Counter(one.outcome for one in copied)
    shown = {"copied": "copied", "present": "there already", "live": "being driven", "differs": "different there"}
    parts = [f"{counts[outcome]} {shown.get(outcome, outcome)}" for outcome in (*shown, "failed") if counts[outcome]]
    return f"{len(copied)} runs: {', '.join(parts)}" if copied else "there are no runs to copy"
