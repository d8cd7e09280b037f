"""A journal that remembers the texts it has just recorded: followers need them at once, and reading takes a thread."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager

from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal
from teamwright.journal.stores import Budgets, Notes, TokenRates
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import RunSummary

MOST_CHARACTERS = 8 * 1024 * 1024


class RecentBodies(Journal):
    """Wraps a journal. A text is named by its content, so that what is remembered can't be out of date."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.instant = journal.instant
        self._recent: OrderedDict[Body, str] = OrderedDict()
        self._characters = 0

    @property
    def wrapped(self) -> Journal:
        """The journal inside."""
        return self._journal

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Return texts, from memory where they are recent."""
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
        """As the journal inside."""
        return self._journal.notes

    @property
    def token_rates(self) -> TokenRates | None:
        """As the journal inside."""
        return self._journal.token_rates

    @property
    def budgets(self) -> Budgets | None:
        """As the journal inside."""
        return self._journal.budgets

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[bool]:
        """As the journal inside."""
        return self._journal.watching(run_id, wake)

    async def open(self) -> None:
        """As the journal inside."""
        await self._journal.open()

    async def close(self) -> None:
        """As the journal inside."""
        await self._journal.close()

    def drive(self, run_id: str) -> AbstractAsyncContextManager[None]:
        """As the journal inside."""
        return self._journal.drive(run_id)

    async def is_driven(self, run_id: str) -> bool:
        """As the journal inside."""
        return await self._journal.is_driven(run_id)

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """As the journal inside."""
        return await self._journal.read(run_id, after, limit, without=without)

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """As the journal inside."""
        return await self._journal.runs(limit, conversation=conversation)

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        """As the journal inside."""
        return await self._journal.children(run_ids)

    async def find(self, run_id: str) -> RunSummary | None:
        """As the journal inside."""
        return await self._journal.find(run_id)

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs, and forget what is remembered."""
        self._recent.clear()
        self._characters = 0
        return await self._journal.delete(run_ids)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """As the journal inside."""
        await self._journal.send(run_id, intervention)

    async def restore(self, item: InboxItem) -> None:
        """As the journal inside."""
        await self._journal.restore(item)

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """As the journal inside."""
        return await self._journal.inbox(run_id, after)

    async def changed(self, every: float) -> None:
        """As the journal inside."""
        await self._journal.changed(every)
