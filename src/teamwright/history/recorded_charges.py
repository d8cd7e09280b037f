"""What a recorded run has spent, and what a replay of it delivers, in journal order: endings of asks, answers, timers,
interventions and shared values.

An ended turn is charged by the tally in its ending, and that ending stands for everything inside the ask, so it
removes the deliveries inside. On resume, the account of a scope starts from these totals, with the charges of turns
that were open when its record ends. A reader of shared values reads as of an event number, never "now", so that a run
and its replay see the same version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Literal, NamedTuple

from pydantic import JsonValue

from teamwright.history.recorded_asks import RecordedAsk, RecordedBodies
from teamwright.values.events.agent import (
    AgentFailed,
    AgentReplied,
    Body,
    Tally,
    WorkspaceKept,
    WorkspacePatched,
    WorkspaceWritten,
)
from teamwright.values.events.budget import (
    BudgetDegraded,
    BudgetExceeded,
    BudgetMisreported,
    BudgetOpened,
    BudgetUnpriced,
    exceeded_text,
)
from teamwright.values.events.event import Event
from teamwright.values.events.run import (
    RunApplied,
    RunInterrupted,
    RunIntervened,
    RunPaused,
    RunQueued,
    RunRefused,
    RunResumed,
    RunStarted,
)
from teamwright.values.people import PauseMember, ResumeMember, Steer, StopStep
from teamwright.values.run_keys import key_and_parents, parent_key
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.usage_and_prices import NOTHING, BudgetUnit, Cost, Usage, picodollars


class Charges:
    """The sum of the charges within a scope, money in picodollars, and the marks that its calls returned.

    `refused` is what the last call that was refused did not get.
    """

    __slots__ = ("calls", "marks", "refused", "tokens", "usd")

    def __init__(self) -> None:
        self.tokens = self.usd = self.calls = 0
        self.marks: tuple[str, ...] = ()
        self.refused: BudgetUnit | None = None

    @property
    def cost(self) -> Cost:
        return Cost(self.tokens, self.usd, self.calls)

    def add(self, tokens: int, usd: int, calls: int) -> None:
        """Add a charge; a negative one is a refund."""
        self.tokens += tokens
        self.usd += usd
        self.calls += calls


class OpenTurnCharges(Charges):
    """The charges of a turn that has no recorded ending, in total and by scope."""

    __slots__ = ("scopes",)

    def __init__(self) -> None:
        super().__init__()
        self.scopes: dict[str, Charges] = {}


class RecordedCharges:
    """The charges of a run by scope, those of its open turns, and the marks that each member's calls returned."""

    __slots__ = ("by_scope", "marks", "open_turns")

    def __init__(self) -> None:
        self.by_scope: defaultdict[str, Charges] = defaultdict(Charges)
        self.open_turns: dict[str, OpenTurnCharges] = {}
        self.marks: Counter[tuple[str, str]] = Counter()

    def end_turn(self, key: str, scope: str, ask: RecordedAsk) -> None:
        """Charge an ended turn to the scopes around it, by the tally in its ending."""
        self.open_turns.pop(key, None)
        self._charge_turn(scope, ask, 1)

    def refund_turn(self, scope: str, ask: RecordedAsk) -> None:
        """Undo the charge of an ended turn."""
        self._charge_turn(scope, ask, -1)

    def charge_effect(self, turn: str, scope: str, cost: Cost, mark: str | None = None) -> None:
        """Charge an effect to the open turn that it belongs to."""
        charges = self.open_turns.setdefault(turn, OpenTurnCharges())
        charges.add(*cost)
        charges.scopes.setdefault(scope, Charges()).add(*cost)
        if mark:
            charges.marks += (mark,)

    def charge_open_turns(self, asks: Mapping[str, RecordedAsk]) -> None:
        for turn, charges in self.open_turns.items():
            for scope, part in charges.scopes.items():
                self._charge(scope, *part.cost)
            for mark in charges.marks:
                self.marks[asks[turn].asked.member, mark] += 1

    def _charge_turn(self, scope: str, ask: RecordedAsk, times: int) -> None:
        if ask.ending is None or (tally := ask.ending.tally) is None:
            return
        tokens, usd = charge_of(ask.ending)
        self._charge(scope, times * tokens, times * usd, times * tally.calls)
        for mark in tally.marks:
            self.marks[ask.asked.member, mark] += times

    def _charge(self, scope: str, tokens: int, usd: int, calls: int) -> None:
        for around in key_and_parents(scope):
            self.by_scope[around].add(tokens, usd, calls)


def charge_of(ending: AgentReplied | AgentFailed) -> tuple[int, int]:
    """Return what the budget was charged for an ended turn, in tokens and picodollars."""
    return _charged(ending.usage, ending.tally)


def cost_of_run(usage: Usage, tally: Tally) -> Cost:
    """Return what a run has charged to its budget: the cost of the effect that started it."""
    return Cost(*_charged(usage, tally), tally.calls)


def _charged(usage: Usage, tally: Tally | None) -> tuple[int, int]:
    if usage is NOTHING and (tally is None or tally.charged is tally.charged_usd is None):  # a function
        return 0, 0
    tokens = usage.total_tokens if tally is None or tally.charged is None else tally.charged
    return tokens, picodollars(usage.usd if tally is None or tally.charged_usd is None else tally.charged_usd)


class RecordedBudgets:
    """The budget levels that a run has opened, their degradation, and why its limits may not have held."""

    __slots__ = ("exceeded", "misreported", "opened", "rungs", "unpriced")

    def __init__(self) -> None:
        self.opened: set[str] = set()
        self.rungs: dict[str, list[BudgetDegraded]] = {}
        self.unpriced: dict[str, BudgetUnpriced] = {}
        self.exceeded: list[BudgetExceeded] = []
        self.misreported: dict[tuple[str, str], BudgetMisreported] = {}

    def apply(self, event: Event) -> None:
        match event.fact:
            case BudgetOpened():
                self.opened.add(event.scope)
            case BudgetDegraded() as fact:
                self.rungs.setdefault(event.key, []).append(fact)
            case BudgetUnpriced() as fact:
                self.unpriced[fact.model] = fact
            case BudgetExceeded(is_warning=True) as fact:
                self.exceeded.append(fact)
            case BudgetMisreported() as fact:
                self.misreported[fact.model, fact.problem] = fact
            case _:
                pass

    def warnings(self) -> Iterator[str]:
        """Yield why the limits of the run may not have held."""
        yield from (fact.warning for fact in self.unpriced.values())
        yield from (fact.warning for fact in self.misreported.values())
        over: dict[tuple[str, Literal["tokens", "usd"]], list[float]] = {}
        for fact in self.exceeded:
            over.setdefault((fact.level, fact.what), []).append(fact.over)
        yield from (exceeded_text(*where, sum(amounts), len(amounts)) for where, amounts in over.items())


Span = tuple[float, float]
DRIVER_CHANGES = (RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued)
"""Facts that attach or detach a driver; a crashed driver counts as attached until its last event."""


class DriverTime:
    """The spans in which a run had a driver. Inherited events of a fork count as driven, by the source run.

    `last` is the time of the latest event: of the current driver or, while `copying`, of the source run of a fork.
    While a driver is attached, the last of the `spans` extends to it.
    """

    __slots__ = ("_before", "_detached", "copying", "last", "spans")

    def __init__(self) -> None:
        self.last = 0.0
        self.spans: list[Span] = []
        self._before = -inf
        self._detached = True
        self.copying = False

    def apply(self, event: Event) -> None:
        if isinstance(event.fact, DRIVER_CHANGES):
            self.apply_change(event)
        if event.time > self.last or self.copying:
            self.last = event.time

    def apply_change(self, event: Event) -> None:
        """Apply one of `DRIVER_CHANGES`; time after a driver has detached does not count."""
        match event.fact:
            case RunStarted(origin=origin) if origin is not None and origin.how == "fork":
                self.copying = True
            case RunPaused() | RunInterrupted() | RunQueued():
                self._detach(event.time)
            case _:
                if self.copying:
                    self._before, self.copying = self.last, False
                self._detach(self.last)
                self.spans.append((event.time, event.time))
                self.last, self._detached = event.time, False

    def seconds(self, since: float = -inf) -> float:
        """Seconds in which this run had a driver, from `since` to the latest event."""
        return sum(max(0.0, end - max(begin, since)) for begin, end in self._own())

    def busy_seconds(self, begin: float, end: float, waits: Sequence[Span]) -> float:
        """Seconds with a driver between two times, minus the waits, which may overlap."""
        waited = _merged(waits)
        before = (-inf, self.last if self.copying else self._before)
        total = 0.0
        for since, until in (before, *self._own()):
            inside = max(begin, since), min(end, until)
            total += max(0.0, inside[1] - inside[0])
            total -= sum(max(0.0, min(inside[1], one[1]) - max(inside[0], one[0])) for one in waited)
        return max(0.0, total)

    def _own(self) -> Sequence[Span]:
        return self.spans if self._detached else [*self.spans[:-1], _until(self.spans[-1], self.last)]

    def _detach(self, time: float) -> None:
        if not self._detached:
            self.spans[-1] = _until(self.spans[-1], time)
            self._detached = True


def _until(span: Span, time: float) -> Span:
    return span[0], max(span[0], time)


def _merged(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


class RecordedDeliveries:
    """The keys to which a replay delivers, each with the event to deliver."""

    __slots__ = ("_due", "_inside", "_linked", "arrivals")

    def __init__(self) -> None:
        self.arrivals: dict[str, Event] = {}
        self._due: dict[str, str] = {}
        self._linked: set[str] = set()
        self._inside: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def due(self) -> list[str]:
        """The keys, in journal order."""
        return list(self._due)

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def add(self, event: Event, key: str) -> None:
        scope = event.scope
        self._due[key] = scope
        self.arrivals[key] = event
        self._inside[scope].append(key)
        while scope and scope not in self._linked:
            self._linked.add(scope)
            inner, scope = scope, parent_key(scope)
            self._inside[scope].append(inner)

    def remove_inside(self, scope: str) -> None:
        self._linked.discard(scope)
        for key in self._inside.pop(scope, ()):
            self._due.pop(key, None)
            self.remove_inside(key)


TOO_LATE = "the run ended before it took effect"
"""The reason with which an accepted intervention is refused in the end."""


class RecordedInterventions:
    """The accepted interventions by their ids, the places where they took effect, and the members that are paused.

    A fork inherits the places, and with them what was said to its members. It inherits no acceptance: an intervention
    belongs to the run that it was sent to.
    """

    __slots__ = ("_pauses", "accepted", "accepted_at", "effective", "paused", "places", "refused", "stops")

    def __init__(self) -> None:
        self.accepted: dict[int, Steer] = {}
        self.accepted_at: dict[int, int] = {}
        """The numbers of the events with which they were accepted."""
        self.effective: set[int] = set()
        """The inbox ids of accepted interventions that have taken effect somewhere."""
        self.places: defaultdict[str, list[RunApplied]] = defaultdict(list)
        self.refused: set[str] = set()
        """The keys before which a strategy refused a change."""
        self.paused: dict[str, int] = {}
        """The paused members, each with the id of its pause in the inbox."""
        self._pauses: dict[str, str] = {}
        self.stops: dict[str, StopStep] = {}
        """The steps that were stopped, each by the key at which a replay stops it again."""

    def __bool__(self) -> bool:
        return bool(self.accepted or self.places)

    def refusals(self) -> list[RunRefused]:
        """Return, for a run that ends, that what was accepted and took no effect never will."""
        left = {inbox_id: steer for inbox_id, steer in self.accepted.items() if inbox_id not in self.effective}
        return [RunRefused(intervention=steer, inbox_id=inbox_id, reason=TOO_LATE) for inbox_id, steer in left.items()]

    def accept(self, number: int, fact: RunIntervened) -> None:
        steer = fact.intervention
        if not isinstance(steer, Steer):
            return
        self.accepted[fact.inbox_id], self.accepted_at[fact.inbox_id] = steer, number
        if isinstance(steer, PauseMember):
            self.paused[steer.member] = fact.inbox_id
        elif isinstance(steer, ResumeMember):
            self.paused.pop(steer.member, None)

    def apply(self, key: str, fact: RunApplied, *, inherited: bool) -> None:
        self.places[key].append(fact)
        if not inherited:
            self.effective.add(fact.inbox_id)

    def stop_at(self, number: int, stop: StopStep) -> str:
        """Note that the event with this number stopped a step; return the key at which a replay does so again."""
        key = f"!stop-{number}"
        self.stops[key] = stop
        return key

    def refuse(self, key: str, inbox_id: int) -> None:
        """Note that an accepted intervention was refused at a key, so that it takes no effect any more."""
        self.refused.add(key)
        self.effective.add(inbox_id)

    def pause_at(self, key: str, member: str) -> None:
        """Note that a member waits at a key until it is resumed."""
        self._pauses[key] = member

    def resume_at(self, key: str) -> None:
        """End the pause of the member that waited at this key, if one did."""
        if (member := self._pauses.pop(key, None)) is not None:
            self.paused.pop(member, None)


LATEST = float("inf")
"""After every event."""


class _Version(NamedTuple):
    number: int
    held: SharedValue


class Store:
    """Values by name, multi-version. Versions count from one; each has the number of the event that wrote it."""

    def __init__(self) -> None:
        self._values: dict[str, list[_Version]] = {}

    def write(self, name: str, value: JsonValue, *, by: str, number: int) -> int:
        """Add a version and return its count; event numbers only grow."""
        versions = self._values.setdefault(name, [])
        versions.append(_Version(number, SharedValue(value=value, version=len(versions) + 1, by=by)))
        return len(versions)

    def get(self, name: str, at: float = LATEST) -> SharedValue | None:
        """The value as of the event with this number; None where it did not exist."""
        versions = self._values.get(name, ())
        index = bisect_right(versions, at, key=attrgetter("number"))
        return versions[index - 1].held if index else None

    def names(self, at: float = LATEST) -> list[str]:
        """The names that existed as of this event, sorted."""
        return sorted(name for name, versions in self._values.items() if versions[0].number <= at)


class RecordedWorkspace:
    """What members have shared: writes by key, the artifacts that members may open, and those that members kept."""

    __slots__ = ("artifacts", "kept", "patched", "writes")

    def __init__(self) -> None:
        self.writes: dict[str, Event] = {}
        self.artifacts: set[Body] = set()
        self.kept: list[WorkspaceKept] = []
        self.patched: list[tuple[int, WorkspacePatched]] = []
        """The changes that were applied to the team's branch, with the numbers of their events."""

    def apply(self, event: Event) -> None:
        if isinstance(fact := event.fact, WorkspaceKept):
            self.artifacts.add(fact.artifact.hash)
            self.kept.append(fact)
        elif isinstance(fact, WorkspacePatched):
            self.patched.append((event.number, fact))
        else:
            self.writes[event.key] = event

    def add_attachments(self, fact: RunStarted) -> None:
        """Let members open the files of the task, and of earlier tasks in the conversation that the run continues."""
        self.artifacts.update(one.hash for one in fact.attachments)
        self.artifacts.update(one.hash for ref in fact.history for one in ref.attachments)
        if fact.placed is not None:
            self.artifacts.update(fact.placed.artifacts)

    def bodies(self) -> Iterator[Body]:
        return (event.fact.body for event in self.writes.values() if isinstance(event.fact, WorkspaceWritten))

    def store(self, bodies: RecordedBodies) -> Store:
        """Return the values as of the last event."""
        store = Store()
        for event in self.writes.values():
            if isinstance(fact := event.fact, WorkspaceWritten):
                store.write(fact.name, bodies.value(fact.body), by=fact.by, number=event.number)
        return store
