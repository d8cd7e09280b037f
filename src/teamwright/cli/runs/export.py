"""`teamwright runs export`: a run as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.journal.decoder import decode_body
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.person import PersonAsked
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.events.workspace import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

FORMAT = "teamwright.run/1"


async def export_run(engine: Engine, run_id: str) -> dict[str, JsonValue]:
    """Return the run's result, manifest and events, and every body that an event refers to."""
    history = await engine.runs.history(run_id)
    ended = await engine.runs.result(run_id)
    texts = await engine.journal.bodies({body for event in history.events for body in references(event)})
    return {
        "format": FORMAT,
        "result": ended.to_json(),
        "task": history.task,
        "manifest": history.manifest,
        "events": [event.to_json() for event in history.events],
        "bodies": {body: decode_body(text) for body, text in sorted(texts.items())},
    }


def references(event: Event) -> Iterator[Body]:
    """The bodies that an event refers to."""
    match event.fact:
        case RunStarted() as fact:
            yield from (fact.task, fact.manifest, *(ref.body for ref in fact.history))
        case RunEnded() as fact:
            yield from (body for body in (fact.output, fact.data) if body is not None)
        case AgentAsked() as fact:
            yield fact.task
        case AgentReplied() as fact:
            yield from (ref.body for ref in fact.messages)
            yield from (artifact.hash for artifact in fact.artifacts)
            yield from [fact.data] if fact.data is not None else ()
        case AgentFailed() as fact:
            yield from (ref.body for ref in fact.messages)
        case AgentReturned() | WorkspaceWritten() | WorkspaceConflicted() as fact:
            yield fact.body
        case WorkspaceKept(artifact=artifact):
            yield artifact.hash
        case PersonAsked(draft=str() as draft):
            yield draft
        case _:
            pass
