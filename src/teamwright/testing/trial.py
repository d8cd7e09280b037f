"""Runs parts under test: fake members that answer, fail, terminate or hang, injected faults, and records cut anywhere.

Nothing here reaches the outside world: the journal is in memory, and members return in a repeatable order. All checks
of a suite run, and every mistake is reported at once. Code that stores facts is tested with one of each kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import anyio
from msgspec import convert, structs
from msgspec.structs import fields
from typing_extensions import override

from teamwright.agents.agent import UNSET, Agent, Context, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import Refused, TeamwrightError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Issue, Members, Settings, Strategy, Task
from teamwright.strategies.registry import named_agents
from teamwright.teams.team import Team
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, Fact
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.results import Outcome, RunResult
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.usage_and_prices import Usage
from teamwright.values.value import JsonValue, Record

T = TypeVar("T")
RUN_ID, TEAM, TASK = "trial", "team-on-trial", "Find out which of the two is heavier."
INJECTED_ERROR = "the-words-of-an-error"
HISTORY = (Message(name="user", content="an earlier question", role="user"), Message(name="old", content="old answer"))
SETTLE_ITERATIONS = 60
"""Event-loop iterations after which the strategy has processed one reply completely."""
Lines = Callable[[str, Turn], str | None]
"""Returns the reply text of the named member to a turn, or `None` for the default text."""
CAN_TERMINATE_POLICY = UNSET.model_copy(update={"can_terminate": True})
INJECTED_CALL_ERROR = "an error that the conformance suite injects"
GRACE = 5.0
"""Seconds within which a cancelled agent has to end."""


def run_checks(checks: Iterable[Callable[[T], Awaitable[None]]], trial: T) -> None:
    """Run each check on the trial; raises one `AssertionError` that lists every mistake under the name of its check."""
    found: list[str] = []
    for check in checks:
        try:
            anyio.run(check, trial)
        except (AssertionError, TeamwrightError) as error:
            found.append(f"{check.__name__.removeprefix('check_')}: {error}")
    if found:
        raise AssertionError("\n".join(found))


@dataclass
class TrialScript:
    """Scripts the fake members of one run, and records what the strategy asked them.

    Asks are counted from 1 in the order in which they start. `return_order` lists the effects of an earlier run in the
    order in which they returned; `recorded` are those whose results are already in the journal. `replies_before` holds
    the replies given before the ask that fails or hangs.
    """

    fails_at: int = 0
    terminates_at: int = 0
    hangs_at: int = 0
    return_order: Sequence[str] | None = None
    recorded: frozenset[str] = frozenset()
    asks: list[tuple[str, Turn]] = field(default_factory=list[tuple[str, Turn]])
    replies: list[Message] = field(default_factory=list[Message])
    replies_before: list[Message] = field(default_factory=list[Message])
    calls: list[str] = field(default_factory=list[str])
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    _returned: set[str] = field(default_factory=set[str])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def return_in_order(self, effect: str) -> None:
        """Block until the effect may return: after those before it in `return_order`, and one at a time."""
        if self.return_order is not None and effect in self.return_order:
            earlier = set(self.return_order[: self.return_order.index(effect)]) - self.recorded
            with anyio.move_on_after(1):
                while not earlier <= self._returned:
                    self._changed.clear()
                    await self._changed.wait()
        async with self._lock:
            for _ in range(SETTLE_ITERATIONS):
                await asyncio.sleep(0)
        self._returned.add(effect)
        self._changed.set()


@dataclass(frozen=True)
class FakeMember(Agent):
    """A member whose turns follow the script; each turn is one effect."""

    name: str
    script: TrialScript
    kind: str = "function"
    policy: Policy = CAN_TERMINATE_POLICY
    lines: Lines | None = None

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer, fail, terminate or hang, as the script says for this ask."""
        script = self.script
        script.asks.append((self.name, turn))
        number = len(script.asks)
        if number in (script.fails_at, script.hangs_at):
            script.replies_before = list(script.replies)
        call = partial(self._call, number)
        await ctx.effect("call", Effect("function", self.name, digest(turn.digest), call))
        if number == script.fails_at:
            raise Refused(f"{INJECTED_ERROR} of {self.name}")
        text = self.lines(self.name, turn) if self.lines else None
        message = Message(name=self.name, content=text or f"{self.name} answers {turn.digest[:12]}")
        terminates = number == script.terminates_at
        if turn.purpose == "work" or terminates:  # coordination replies are not part of the conversation
            script.replies.append(message)
        return Reply(messages=(message,), signal="terminate" if terminates else None)

    async def _call(self, number: int, attempt: Attempt) -> Returned:
        self.script.calls.append(attempt.idempotency_key)
        if number == self.script.hangs_at:
            self.script.hanging.set()
            await asyncio.get_running_loop().create_future()
        await self.script.return_in_order(attempt.idempotency_key)
        return Returned("answered", Usage(requests=1, input_tokens=3, output_tokens=2))


@dataclass
class ObservedStrategy(Strategy):
    """Wraps a strategy and compares the history it receives before and after each run."""

    strategy: Strategy
    histories: list[tuple[tuple[Message, ...], tuple[Message, ...]]] = field(
        default_factory=list[tuple[tuple[Message, ...], tuple[Message, ...]]]
    )

    def __post_init__(self) -> None:
        self.name, self.version = self.strategy.name, self.strategy.version

    def problems(self, settings: Settings, members: Members) -> Sequence[Issue | str]:
        """Return the wrapped strategy's objections to settings and members."""
        return self.strategy.problems(settings, members)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the strategy, and record the task's history before and after."""
        before = tuple(task.history)
        try:
            return await self.strategy.run(task, members, ctx)
        finally:
            self.histories.append((before, tuple(task.history)))


@dataclass(frozen=True)
class StrategyTrial:
    """How to create and run the strategy under test. `make` must return a new one on each call.

    `lines` supplies replies that the strategy has to parse, a decision for example.
    """

    make: Callable[[], Strategy]
    settings: Settings = field(default_factory=lambda: Settings(max_turns=2))
    size: int = 3
    seconds: float = 10.0
    lines: Lines | None = None

    def members(self, script: TrialScript) -> list[Agent]:
        """The members of the team, `size` of them."""
        return [FakeMember(f"member-{number}", script, lines=self.lines) for number in range(1, self.size + 1)]

    def helpers(self, script: TrialScript) -> list[Agent]:
        """The agents that the options name and that are not members."""
        members = {member.name for member in self.members(script)}
        named = dict.fromkeys(one.name for one in named_agents(self.make(), self.settings.options))
        return [FakeMember(name, script, lines=self.lines) for name in named if name not in members]

    def team(self, script: TrialScript, members: Sequence[Agent] | None = None, name: str = TEAM) -> Team:
        """A team that uses the strategy under test."""
        settings = self.settings
        return Team(
            name,
            members=members if members is not None else self.members(script),
            helpers=self.helpers(script),
            strategy=ObservedStrategy(self.make()),
            share=settings.share,
            envelope=settings.envelope,
            max_turns=settings.max_turns,
            on_max_turns=settings.on_max_turns,
            options=dict(settings.options),
        )

    async def run(
        self, script: TrialScript, team: Team | None = None, history: Sequence[Message] = ()
    ) -> tuple[RunResult, TrialLog]:
        """Run the team to its end and return the result and the record; fails if the run exceeds the time limit."""
        journal = BodyJournal()

        async def work() -> RunResult:
            async with Engine(journal) as engine:
                return await engine.run(team or self.team(script), TASK, run_id=RUN_ID, history=history)

        result = await self.run_within_time(work())
        return result, TrialLog(await journal.read(RUN_ID), journal.written_bodies)

    async def resume(self, script: TrialScript, journal: MemoryJournal) -> RunResult:

        async def work() -> RunResult:
            async with Engine(journal) as engine:
                return await engine.resume(RUN_ID, team=self.team(script))

        return await self.run_within_time(work())

    async def run_within_time(self, work: Awaitable[RunResult]) -> RunResult:
        """Await the run; raise `AssertionError` if it exceeds the time limit."""
        with anyio.move_on_after(self.seconds):
            return await work
        raise AssertionError(
            f"The run did not end within {self.seconds:g} seconds: make sure that the strategy terminates and does not"
            " swallow cancellation."
        )


class BodyJournal(MemoryJournal):
    """An in-memory journal that exposes the bodies written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written_bodies: dict[Body, str] = {}

    @override
    def append(self, batch: Batch, done: Committed) -> None:
        self.written_bodies.update(batch.bodies)
        super().append(batch, done)


@dataclass(frozen=True)
class TrialLog:
    """The record of one run: its events and bodies."""

    events: Sequence[Event]
    bodies: Mapping[Body, str]

    def truncated(self, number: int) -> MemoryJournal:
        """Return the record up to this event, as a crash would leave it."""
        made = MemoryJournal()
        made.append(Batch(self.events[:number], self.bodies), lambda _: None)
        return made

    def returned_effects(self, number: int | None = None) -> list[str]:
        """The idempotency keys of the effects that returned up to this event, in order."""
        return [digest(RUN_ID, event.key) for event in self.events[:number] if event.kind == "agent.returned"]


class FaultInjector:
    """Lets the calls and asks of an agent pass, fail or hang."""

    def __init__(self, mode: Literal["pass", "fail", "hang"] = "pass") -> None:
        self.mode = mode
        self.injected = asyncio.Event()

    @property
    def has_injected(self) -> bool:
        """Whether a call or an ask failed or hung."""
        return self.injected.is_set()

    async def apply(self) -> None:
        """Raise, hang or return, as the mode says."""
        if self.mode == "pass":
            return
        self.injected.set()
        if self.mode == "fail":
            raise Refused(INJECTED_CALL_ERROR)
        await asyncio.get_running_loop().create_future()


class FaultyContext:
    """The context of a turn with faults injected into its effects and asks, which also records the calls made."""

    def __init__(self, inner: Context, faults: FaultInjector, calls: set[str]) -> None:
        self._inner, self._faults, self._calls = inner, faults, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def effect(self, key: str, effect: Effect) -> Returned:
        """Make the effect, unless a fault is injected."""
        await self._faults.apply()

        async def call(attempt: Attempt) -> Returned:
            self._calls.add(attempt.key)
            return await effect.call(attempt)

        return await self._inner.effect(key, structs.replace(effect, call=call))

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Ask the member, unless a fault is injected; an injected failure is a value."""
        try:
            await self._faults.apply()
        except Refused as error:
            return Failure(member=member.name, error=error.kind, message=str(error))
        return await self._inner.ask(member, turn, key=key)


class ObservedAgent(Agent):
    """Wraps the agent under test, and records its reply or error, its calls, and the tasks it leaks.

    `work` replaces the task of its turn: work may be blank, and the task of a run may not.
    """

    def __init__(self, agent: Agent, faults: FaultInjector | None = None, work: str | None = None) -> None:
        self.name, self.kind, self.policy = agent.name, agent.kind, agent.policy
        self.description = agent.description
        self.faults = faults or FaultInjector()
        self.reply: object = None
        self.error: Exception | None = None
        self.ended = self.cancelled = False
        self.leaked_tasks: tuple[str, ...] = ()
        self.calls: set[str] = set()
        self._agent, self._work = agent, work

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Run the agent's turn; if its calls hang, cancel it."""
        turn = turn if self._work is None else structs.replace(turn, task=self._work)
        guarded = cast("Context", FaultyContext(ctx, self.faults, self.calls))
        before = asyncio.all_tasks()
        try:
            if self.faults.mode == "hang":
                await self._cancelled_turn(turn, guarded)
                return Reply.of(self.name, "cancelled")
            self.reply = reply = await self._agent.respond(turn, guarded)
            return reply
        except Exception as error:
            self.error = error
            raise
        finally:
            self.leaked_tasks = await _leaked_tasks(before)

    async def _cancelled_turn(self, turn: Turn, ctx: Context) -> None:
        turn_task = asyncio.ensure_future(self._agent.respond(turn, ctx))
        hanging = asyncio.ensure_future(self.faults.injected.wait())
        await asyncio.wait((turn_task, hanging), return_when=asyncio.FIRST_COMPLETED)
        hanging.cancel()
        turn_task.cancel()
        await asyncio.wait((turn_task, hanging), timeout=GRACE)
        self.ended, self.cancelled = turn_task.done(), turn_task.done() and turn_task.cancelled()
        if turn_task.done() and not turn_task.cancelled():
            turn_task.exception()  # retrieved, so that asyncio logs no warning

    def recorded_calls(self, log: TrialLog, number: int) -> set[str]:
        """The keys of its calls whose results are recorded up to this event."""
        return {event.key for event in log.events[:number] if event.kind == "agent.returned"} & self.calls


async def _leaked_tasks(before: set[asyncio.Task[Any]]) -> tuple[str, ...]:
    """The names of the tasks that were started since `before` and still run a few iterations later."""
    for _ in range(10):
        await asyncio.sleep(0)
    return tuple(sorted(task.get_name() for task in asyncio.all_tasks() - before if not task.done()))


R = TypeVar("R", bound=Record)

_PLAIN: dict[object, object] = {
    str: "a\x00b\n\u2028é🎭",
    int: 7,
    float: 0.25,
    bool: True,
    JsonValue: {"kind": "none", "deep": [1, None, True, 1.5, "é"]},
}


def a_fact_of_each_kind() -> list[Fact]:
    """Return one fact of each kind, in the order of the union."""
    kinds = cast("tuple[type[Fact], ...]", get_args(Fact))
    return [_record(kind) for kind in kinds]


def _record(kind: type[R]) -> R:
    return convert({field.name: _value(field.type) for field in fields(kind)}, kind)


def _value(annotation: object) -> object:
    """Return a sample value of a type; of several types or literals the last, which is rarely the default."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _record(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0])
    if origin is Literal:
        return arguments[-1]
    if origin in {Union, UnionType}:
        return _value([one for one in arguments if one is not NoneType][-1])
    if origin is dict:
        return {_value(arguments[0]): _value(arguments[1])}
    if origin is tuple:
        return (_value(arguments[0]), _value(arguments[0]))
    raise TypeError(f"There is no sample of {annotation!r} yet: add one here.")
