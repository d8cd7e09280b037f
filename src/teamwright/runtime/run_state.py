"""The state that all contexts of one run share while it is being driven."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from teamwright.agents.agent import Agent, ApplyChange, CheckChange
from teamwright.errors import DuplicateKey, JournalUnavailable, NonDeterminism, TeamwrightError
from teamwright.history.recorded_charges import Store
from teamwright.history.run_record import EXPIRED, RunRecord
from teamwright.runtime.budget.ledger import Account, AskLimits
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.locks import ActionLedger, PathLocks
from teamwright.runtime.ordered_delivery import OrderedDelivery
from teamwright.runtime.people.interventions import Interventions
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.tasks import CANCEL_GRACE, ContainedTask
from teamwright.values.events.agent import Body
from teamwright.values.events.budget import BudgetOpened
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunAborted, ScopeWaited
from teamwright.values.limits import Amounts, Limits
from teamwright.values.people import Answer, Question
from teamwright.values.retries import Recovery
from teamwright.values.run_keys import in_scope, is_inside, parent_key, parent_keys
from teamwright.values.turns.messages import EMPTY, History
from teamwright.values.turns.turn import Failure, MemberRequest, Reply
from teamwright.values.usage_and_prices import NO_COST, dollars

if TYPE_CHECKING:
    from teamwright.agents.effect import Attempt, Effect, Returned
    from teamwright.runtime.working_trees.member_trees import RunTrees
    from teamwright.values.turns.turn import Turn


class ReplayObserver(Protocol):
    """Sees each open turn and each call of a replay first. One that does not return keeps it from happening.

    A replay that calls nothing reads no files either: they begin at this `commit`, if there is one.
    """

    commit: str = ""

    async def begin(self, key: str) -> None:
        """Return when a turn may begin that is not recorded."""

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Look at a turn before its member takes it."""
        ...

    async def call(self, key: str, effect: Effect, *, is_recorded: bool) -> None:
        """Look at a call before its recorded result is returned, or before it is made."""
        ...

    async def place(self, *, is_recorded: bool) -> None:
        """Look at a place before which people may change the outermost team; the record may have come beyond it."""
        ...

    def call_of(self, key: str, effect: Effect) -> Callable[[Attempt], Awaitable[Returned]]:
        """Return what makes a call that is not recorded: the effect itself, or what stands in for it in a test."""
        return effect.call


ABANDONED_PAUSE = 0.05
"""Seconds after which abandoned code that reaches the run again is ended."""

SHORTEST_RECORDED_WAIT = 0.01
"""Seconds of waiting for people below which nothing is recorded."""


class PendingQuestion(NamedTuple):
    """A question that a branch in this process waits for."""

    question: Question
    answer: asyncio.Future[Answer]


class Horizon:
    """The number of the last event that a reader of the workspace sees."""

    __slots__ = ("number",)

    def __init__(self, number: int = 0) -> None:
        self.number = number


class OpenCall(Protocol):
    """A call that is in flight; `holder` is its member if a reservation is held for it, else empty."""

    @property
    def holder(self) -> str: ...

    @property
    def goes_on(self) -> bool:
        """Whether what the call does goes on without its driver."""
        ...

    def abandon(self) -> None:
        """Charge the call in full and stop waiting for it; what its code does later changes nothing."""
        ...


class OpenResource(Protocol):
    """Something open inside a scope that other branches may wait for: branches, a deadline, path locks."""

    @property
    def key(self) -> str:
        """Its key, which begins with the path of its scope and a separator."""
        ...

    def abandon(self) -> None:
        """Let others continue without it; what its code does later changes nothing."""
        ...


@dataclass(slots=True)
class RunState:
    """The state of one run under one driver."""

    run_id: str
    seed: int
    record: RunRecord
    recorder: Recorder
    delivery: OrderedDelivery
    redactor: Redactor
    bus: Bus
    wall: Callable[[], float]
    read_bodies: Callable[[Collection[Body]], Awaitable[dict[Body, str]]]
    limiters: RateLimiters = field(default_factory=RateLimiters)
    prompt_meter: PromptMeter = field(default_factory=PromptMeter)
    limits: Limits | None = None
    grace: float = CANCEL_GRACE
    """Seconds that members have to end once they are cancelled."""
    driver: asyncio.Task[Any] | None = None
    """The engine's task that drives the run; no code of a member runs in it."""
    root: ContainedTask[Any] | None = None
    """The parent of every task in the run."""
    stopped: bool = False
    error: TeamwrightError | None = None
    reached_asks: set[str] = field(default_factory=set[str])
    """The keys of all asks that this driver has reached."""
    ask_folders: set[str] = field(default_factory=set[str])
    """The keys between a scope and a place in it: `t/round-1` of `t/round-1/a` in `t`; no ask has one of them."""
    closing: bool = False
    """Whether the driver is stopping; nothing more is recorded then."""
    cancelled: bool = False
    aborted: RunAborted | None = None
    """Set when a person aborted the run; `cancelled` is set then too."""
    pausing: bool = False
    busy_agents: int = 0
    open_calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    """Calls in flight, by key."""
    open_turns: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """How to abandon each open turn, by key, in the order of their start."""
    open_resources: dict[OpenResource, None] = field(default_factory=dict["OpenResource", None])
    """Open resources, in the order of their opening."""
    abandoned: list[str] = field(default_factory=list[str])
    """Scopes whose members did not end when they were stopped; what they still do never reaches the run."""
    has_abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    now: float = 0.0
    """The time of the event that was delivered last."""
    task: str = ""
    history: History = EMPTY
    """The conversation that the run began with."""
    horizon: Horizon = field(default_factory=Horizon)
    last_delivered: int = 0
    """The number of the event that was delivered last."""
    store: Store = field(default_factory=Store)
    requests: dict[str, list[MemberRequest]] = field(default_factory=dict[str, "list[MemberRequest]"])
    """What members want of others, by the key of the ask in which they said so, in order."""
    delivered: dict[str, tuple[int, Reply | Failure]] = field(default_factory=dict[str, tuple[int, "Reply | Failure"]])
    """Endings that asks have returned, with the number of their event, by key."""
    marks: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    questions: dict[str, PendingQuestion] = field(default_factory=dict[str, "PendingQuestion"])
    provider_waits: Counter[float] = field(default_factory=Counter[float])
    """How many calls wait until which time for providers that take none before."""
    call_returned: Callable[[], None] = lambda: None
    cancel: Callable[[], None] = lambda: None
    """Ends the run, after everything recorded has been replayed."""
    new_actions: Callable[[], ActionLedger] | None = None
    """Makes the ledger of actions; `None` without a journal."""
    interventions: Interventions | None = None
    """What people have changed in the run; `None` as long as they have changed nothing."""
    check_change: CheckChange | None = None
    """Returns why the team can't be changed so now; `None` as long as its strategy has not said so."""
    apply_at_once: ApplyChange | None = None
    """Carries out changes that wait for no place; `None` as long as the strategy has not said how."""
    changed_scope: str = ""
    """The scope of the team that these change."""
    ask_limits: AskLimits = field(default_factory=AskLimits)
    accounts: dict[str, Account] = field(default_factory=dict[str, Account])
    """The accounts of the run and of its outermost team, by scope."""
    place: Callable[[Agent, Recovery | None], Agent] | None = None
    """Returns the member that answers in place of another, as a run of its own on a worker; `None` without workers."""
    observer: ReplayObserver | None = None
    """What observes a replay from inside; `None` in every run that is driven."""
    trees: RunTrees | None = None
    """The trees of members and the team's branch; `None` where the team has no workspace of files."""
    _path_locks: PathLocks | None = None
    _actions: ActionLedger | None = None

    @property
    def path_locks(self) -> PathLocks:
        """Which scopes of the run own which paths; most runs never need it."""
        if self._path_locks is None:
            self._path_locks = PathLocks(self.delivery)
        return self._path_locks

    @property
    def actions(self) -> ActionLedger | None:
        """The actions that calls of this run and its forks have made; `None` without a journal."""
        if self._actions is None and self.new_actions is not None:
            self._actions = self.new_actions()
        return self._actions

    def advance_to(self, event: Event) -> None:
        """Move the run's time and its horizon to an event that was delivered."""
        self.now, self.last_delivered = event.time, event.number
        self.horizon.number = max(self.horizon.number, event.number)

    def abort(self, error: TeamwrightError) -> None:
        """Stop everything because the run itself is broken, and leave the record as it is."""
        if self.error is None:
            self.error = error
        self.closing = True
        self.recorder.discard()
        self.stop()

    def stop(self) -> None:
        """Cancel everything that the run does; `closing`, `cancelled` or `error` already says why."""
        self.stopped = True
        if self.root is not None:
            self.root.stop()

    @property
    def interrupted(self) -> bool:
        """Whether the driver is stopping. No library can reset the cancellation count of the driver's own task."""
        return self.closing or (self.driver is not None and self.driver.cancelling() > 0)

    def abandon(self, scope: str = "") -> None:
        """Continue without what runs inside a scope, because it does not end; its open turns are recorded as ended."""
        self.abandoned.append(scope)
        self.has_abandoned.set()
        for key in [key for key in self.open_calls if is_inside(key, scope)]:
            self.open_calls.pop(key).abandon()
        for key in reversed([key for key in self.open_turns if is_inside(key, scope)]):
            self.open_turns.pop(key)()
        for resource in reversed([resource for resource in self.open_resources if is_inside(resource.key, scope)]):
            del self.open_resources[resource]
            resource.abandon()

    def is_abandoned(self, path: str) -> bool:
        return any(in_scope(path, scope) for scope in self.abandoned)

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Read bodies from the journal; one that can't be read stops the run, as one that can't be written does."""
        try:
            return await self.read_bodies(hashes)
        except JournalUnavailable as error:
            self.abort(error)
            raise

    def record_wait(self, scope: str, since: float) -> None:
        """Record that a scope has waited for people or providers, unless the run is aborting."""
        seconds = self.wall() - since
        if seconds >= SHORTEST_RECORDED_WAIT and self.error is None:
            self.recorder.add(scope, "", ScopeWaited(seconds=seconds))

    async def park_until_cancelled(self) -> NoReturn:
        """Park the caller until it is cancelled: the driver is stopping, so nothing more is decided or recorded.

        Abandoned code is not cancelled again, so it is ended here; after a pause, since it may try again for ever.
        """
        await self.has_abandoned.wait()
        await asyncio.sleep(ABANDONED_PAUSE)
        raise asyncio.CancelledError("abandoned")

    @property
    def is_waiting_outside(self) -> bool:
        """Whether, with every branch waiting, only an answer can unblock the run, or the time of a provider."""
        answered = any(waiting.answer.done() for waiting in self.questions.values())
        waits = self.questions or self.provider_waits
        return bool(waits) and not self.busy_agents and not self.open_calls and not answered

    @property
    def resume_at(self) -> float | None:
        """When the first of the providers that calls wait for takes calls again."""
        return min(self.provider_waits, default=None)

    def unreached_ask(self) -> str | None:
        """Return the key of an ask that was open when the record ended and that this driver has not reached, if any."""
        if not self.record.number:
            return None
        open_asks = (
            key for key, ask in self.record.asks.items() if ask.ending is None and key not in self.reached_asks
        )
        return next((key for key in open_asks if self._is_due(key)), None)

    def _is_due(self, key: str) -> bool:
        """Whether only teams that have not ended enclose an ask; an agent may act differently when it runs again."""
        for scope in parent_keys(key):
            if (around := self.record.asks.get(scope)) and (around.ending is not None or not around.is_team):
                return False
        return True

    def check_place(self, key: str, scope: str) -> None:
        """Check that an ask lies beside the others of its scope; raises `DuplicateKey` if it does not."""
        if key in self.reached_asks:  # under another spelling: `a/b` in this scope, and `b` in the scope `a`
            raise DuplicateKey(key)
        if key in self.ask_folders:
            raise DuplicateKey(key, "is that of an ask, with others of its scope below it")
        self.reach_folders(key, scope)

    def reach_folders(self, key: str, scope: str) -> None:
        """Keep the keys between a scope and a place in it from asks, whose endings would stand for that place too."""
        folder = parent_key(key)
        while folder != scope:
            if folder in self.reached_asks:
                raise DuplicateKey(key, f"lies below the ask {folder!r} of its scope")
            self.ask_folders.add(folder)
            folder = parent_key(folder)

    def report_mismatch(self, key: str, recorded: str, replayed: str) -> None:
        """Abort the run because replay and record differ at an ask, unless a fork inherited it: then return."""
        ask = self.record.asks.get(self.record.turn_of(key.removesuffix(EXPIRED)))
        self.report_mismatch_at(ask.number if ask else None, recorded, replayed)

    def report_mismatch_at(self, number: int | None, recorded: str, replayed: str) -> None:
        """Abort the run because replay and the event of this number differ, unless a fork inherited that event."""
        if number is None or number > self.record.inherited:
            error = NonDeterminism(self.run_id, recorded, replayed)
            self.abort(error)
            raise error

    def open_account(self, scope: str, limits: Limits | None, parent: Account | None) -> Account | None:
        """Return the account of a scope; a scope without limits uses that of its parent."""
        if limits is None or not limits.bounds_spend:
            return parent
        before = self.record.charges.by_scope.get(scope)
        account = Account(scope, limits, parent, before.cost if before else NO_COST)
        if not parent_key(scope):
            self.accounts[scope] = account
        return account

    def record_limits(self, scope: str, limits: Limits) -> None:
        """Record, once, that these limits apply to a scope; those on asks are counted and no budget."""
        if limits.bounds_asks:
            self.ask_limits.add(scope, limits)
        bounds = limits.bounds.changed(asks=None, depth=None)
        if scope not in self.record.budgets.opened and bounds.given:
            self.record.budgets.opened.add(scope)
            before = self.record.charges.by_scope.get(scope)
            spent = None
            if before is not None and before.cost != NO_COST:
                spent = Amounts(tokens=before.tokens, usd=dollars(before.usd), calls=before.calls)
            self.recorder.add(scope, "", BudgetOpened(limits=bounds, spent=spent))

    def supersede(self, key: str, account: Account | None) -> None:
        """Mark a recorded ask as superseded by a fork, and take its cost off every account around it."""
        levels = [(level, self.record.charges.by_scope[level.name]) for level in account.chain()] if account else []
        before = [spent.cost for _, spent in levels]
        self.record.supersede(key)
        if self.trees is not None:
            self.trees.branch.leave_out(key, self.record.inherited)
        for (level, spent), once in zip(levels, before, strict=True):
            level.correct(once, spent.cost)
