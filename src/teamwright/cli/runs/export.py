"""`teamwright runs export`: a run as one JSON document, or as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_file, write_json
from teamwright.values.text.display import size_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.runtime.engine import Engine
    from teamwright.values.events.agent import Body
    from teamwright.values.events.event import Event
    from teamwright.values.turns.results import RunSummary

FORMAT = "teamwright.run/1"
PAGE_ENDINGS = (".html", ".htm")


def export(
    run: Run,
    prompts: Annotated[
        bool, typer.Option("--prompts/--no-prompts", help="In an HTML file: include the prompts of all turns.")
    ] = True,
    json: Json = False,
    out: Out = None,
) -> int:
    """Export a run as one JSON document, or, with `--out FILE.html`, as one HTML file.

    The document holds the result, the manifest, the events, and the bodies that events refer to. The HTML file shows
    the conversation, the plan, the money and the prompts, with everything masked that looks like a secret.
    """
    check_out(out)
    html = out if out is not None and out.suffix.lower() in PAGE_ENDINGS and not json else None

    async def work(engine: Engine, found: RunSummary) -> int:
        if html is not None:
            return await export_page(engine, found.id, html, prompts=prompts)
        write_json(await export_run(engine, found.id), out, private=True)
        return 0

    return with_run(run, work)


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
