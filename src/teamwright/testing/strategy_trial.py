"""A strategy on trial: members that answer, fail, terminate or hang as told, and a run that can be cut anywhere.

Nothing here touches the world: the journal is in memory and members come back in an order that can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
from typing_extensions import override

from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.policy import UNSET, Policy
from teamwright.agents.protocol import Agent
from teamwright.errors import Refused
from teamwright.journal.memory import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.engine import Engine
from teamwright.strategies.contract import problems_of
from teamwright.strategies.options import names_in
from teamwright.strategies.protocol import Flaw, Members, Settings, StrategyLike, Task
from teamwright.teams.team import Team
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.messages import Message, digest
from teamwright.values.results import Outcome, RunResult
from teamwright.values.turns import Reply, Turn
from teamwright.values.usage import Usage

RUN_ID, TEAM, TASK = "rehearsal", "team-on-trial", "Find out which of the two is heavier."
TROUBLE = "the-words-of-an-error"
HISTORY = (Message(name="user", content="an earlier question", role="user"), Message(name="old", content="old answer"))
QUIET = 60
"""Turns of the event loop after which everything that one reply sets off has happened."""


Lines = Callable[[str, Turn], str | None]
"""What a member of this name says to a turn, where it matters; `None` leaves it to the member."""


@dataclass
class Plot:
    """What members do in one run, and what was seen of it.

    Asks are counted from 1 in the order they begin. `order` is the order in which members came back in an earlier run.
    """

    fails_at: int = 0
    terminates_at: int = 0
    hangs_at: int = 0
    order: Sequence[str] | None = None
    recorded: frozenset[str] = frozenset()
    asked: list[tuple[str, Turn]] = field(default_factory=list[tuple[str, Turn]])
    said: list[Message] = field(default_factory=list[Message])
    before: list[Message] = field(default_factory=list[Message])
    called: list[str] = field(default_factory=list[str])
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    _back: set[str] = field(default_factory=set[str])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def come_back(self, effect: str) -> None:
        """Return in the order of the earlier run, or one after the other."""
        if self.order is not None and effect in self.order:
            earlier = set(self.order[: self.order.index(effect)]) - self.recorded
            with anyio.move_on_after(1):
                while not earlier <= self._back:
                    self._changed.clear()
                    await self._changed.wait()
        async with self._one_at_a_time:
            for _ in range(QUIET):
                await asyncio.sleep(0)
        self._back.add(effect)
        self._changed.set()


MAY_TERMINATE = UNSET.changed(can_terminate=True)


@dataclass(frozen=True)
class Player(Agent):
    """A member on trial; each turn is one effect."""

    name: str
    plot: Plot
    kind: str = "function"
    policy: Policy = MAY_TERMINATE
    lines: Lines | None = None

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Do what the plot says for this ask."""
        plot = self.plot
        plot.asked.append((self.name, turn))
        number = len(plot.asked)
        if number in (plot.fails_at, plot.hangs_at):
            plot.before = list(plot.said)
        call = partial(self._call, number)
        await ctx.effect("call", Effect("function", self.name, digest(turn.digest), call))
        if number == plot.fails_at:
            raise Refused(f"{TROUBLE} of {self.name}")
        said = self.lines(self.name, turn) if self.lines else None
        message = Message(name=self.name, content=said or f"{self.name} answers {turn.digest[:12]}")
        terminates = number == plot.terminates_at
        if turn.purpose == "work" or terminates:  # what is said to coordinate is no part of the conversation
            plot.said.append(message)
        return Reply(messages=(message,), signal="terminate" if terminates else None)

    async def _call(self, number: int, attempt: Attempt) -> Returned:
        self.plot.called.append(attempt.idempotency_key)
        if number == self.plot.hangs_at:
            self.plot.hanging.set()
            await asyncio.get_running_loop().create_future()
        await self.plot.come_back(attempt.idempotency_key)
        return Returned("answered", Usage(requests=1, input_tokens=3, output_tokens=2))


@dataclass
class Watched:
    """A strategy, with what it was given before and after it ran."""

    strategy: StrategyLike
    histories: list[tuple[tuple[Message, ...], tuple[Message, ...]]] = field(
        default_factory=list[tuple[tuple[Message, ...], tuple[Message, ...]]]
    )

    @property
    def name(self) -> str:
        """The name of the strategy on trial."""
        return self.strategy.name

    @property
    def version(self) -> int:
        """Its version."""
        return self.strategy.version

    def problems(self, settings: Settings, members: Members) -> Sequence[Flaw | str]:
        """What it says about settings and members."""
        return problems_of(self.strategy, settings, members)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Let it run, and look at the history it was given again when it is done."""
        before = tuple(task.history)
        try:
            return await self.strategy.run(task, members, ctx)
        finally:
            self.histories.append((before, tuple(task.history)))


@dataclass(frozen=True)
class Rehearsal:
    """How a strategy on trial is made and used. `make` must give a new one each time.

    `lines` gives members the words that the strategy has to read, a decision for example.
    """

    make: Callable[[], StrategyLike]
    settings: Settings = field(default_factory=lambda: Settings(max_turns=2))
    size: int = 3
    seconds: float = 10.0
    lines: Lines | None = None

    def members(self, plot: Plot) -> list[Agent]:
        """As many members as the strategy is tried with."""
        return [Player(f"member-{number}", plot, lines=self.lines) for number in range(1, self.size + 1)]

    def helpers(self, plot: Plot) -> list[Agent]:
        """Those that the options name beside the members."""
        members = {member.name for member in self.members(plot)}
        named = dict.fromkeys(one.name for one in names_in(self.make(), self.settings.options))
        return [Player(name, plot, lines=self.lines) for name in named if name not in members]

    def team(self, plot: Plot, members: Sequence[Agent] | None = None, name: str = TEAM) -> Team:
        """A team that works by the strategy."""
        settings = self.settings
        return Team(
            name,
            members=members if members is not None else self.members(plot),
            helpers=self.helpers(plot),
            strategy=Watched(self.make()),
            share=settings.share,
            handoff=settings.handoff,
            max_turns=settings.max_turns,
            on_max_turns=settings.on_max_turns,
            options=dict(settings.options),
        )

    async def run(self, plot: Plot, team: Team | None = None, history: Sequence[Message] = ()) -> tuple[RunResult, Log]:
        """Run the team to its end; one that does not end in time has failed its trial."""
        journal = KeptJournal()

        async def work() -> RunResult:
            async with Engine(journal) as engine:
                return await engine.run(team or self.team(plot), TASK, run_id=RUN_ID, history=history)

        result = await self.in_time(work())
        return result, Log(await journal.read(RUN_ID), journal.kept)

    async def resume(self, plot: Plot, journal: MemoryJournal) -> RunResult:
        """Resume from a record that was cut."""

        async def work() -> RunResult:
            async with Engine(journal) as engine:
                return await engine.resume(RUN_ID, team=self.team(plot))

        return await self.in_time(work())

    async def in_time(self, work: Awaitable[RunResult]) -> RunResult:
        """Turn a run that hangs into a failed trial that says so."""
        with anyio.move_on_after(self.seconds):
            return await work
        raise AssertionError(
            f"The run did not end within {self.seconds:g} seconds: see that the strategy stops by itself, and that it"
            " does not swallow cancellation."
        )


class KeptJournal(MemoryJournal):
    """A journal in memory that hands out the bodies it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Body, str] = {}

    @override
    def append(self, batch: Batch, done: Committed) -> None:
        """Keep the batch, and its bodies once more."""
        self.kept.update(batch.bodies)
        super().append(batch, done)


@dataclass(frozen=True)
class Log:
    """The record of one run."""

    events: Sequence[Event]
    bodies: Mapping[Body, str]

    def cut(self, number: int) -> MemoryJournal:
        """The record up to this event, as a crash would leave it."""
        made = MemoryJournal()
        made.append(Batch(self.events[:number], self.bodies), lambda _: None)
        return made

    def came_back(self, number: int | None = None) -> list[str]:
        """The effects that are recorded up to this event, in order, by their idempotency keys."""
        return [digest(RUN_ID, event.key) for event in self.events[:number] if event.kind == "agent.returned"]
