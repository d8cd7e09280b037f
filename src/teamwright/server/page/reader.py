"""Reads what a page shows of a recorded run: its page events, and the files and large texts that its members stored."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator

from teamwright.errors import UnknownName
from teamwright.history.record.asks import RecordedBodies
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.runtime.run_reader import read_events
from teamwright.server.page.builder import page_artifacts
from teamwright.server.page.page_events import PageArtifact, PageEvent
from teamwright.server.page.projection import PageProjection, needed_bodies
from teamwright.values.events.agent import AgentReplied, AgentReturned, Body, WorkspaceKept
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.artifacts import BYTES, Artifact

BATCH = 200
"""The events whose texts are read at once."""
NO_BODIES = RecordedBodies()


class PageReader:
    """Projects the events of one run, in order, and reads the texts that they need."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id
        self.projection = PageProjection()
        self.number = 0
        """The number of the last event that was applied."""

    async def catch_up(self, number: int) -> None:
        """Apply the events up to a number, whose page events the client has already."""
        while number > self.number:
            events = await self._journal.read(self._run_id, self.number, min(BATCH, number - self.number))
            if not events:
                return
            for event in events:
                self.projection.catch_up(event, await self._read(needed_bodies(event, catching_up=True)))
                self.number = event.number

    async def page_events(self, event: Event) -> list[PageEvent]:
        """Apply the next event, and return its page events."""
        bodies = await self._read(needed_bodies(event))
        self.number = event.number
        return self.projection.apply(event, bodies)

    async def recorded(self, limit: int | None = None) -> AsyncGenerator[PageEvent]:
        """Yield the page events of all recorded events that were not applied yet, or of the first `limit` of them."""
        last = None if limit is None else self.number + limit
        while events := await self._journal.read(self._run_id, self.number, _batch(self.number, last)):
            bodies = await self._read({body for event in events for body in needed_bodies(event)})
            for event in events:
                self.number = event.number
                for one in self.projection.apply(event, bodies):
                    yield one

    async def _read(self, needed: Collection[Body]) -> RecordedBodies:
        return RecordedBodies(await self._journal.bodies(needed)) if needed else NO_BODIES


def _batch(number: int, last: int | None) -> int:
    return BATCH if last is None else min(BATCH, last - number)


async def read_page_events(journal: Journal, run_id: str, after: int = 0, limit: int | None = None) -> list[PageEvent]:
    """Return the page events of the recorded events of a run after a number, or of the first `limit` of them."""
    reader = PageReader(journal, run_id)
    await reader.catch_up(after)
    return [event async for event in reader.recorded(limit)]


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
