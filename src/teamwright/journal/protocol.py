"""The contract of a journal, and the status of a run, folded from its events alone.

The driver of a run appends its events; other processes read, or send to its inbox.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct

from teamwright.errors import EventsLost, FencedOut, JournalCorrupt, JournalError
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import (
    RunEnded,
    RunInterrupted,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
    ScopeWaited,
)
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary, Status, StopReason, iso, iso_after
from teamwright.values.usage_and_prices import add_usd

if TYPE_CHECKING:
    from teamwright.journal.agent_notes import Notes
    from teamwright.journal.tenant_budgets import BudgetClaim, Budgets


STATUS_FACTS = frozenset((RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued, RunEnded))
"""Facts that change the status of a run, or attach or detach its driver."""
SUMMED_FACTS = STATUS_FACTS | {AgentReturned, ScopeWaited}
"""Facts that change more than the number and the time."""
Committed = Callable[[BaseException | None], None]
"""Called in the event loop's thread when a batch is durable, or with the error that prevented it."""


@dataclass(slots=True)
class RunStatus:
    """The status of a run after the events that were applied to it, in order.

    `seconds` is the time with a driver until `since`, when the current driver began, minus waits for people. `last` is
    the time of the latest event with a driver, and `number` the number of the latest event. `parent` is the run of
    which this one is a branch, and `driver` the process that resumed it last, or the server that started it. A paused
    run goes on by itself `resume_at` that time.
    """

    number: int = 0
    team: str = ""
    started: float | None = None
    status: Status | None = None
    stop_reason: StopReason | None = None
    tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    since: float | None = None
    last: float | None = None
    resume_at: float | None = None
    conversation: str = ""
    parent: str = ""
    driver: str = ""

    def apply(self, event: Event) -> None:
        """Apply one event; most change only the number and the time."""
        if self.since is None:
            self.since = event.time
        if event.fact.__class__ in SUMMED_FACTS:
            self._apply_fact(event, event.fact)
        self.number = event.number
        if self.status is None:
            self.last = event.time

    def _apply_fact(self, event: Event, fact: Fact) -> None:
        if isinstance(fact, AgentReturned):
            self.tokens += fact.usage.total_tokens
            self.usd = add_usd(self.usd, fact.usage.usd)
        elif isinstance(fact, ScopeWaited) and not event.scope:
            self.seconds -= fact.seconds
        else:
            self._change_status(fact, event.time)

    def _change_status(self, fact: Fact, time: float) -> None:
        match fact:
            case RunStarted():
                self.team, self.started, self.since = fact.team, time, time
                self.conversation, self.parent, self.driver = fact.conversation, fact.parent, fact.driver
            case RunResumed():
                self.seconds, self.since = self._elapsed(self.last), time
                self.status, self.stop_reason, self.driver, self.resume_at = None, None, fact.driver, None
            case RunPaused():
                self.seconds, self.since = self._elapsed(time), time
                self.status, self.stop_reason, self.resume_at = "paused", fact.stop_reason, fact.resume_at
            case RunInterrupted():
                self.seconds, self.since = self._elapsed(time), time
                self.status = "interrupted"
            case RunQueued():
                self.seconds, self.since = self._elapsed(time), time
                self.status = "queued"
            case RunEnded():
                self.seconds, self.since = fact.seconds, time
                self.status, self.stop_reason = fact.status, fact.stop_reason
            case _:
                pass

    def _elapsed(self, until: float | None) -> float:
        return self.seconds + max(0.0, (until or 0.0) - (self.since or 0.0))

    @property
    def settled(self) -> bool:
        """Whether the status holds whether or not a driver is attached."""
        return self.status not in {None, "interrupted"}

    def columns(self) -> tuple[str | float | None, ...]:
        """The values to store, in the order of the fields."""
        return tuple(getattr(self, name) for name in COLUMNS)

    def summary(self, run_id: str, *, driven: bool) -> RunSummary:
        """Return the summary of the run; `driven` (its driver lock is held) tells running from interrupted."""
        return RunSummary(
            id=run_id,
            team=self.team,
            status=self.status if self.status and self.settled else ("running" if driven else "interrupted"),
            stop_reason=self.stop_reason,
            started_at="" if self.started is None else iso(self.started),
            seconds=max(0.0, self._elapsed(self.last)),
            total_tokens=self.tokens,
            usd=self.usd,
            conversation=self.conversation,
            parent=self.parent,
            driver=self.driver,
            resume_at=iso_after(self.resume_at) if self.status == "paused" else "",
            since=self.since or 0.0,
        )


COLUMNS = tuple(field.name for field in fields(RunStatus))
"""The names of the fields, which are columns of the database."""


class Batch(Struct, frozen=True):
    """The content of one commit: one or more events of a run in order, and the new bodies that they refer to.

    A body is JSON text, identified by its content hash. `alone` says that the run can do nothing else until this batch
    is durable. Events of a fork also refer to bodies of the run `source`. If that run no longer exists, the batch fails
    with `JournalCorrupt`; once the batch is durable, deleting `source` keeps these bodies. The run reserves `claim` in
    the same commit; without room for it the batch fails with `BudgetUnavailable`. Only a journal that keeps budgets
    gets batches with a claim.
    """

    events: Sequence[Event]
    bodies: Mapping[Body, str]
    alone: bool = False
    source: str | None = None
    claim: BudgetClaim | None = None

    @property
    def run_id(self) -> str:
        return self.events[0].run_id


class InboxItem(Struct, frozen=True):
    """One intervention in a run's inbox. Ids grow in the order of sending."""

    id: int
    run_id: str
    intervention: Intervention


class TokenRates(Protocol):
    """A store of one text for each model: the latest requests that its tokens per byte are learnt from.

    They are an aid and no record: a run needs none of them to resume, and of several processes that write at once the
    last one wins.
    """

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last, if anything."""
        ...

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model, in place of what was saved before."""
        ...


class Journal(ABC):
    """Durable storage of runs. What a journal need not have is a method or a property with a default.

    `append` never waits. Batches become durable atomically and in the given order; then `done` is called. A batch with
    an event whose (run, number) exists already fails with `FencedOut`. After a failed batch, further batches of the run
    fail with the same error until the driver lock is acquired again. A body is stored once, however many events refer
    to it.
    """

    instant: bool = False
    """Whether a batch is already committed when `append` returns."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Wait for pending commits, then release all resources."""

    @abstractmethod
    def append(self, batch: Batch, done: Committed) -> None: ...

    @abstractmethod
    def drive(self, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the run's driver lock for the length of an `async with` block.

        Entering never waits for another holder: it raises `RunIsLive`. The lock is released when its process ends, even
        by a crash. The block may be entered in one task and left in another, so no cancel scope may span it.
        """

    @abstractmethod
    async def is_driven(self, run_id: str) -> bool:
        """Whether any process holds the run's driver lock now."""

    @abstractmethod
    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """Return the run's events with a number above `after`, in order, except the kinds in `without`."""

    @abstractmethod
    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Return the JSON text of each body."""

    @abstractmethod
    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """Return the summaries of all runs, or of the `limit` newest, newest first.

        With `conversation`, only the turns of that conversation; an empty name stands for all conversations.
        """

    @abstractmethod
    async def find(self, run_id: str) -> RunSummary | None: ...

    @abstractmethod
    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs and the bodies that only they refer to; return the number of bytes freed.

        Unknown ids are skipped. If one of the runs is driven, nothing is deleted: it raises `RunIsLive`.
        """

    @abstractmethod
    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox, from any process. Only the driver of the run acts on it."""

    @abstractmethod
    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """Return the run's inbox items with an id above `after`, in order."""

    @abstractmethod
    async def changed(self, every: float) -> None:
        """Wait until an inbox may have changed. A journal that is not notified of changes polls at this interval."""

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the children of these runs, newest first, without the children of children.

        A child is a branch that a run has placed on a worker. The figures of a run include those of its children, so a
        sum over runs takes `top_runs` alone. Override it to find children without reading all runs.
        """
        return [run for run in await self.runs() if run.parent and run.parent in run_ids]

    async def descendants(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the children of these runs, and the children of children."""
        found: list[RunSummary] = []
        while run_ids:
            children = await self.children(run_ids)
            found += children
            run_ids = {run.id for run in children}
        return found

    async def top_runs(self, limit: int | None = None, which: RunFilter | RecentRuns = ALL_RUNS) -> list[RunSummary]:
        """Return the runs that are no children and fit, newest first or in their order, at most `limit`.

        Override it to find them without reading all runs.
        """
        return which.pick([run for run in await self.runs() if not run.parent], limit)

    async def count_recent(self, which: RecentRuns) -> int:
        """Return how many runs fit, whatever page is asked for. Override it to count without reading all runs."""
        return which.count(await self.runs())

    async def open_runs(self) -> list[RunSummary]:
        """Return the runs that have not ended, newest first. Override it to find them without reading all runs."""
        return [run for run in await self.runs() if run.status not in FINAL]

    async def restore(self, item: InboxItem) -> None:
        """Add an inbox item of another journal under its id; raises `JournalError` if this journal can't."""
        raise JournalError(f"{type(self).__name__!r} can't take the inbox of run {item.run_id!r} from another journal.")

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[bool]:
        """Within this block, call `wake` when another process may have committed events of a run, or released it.

        The block gets whether the journal hears of such changes; if not, followers have to poll.
        """
        return nullcontext(False)

    @property
    def notes(self) -> Notes | None:
        """The notes that agents keep across runs, if the journal keeps them."""
        return None

    @property
    def token_rates(self) -> TokenRates | None:
        """What is known of the tokens of models, if the journal keeps it."""
        return None

    @property
    def budgets(self) -> Budgets | None:
        """The budgets of tenants across runs, if the journal keeps them."""
        return None


def fenced_out(run_id: str) -> FencedOut:
    """The error of a batch whose numbers another driver has used."""
    return FencedOut(
        f"Run {run_id!r} is driven by another process now, so this one stops; what it recorded is kept."
        f" Follow it with  teamwright runs show {run_id} --follow"
    )


def events_lost(run_id: str, number: int) -> EventsLost:
    """The error of a batch whose predecessor is gone, or is another event than the one that was committed."""
    return EventsLost(
        f"The journal has lost event {number} of run {run_id!r}, which it had confirmed: its server was replaced by a"
        " replica that lagged behind, or restored from a backup. So the run stops, and what it did since may not be"
        f" recorded. Calls that are not recorded are made again with  teamwright runs resume {run_id}"
    )


def missing_bodies(hashes: Collection[Body]) -> JournalCorrupt:
    """The error of bodies that are missing or do not match their hash."""
    return JournalCorrupt(
        f"The journal is damaged: {len(hashes)} of the texts that a run refers to are missing or altered, for example"
        f" {min(hashes)[:40]!r}. Restore a backup of the journal, or start the run again."
    )


def missing_source(run_id: str) -> JournalCorrupt:
    """The error of a fork whose source run no longer exists."""
    return JournalCorrupt(f"Run {run_id!r}, which is being forked, is no longer in the journal.")


def damaged(run_id: str, what: str) -> JournalCorrupt:
    """The error of a run whose record is invalid."""
    return JournalCorrupt(
        f"The record of run {run_id[:100]!r} is damaged ({what}): restore a backup of the journal, or start the run"
        " again; other runs are not affected."
    )


async def commit(journal: Journal, batch: Batch) -> None:
    """Append a batch and wait until it is durable; raise the error if the journal rejects it."""
    done = anyio.Event()
    failure: list[BaseException] = []

    def committed(error: BaseException | None) -> None:
        failure.extend([error] if error else [])
        done.set()

    journal.append(batch, committed)
    await done.wait()
    if failure:
        raise failure[0]


@asynccontextmanager
async def driver_lock(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Hold the run's driver lock; raises `RunIsLive` when another driver holds it.

    The release is shielded from cancellation, because a journal may have to release its lock over a network while the
    engine is closing.
    """
    lock = journal.drive(run_id)
    await lock.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await lock.__aexit__(None, None, None)
