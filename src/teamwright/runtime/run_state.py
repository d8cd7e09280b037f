"""What all contexts of one run share while it is being driven."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Protocol

from teamwright.budget.ledger import NO_COST, Account
from teamwright.budget.money import dollars
from teamwright.errors import JournalUnavailable, NonDeterminism, TeamwrightError
from teamwright.history.record.run_record import EXPIRED, RunRecord
from teamwright.history.record.workspace import Store
from teamwright.runtime.admission.rate_limiter import RateLimiters
from teamwright.runtime.bus import Bus
from teamwright.runtime.cancellation import CANCEL_GRACE, ContainedTask
from teamwright.runtime.ordering.delivery import OrderedDelivery
from teamwright.runtime.ordering.path_locks import PathLocks
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.values.events.body import Body
from teamwright.values.events.budget import BudgetOpened, BudgetUnpriced
from teamwright.values.events.event import Event
from teamwright.values.events.run import RUN_FORMAT, RunAborted, ScopeWaited
from teamwright.values.key import in_scope, is_inside, parent_keys
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.usage import Amounts
from teamwright.values.people.questions import Answer, Question
from teamwright.values.turns.turn import Failure, Reply

ABANDONED_PAUSE = 0.05
"""Seconds after which something that was abandoned and comes back to the run is ended."""

WORTH_NOTING = 0.01
"""Seconds of waiting for people that are worth a line in the record."""


class PendingQuestion(NamedTuple):
    """A question that somebody in this process waits to have answered."""

    question: Question
    answer: asyncio.Future[Answer]


class Horizon:
    """The number of the last event that a reader of the workspace sees."""

    __slots__ = ("number",)

    def __init__(self, number: int = 0) -> None:
        self.number = number


class OpenCall(Protocol):
    """A call that has left and has not returned."""

    def abandon(self) -> None:
        """Charge the call in full and wait for it no longer; what its own code does later changes nothing."""
        ...


class Part(Protocol):
    """Something open inside a scope that others may have to wait for: branches, a time limit, keys."""

    @property
    def key(self) -> str:
        """Where it is; it begins with the path of the scope and a separator."""
        ...

    def abandon(self) -> None:
        """Let others go on without it; what its own code does later changes nothing."""
        ...


@dataclass(slots=True)
class RunState:
    """One run under one driver."""

    run_id: str
    seed: int
    past: RunRecord
    recorder: Recorder
    delivery: OrderedDelivery
    redactor: Redactor
    bus: Bus
    wall: Callable[[], float]
    read_bodies: Callable[[Collection[Body]], Awaitable[dict[Body, str]]]
    limiters: RateLimiters = field(default_factory=RateLimiters)
    limits: Limits | None = None
    format: int = RUN_FORMAT
    """The format that the run began with."""
    grace: float = CANCEL_GRACE
    """Seconds that members have to end once they are cancelled."""
    driver: asyncio.Task[Any] | None = None
    """The task of the engine that drives the run: no code of a member runs in it."""
    root: ContainedTask[Any] | None = None
    """The task that everything in the run belongs to."""
    stopped: bool = False
    error: TeamwrightError | None = None
    asked: set[str] = field(default_factory=set[str])
    """Every ask that this driver has come to."""
    closing: bool = False
    cancelled: bool = False
    aborted: RunAborted | None = None
    """That a person aborted the run; then it is `cancelled` as well, for all that are in it."""
    pausing: bool = False
    agents_at_work: int = 0
    open_calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    """The calls that have left, by key."""
    turns: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """How to abandon each turn that a member is taking, by key, in the order in which they began."""
    parts: dict[Part, None] = field(default_factory=dict["Part", None])
    """What is open, in the order in which it was opened."""
    abandoned: list[str] = field(default_factory=list[str])
    """Scopes whose members did not end when they were stopped; what they still do does not reach the run."""
    has_abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    now: float = 0.0
    task: str = ""
    horizon: Horizon = field(default_factory=Horizon)
    store: Store = field(default_factory=Store)
    heard: dict[str, tuple[int, Reply | Failure]] = field(default_factory=dict[str, tuple[int, "Reply | Failure"]])
    marks: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    questions: dict[str, PendingQuestion] = field(default_factory=dict[str, "PendingQuestion"])
    unpriced: dict[str, BudgetUnpriced] = field(default_factory=dict[str, BudgetUnpriced])
    call_returned: Callable[[], None] = lambda: None
    cancel: Callable[[], None] = lambda: None
    """Ends the run, once everything that is recorded has been replayed."""
    path_locks: PathLocks = field(init=False)

    def __post_init__(self) -> None:
        self.path_locks = PathLocks(self.delivery)

    def advance_to(self, event: Event) -> None:
        """Move the run's time and its horizon to an event that was delivered."""
        self.now = event.time
        self.horizon.number = max(self.horizon.number, event.number)

    def abort(self, error: TeamwrightError) -> None:
        """Something is wrong with the run itself: stop everything and leave the record as it is."""
        if self.error is None:
            self.error = error
        self.closing = True
        self.recorder.drop()
        self.stop()

    def stop(self) -> None:
        """Cancel everything that the run does; why is in `closing`, `cancelled` or `error` already."""
        self.stopped = True
        if self.root is not None:
            self.root.stop()

    @property
    def interrupted(self) -> bool:
        """Whether the driver is leaving. No library can change the cancellation count of the driver's own task."""
        return self.closing or (self.driver is not None and self.driver.cancelling() > 0)

    def abandon(self, scope: str = "") -> None:
        """Go on without what runs inside a scope, since it does not end; the record tells how each turn there ended."""
        self.abandoned.append(scope)
        self.has_abandoned.set()
        for key in [key for key in self.open_calls if is_inside(key, scope)]:
            self.open_calls.pop(key).abandon()
        for key in reversed([key for key in self.turns if is_inside(key, scope)]):
            self.turns.pop(key)()
        for part in reversed([part for part in self.parts if is_inside(part.key, scope)]):
            del self.parts[part]
            part.abandon()

    def is_abandoned(self, path: str) -> bool:
        """Whether a scope, or one around it, was abandoned."""
        return any(in_scope(path, scope) for scope in self.abandoned)

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """What the journal holds; when it can't be read, the run stops as it does when it can't be written."""
        try:
            return await self.read_bodies(hashes)
        except JournalUnavailable as error:
            self.abort(error)
            raise

    def record_wait(self, scope: str, since: float) -> None:
        """Record that a scope has waited for people, unless its record has to stay as it is."""
        seconds = self.wall() - since
        if seconds >= WORTH_NOTING and self.error is None:
            self.recorder.add(scope, "", ScopeWaited(seconds=seconds))

    async def park_until_cancelled(self) -> NoReturn:
        """Park the caller until it is cancelled: the driver is leaving, so nothing more is decided or written.

        What was abandoned is not cancelled any more, so that it ends here; slowly, since it may try again for ever.
        """
        await self.has_abandoned.wait()
        await asyncio.sleep(ABANDONED_PAUSE)
        raise asyncio.CancelledError("abandoned")

    @property
    def waits_for_people(self) -> bool:
        """Whether, with every branch waiting, nothing but an answer can move the run on."""
        answered = any(waiting.answer.done() for waiting in self.questions.values())
        return bool(self.questions) and not self.agents_at_work and not self.open_calls and not answered

    def unreached_ask(self) -> str | None:
        """An ask that was under way when the record ended, and that this driver has not come to."""
        if not self.past.number:
            return None
        open_asks = (key for key, ask in self.past.asks.items() if ask.ending is None and key not in self.asked)
        return next((key for key in open_asks if self._is_due(key)), None)

    def _is_due(self, key: str) -> bool:
        """Whether only teams that have not ended stand around an ask: an agent may do something else the next time."""
        for scope in parent_keys(key):
            if (around := self.past.asks.get(scope)) and (around.ending is not None or not around.is_team):
                return False
        return True

    def disagree(self, key: str, recorded: str, replayed: str) -> None:
        """Replay and record differ at an ask: an error, but for what a fork took over, where the record gives way."""
        ask = self.past.asks.get(self.past.turn_of(key.removesuffix(EXPIRED)))
        self.differ(ask.number if ask else None, recorded, replayed)

    def differ(self, number: int | None, recorded: str, replayed: str) -> None:
        """Replay and the event of this number differ; without one it is nothing that a fork took over."""
        if number is None or number > self.past.inherited:
            error = NonDeterminism(self.run_id, recorded, replayed)
            self.abort(error)
            raise error

    def account(self, scope: str, limits: Limits | None, parent: Account | None) -> Account | None:
        """The account of a scope; a scope without limits uses the one around it."""
        if limits is None or not limits.bounds_spend:
            return parent
        before = self.past.charges.by_scope.get(scope)
        return Account(scope, limits, parent, before.cost if before else NO_COST)

    def record_limits(self, scope: str, limits: Limits) -> None:
        """Record, once, that these limits hold in a scope."""
        if scope not in self.past.opened_budgets and limits.bounds.given:
            self.past.opened_budgets.add(scope)
            before = self.past.charges.by_scope.get(scope)
            spent = None
            if before is not None and before.cost != NO_COST:
                spent = Amounts(tokens=before.tokens, usd=dollars(before.usd), calls=before.calls)
            self.recorder.add(scope, "", BudgetOpened(limits=limits.bounds, spent=spent))

    def supersede(self, key: str, account: Account | None) -> None:
        """A fork asks this anew: what had been spent on it is charged no longer, in no account around it."""
        levels = [(level, self.past.charges.by_scope[level.name]) for level in account.chain()] if account else []
        before = [spent.cost for _, spent in levels]
        self.past.supersede(key)
        for (level, spent), once in zip(levels, before, strict=True):
            level.correct(once, spent.cost)
