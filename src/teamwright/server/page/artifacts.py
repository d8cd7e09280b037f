"""The artifacts of a run: files and large texts that its members stored, or that its task came with."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator

from teamwright.errors import UnknownName
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.runtime.run_reader import read_events
from teamwright.server.page.page_events import PageArtifact
from teamwright.server.page.projection.conversion import page_artifacts
from teamwright.values.events.agent import AgentReplied, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.workspace import WorkspaceKept
from teamwright.values.secrets.patterns import mask_text
from teamwright.values.turns.artifacts import BYTES, Artifact


async def list_artifacts(journal: Journal, run_id: str) -> tuple[PageArtifact, ...]:
    """Return the artifacts of a run in the order in which they were stored, each once."""
    return page_artifacts(_artifacts(await read_events(journal, run_id)).values())


async def read_artifact(journal: Journal, run_id: str, hash: str) -> tuple[Artifact, bytes]:
    """Return an artifact of a run and its content; raises `UnknownName`. A text is masked.

    The journal stores equal texts of all runs once, so a hash alone proves nothing: only what this run has stored can
    be read.
    """
    known = _artifacts(await read_events(journal, run_id))
    if hash not in known:
        raise UnknownName("artifact", hash, known)
    found = decode_body((await journal.bodies([hash]))[hash])
    if isinstance(found, dict) and BYTES in found:
        return known[hash], b64decode(str(found[BYTES]))
    return known[hash], mask_text(str(found)).encode()


def _artifacts(events: Iterable[Event]) -> dict[str, Artifact]:
    return {one.hash: one for one in _stored(events)}


def _stored(events: Iterable[Event]) -> Iterator[Artifact]:
    for event in events:
        match event.fact:
            case RunStarted(attachments=found) | AgentReplied(artifacts=found) | AgentReturned(artifacts=found):
                yield from found
            case WorkspaceKept(artifact=artifact):
                yield artifact
            case _:
                pass
