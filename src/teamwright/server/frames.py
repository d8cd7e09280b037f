"""What clients get of a run: a projection turns its events, and pieces of replies, into encoded frames.

Texts leave the server here, so a projection masks everything that looks like a secret. They were recorded just before:
the journal of a server remembers them, because reading them takes a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
from pydantic import JsonValue

from teamwright.agents.prompt_notices import FENCE, KEY
from teamwright.history.recorded_asks import RecordedBodies, bodies_of, texts_of
from teamwright.journal.agent_notes import Notes
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, TokenRates
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter
from teamwright.journal.tenant_budgets import Budgets
from teamwright.runtime.recorded.reader import deleted_is_not_found
from teamwright.server.page.page_events import encode as encode_page_event, kind_of
from teamwright.server.page.projection import MaskedDeltas, PageProjection, needed_bodies
from teamwright.values.events.agent import Body
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.people import Intervention
from teamwright.values.text.secrets import mask_value
from teamwright.values.turns.results import RunSummary

Item = dict[str, JsonValue]
Form = Literal["page", "events"]
"""Events of the page, or journal events as they are."""
MOST_CHARACTERS = 8 * 1024 * 1024
"""Characters of recent texts that a server remembers."""
ENVELOPE = FENCE + KEY
"""What the envelope of a text begins with."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An encoded item: the number of its event, or `None` for a piece of a reply, and whether it is its last."""

    number: int | None
    kind: str
    text: str
    is_last: bool = True


class Projection(Protocol):
    """Projects one run. It gets every event once, in order from the first; pieces of replies in between."""

    async def project(self, batch: Sequence[Event | AnyDelta]) -> Sequence[Frame]:
        """Return the items of a batch, in order."""
        ...

    def written(self) -> Sequence[Frame]:
        """Return what members are writing now, each part from its beginning: for a client that has just come."""
        ...


MakeProjection = Callable[[Journal, str], Projection]
"""Makes the projection of one run for one reader."""


class EventProjection:
    """Journal events as they are, with the texts that they refer to."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id
        self._deltas = MaskedDeltas()

    async def project(self, batch: Sequence[Event | AnyDelta]) -> Sequence[Frame]:
        """Return an item for each event and piece; the texts of a batch are read at once."""
        bodies = await _read(self._journal, self._run_id, (body for one in _events(batch) for body in bodies_of(one)))
        frames: list[Frame] = []
        for one in batch:
            if isinstance(one, Event):
                self._deltas.end(one)
                frames.append(Frame(one.number, one.kind, encode(_item(one, bodies))))
            elif (masked := self._deltas.masked(one)) is not None:
                frames.append(_piece(masked))
        return frames

    def written(self) -> Sequence[Frame]:
        return [_piece(one) for one in self._deltas.written()]


class PageEventProjection:
    """Events of the page; each journal event yields none or several, and all but the last are marked so."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id
        self._projection = PageProjection()

    async def project(self, batch: Sequence[Event | AnyDelta]) -> Sequence[Frame]:
        """Return the page events of a batch; the texts of a batch are read at once."""
        needed = (body for one in _events(batch) for body in needed_bodies(one))
        bodies = await _read(self._journal, self._run_id, needed)
        frames: list[Frame] = []
        for one in batch:
            if isinstance(one, Event):
                made = self._projection.apply(one, bodies)
                last = len(made) - 1
                frames += [
                    Frame(one.number, kind_of(type(page).__name__), encode_page_event(page).decode(), place == last)
                    for place, page in enumerate(made)
                ]
            elif (delta := self._projection.delta(one)) is not None:
                frames.append(Frame(None, "delta", encode_page_event(delta).decode()))
        return frames

    def written(self) -> Sequence[Frame]:
        return [Frame(None, "delta", encode_page_event(one).decode()) for one in self._projection.written()]


PROJECTIONS: dict[Form, MakeProjection] = {"events": EventProjection, "page": PageEventProjection}


@dataclass(slots=True)
class WithheldEnding:
    """Holds back what the record of a text that is written may leave out at its end: blanks, and an envelope."""

    held: str = ""
    is_cut: bool = False

    def pass_on(self, piece: str) -> str:
        """Return what a piece adds to the text for good."""
        if self.is_cut:
            return ""
        text = self.held + piece
        shown, envelope, _ = text.partition(ENVELOPE)
        self.is_cut = bool(envelope)
        shown = _without_beginning(shown).rstrip()
        self.held = text[len(shown) :]
        return shown


def _without_beginning(text: str) -> str:
    """Leave out the end of a text that may be the beginning of an envelope."""
    for size in range(min(len(ENVELOPE) - 1, len(text)), 0, -1):
        if text.endswith(ENVELOPE[:size]):
            return text[:-size]
    return text


def encode(item: Item) -> str:
    """Return an item as JSON with everything masked that looks like a secret."""
    return msgspec.json.encode(mask_value(item)).decode()


def _piece(masked: AnyDelta) -> Frame:
    return Frame(None, masked.kind, encode({"kind": masked.kind, **masked.to_json()}))


def _events(batch: Iterable[Event | AnyDelta]) -> Iterable[Event]:
    return (one for one in batch if isinstance(one, Event))


async def _read(journal: Journal, run_id: str, bodies: Iterable[Body]) -> RecordedBodies:
    needed = set(bodies)
    if not needed:
        return RecordedBodies()
    async with deleted_is_not_found(journal, run_id):
        return RecordedBodies(await journal.bodies(needed))


def _item(event: Event, bodies: RecordedBodies) -> Item:
    texts = texts_of(event, bodies)
    return {**event.to_json(), "texts": texts} if texts else event.to_json()


class RecentBodies(Journal):
    """Wraps a journal. A text is named by its content, so that what is remembered can't be out of date."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.instant = journal.instant
        self._recent: OrderedDict[Body, str] = OrderedDict()
        self._characters = 0

    @property
    def wrapped(self) -> Journal:
        return self._journal

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        found = {one: self._recent[one] for one in hashes if one in self._recent}
        if len(found) == len(hashes):
            return found
        return found | await self._journal.bodies([one for one in hashes if one not in found])

    def append(self, batch: Batch, done: Committed) -> None:
        """Append a batch, and remember its texts once they are durable."""

        def committed(error: BaseException | None) -> None:
            if error is None:
                self._remember(batch.bodies)
            done(error)

        self._journal.append(batch, committed)

    def _remember(self, bodies: Mapping[Body, str]) -> None:
        for one, text in bodies.items():
            if one not in self._recent:
                self._recent[one] = text
                self._characters += len(text)
        while self._characters > MOST_CHARACTERS:
            self._characters -= len(self._recent.popitem(last=False)[1])

    @property
    def notes(self) -> Notes | None:
        return self._journal.notes

    @property
    def token_rates(self) -> TokenRates | None:
        return self._journal.token_rates

    @property
    def budgets(self) -> Budgets | None:
        return self._journal.budgets

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[bool]:
        return self._journal.watching(run_id, wake)

    async def open(self) -> None:
        await self._journal.open()

    async def close(self) -> None:
        await self._journal.close()

    def drive(self, run_id: str) -> AbstractAsyncContextManager[None]:
        return self._journal.drive(run_id)

    async def is_driven(self, run_id: str) -> bool:
        return await self._journal.is_driven(run_id)

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        return await self._journal.read(run_id, after, limit, without=without)

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        return await self._journal.runs(limit, conversation=conversation)

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        return await self._journal.children(run_ids)

    async def top_runs(self, limit: int | None = None, which: RunFilter | RecentRuns = ALL_RUNS) -> list[RunSummary]:
        return await self._journal.top_runs(limit, which)

    async def count_recent(self, which: RecentRuns) -> int:
        return await self._journal.count_recent(which)

    async def open_runs(self) -> list[RunSummary]:
        return await self._journal.open_runs()

    async def find(self, run_id: str) -> RunSummary | None:
        return await self._journal.find(run_id)

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs, and forget what is remembered."""
        self._recent.clear()
        self._characters = 0
        return await self._journal.delete(run_ids)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        await self._journal.send(run_id, intervention)

    async def restore(self, item: InboxItem) -> None:
        await self._journal.restore(item)

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        return await self._journal.inbox(run_id, after)

    async def changed(self, every: float) -> None:
        await self._journal.changed(every)
