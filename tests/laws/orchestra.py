"""Random teams whose members play by a score, and ways to cut a run anywhere and go on from there. All in memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from hypothesis import strategies as st

from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.protocol import Agent
from teamwright.errors import Refused
from teamwright.journal.memory import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.limits.usage import Usage
from teamwright.values.results import RunResult
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from tests.laws.program import program_team

RUN_ID = "r"
TASK = "play"
PATIENCE = 0.2
PATIENCE_WITH_A_RUN = 5
GAP = 60


@dataclass
class Score:
    """When each effect comes back: after so many turns of the event loop, taken from `delays`.

    With `order` it comes back just as in an earlier run, and what never came back there never does here. With `apart`
    two never come back so close together that it could matter how long the loop takes to go round.
    """

    delays: Sequence[int] = (0,)
    apart: bool = False
    order: Sequence[str] | None = None
    recorded: frozenset[str] = frozenset()
    made: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    _back: set[str] = field(default_factory=set[str])
    _turned: asyncio.Event = field(default_factory=asyncio.Event)
    _gap: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def play(self, value: str, usage: Usage, attempt: Attempt) -> Returned:
        effect = attempt.idempotency_key
        self.made.append(effect)
        try:
            if self.order is None:
                await hops(self.delays[len(self.made) % len(self.delays)])
            else:
                await self._keep_order(effect)
            if self.apart:
                async with self._gap:
                    await hops(GAP)
        finally:
            self._back.add(effect)
            self._turned.set()
        return Returned(value, usage)

    async def _keep_order(self, effect: str) -> None:
        assert self.order is not None
        if effect not in self.order:
            await asyncio.get_running_loop().create_future()
        before = set(self.order[: self.order.index(effect)]) - self.recorded
        with anyio.move_on_after(PATIENCE):
            while not before <= self._back:
                self._turned.clear()
                await self._turned.wait()


async def hops(count: int) -> None:
    """Let the event loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something can be seen."""
    for _ in range(2000):
        if await happened():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never happened")


def player(name: str, score: Score, effects: int = 1, error: str | None = None, **more: Any) -> FunctionAgent:
    """A member that makes some effects and says what it was told, in brief; or fails with the given words."""

    async def respond(turn: Turn, ctx: Context) -> str:
        score.told.append(turn.prompt)
        for number in range(1, effects + 1):
            usage = Usage(requests=1, input_tokens=len(name), output_tokens=number)
            call = partial(score.play, f"{name} {number}", usage)
            await ctx.effect(f"e{number}", Effect("model", "player", digest(turn.prompt, str(number)), call))
        if error is not None:
            raise Refused(error)
        return f"{name} heard {turn.digest[:8]}"

    return FunctionAgent(name, respond, **more)


Maker = Callable[[Score], Team]
"""Makes the same team again, for another engine."""


@dataclass(frozen=True)
class Piece:
    """A random team: a program over members, some of which are teams themselves."""

    program: Sequence[Any]
    members: Sequence[tuple[Any, ...]]

    def team(self, score: Score) -> Team:
        return program_team("piece", self.program, [_member(one, score) for one in self.members])


def _member(shape: tuple[Any, ...], score: Score) -> Agent:
    match shape:
        case ("player", str(name), int(effects), error):
            return player(name, score, effects, error)
        case ("sequential", str(name), members):
            return Team(name, members=[_member(one, score) for one in members], share="output")
        case ("round_robin", str(name), members):
            inner = [_member(one, score) for one in members]
            return Team(name, members=inner, strategy="round_robin", max_turns=2)
        case _:
            raise AssertionError(shape)


@st.composite
def pieces(draw: st.DrawFn, *, timers: bool = False, people: bool = False, failures: bool = False) -> Piece:
    """Programs of asks, branches, races, locks and claims over players and nested teams."""
    names = (f"m{number}" for number in itertools.count())
    members: list[tuple[Any, ...]] = []

    def a_player() -> tuple[Any, ...]:
        name = next(names)
        fails = failures and draw(st.integers(0, 3)) == 0
        return ("player", name, draw(st.integers(0, 2)), f"the trouble with {name}" if fails else None)

    def an_ask(kind: str) -> list[Any]:
        if kind == "player":
            members.append(a_player())
        else:
            members.append((kind, next(names), [a_player() for _ in range(draw(st.integers(1, 2)))]))
        return ["ask", members[-1][1]]

    kinds = st.sampled_from(["player", "player", "player", "sequential", "round_robin"])
    leaves: list[st.SearchStrategy[Any]] = [kinds, kinds, st.just(["claim", "it"]), st.just(["draw"])]
    if timers:
        leaves.append(st.sampled_from([["sleep", 0.0], ["sleep", 0.002]]))
    if people:
        leaves.append(st.just(["person", "well?"]))
    combined = partial(_combined, timers=timers, owning=draw(st.booleans()))
    shape = draw(st.recursive(st.one_of(leaves), combined, max_leaves=7))
    return Piece(["seq", _with_asks(shape, an_ask), an_ask("player")], members)


KEYS = st.sets(st.sampled_from(["x", "y", "d/a", "d/b", "d/**"]), min_size=1, max_size=2).map(sorted)


def _combined(inner: st.SearchStrategy[Any], *, timers: bool, owning: bool) -> st.SearchStrategy[Any]:
    """Locks of the program's own or keys that it owns, not both: two of each might wait for each other in a circle."""
    several = st.lists(inner, min_size=2, max_size=3)
    owners = st.lists(st.tuples(KEYS, st.integers(0, 1), inner), min_size=2, max_size=4)
    found = [
        several.map(lambda some: ["seq", *some]),
        st.tuples(st.integers(1, 3), several).map(lambda made: ["all", made[0], *made[1]]),
        st.tuples(st.integers(1, 2), several).map(lambda made: ["race", made[0], *made[1]]),
        owners.map(lambda some: ["all", 3, *(["own", *one] for one in some)])
        if owning
        else several.map(lambda some: ["all", 3, *(["lock", one] for one in some)]),
    ]
    if timers:
        found.append(inner.map(lambda one: ["hurry", 0.003, one]))
    return st.one_of(found)


def _with_asks(shape: Any, an_ask: Callable[[str], list[Any]], locked: bool = False) -> Any:
    """Put a member of its own wherever a kind of member stands; a lock within a lock would wait for itself."""
    if isinstance(shape, str) and shape in ("player", "sequential", "round_robin"):
        return an_ask(shape)
    if not isinstance(shape, list):
        return shape
    if shape[:1] == ["own"]:
        return [*shape[:3], _with_asks(shape[3], an_ask, locked)]
    if shape[0] == "lock" and locked:
        return _with_asks(shape[1], an_ask, locked)
    locked = locked or shape[0] == "lock"
    return [shape[0], *(_with_asks(part, an_ask, locked) for part in shape[1:])]


async def play(make: Maker, score: Score, journal: Journal, *, resume: bool = False) -> RunResult:
    """Run or resume to the end; whoever is asked says yes."""
    with anyio.fail_after(PATIENCE_WITH_A_RUN):
        return await _play(make(score), journal, resume=resume)


async def _play(team: Team, journal: Journal, *, resume: bool) -> RunResult:
    async with Engine(journal) as engine:
        result = await (engine.resume(RUN_ID, team=team) if resume else engine.run(team, TASK, run_id=RUN_ID))
        while result.status == "paused":
            for key in (await engine.runs.history(RUN_ID)).questions():
                await engine.runs.answer(RUN_ID, key, f"yes to {key}")
            result = await engine.resume(RUN_ID, team=team)
        return result


def log_of(journal: MemoryJournal) -> list[Event]:
    """Everything recorded of the run."""
    return list(journal._logs[RUN_ID])


def cut(journal: MemoryJournal, number: int) -> MemoryJournal:
    """A journal that ends after the given number of events, as a crash would leave it."""
    made = MemoryJournal()
    made.append(Batch(log_of(journal)[:number], dict(journal._bodies)), lambda _: None)
    return made


async def has_begun(engine: Engine, place: str, kind: str = "agent.asked") -> bool:
    """Whether the run has come to this place."""
    return any(event.kind == kind and place in event.key for event in await engine.journal.read(RUN_ID))


def before_the_end(events: Sequence[Event]) -> int:
    """How many events there are before the team itself ended; a resume from there runs its strategy once more."""
    return next(event.number for event in reversed(events) if event.kind == "team.ended" and event.scope == "piece") - 1


def returned(events: Iterable[Event]) -> list[str]:
    """The effects that came back, in order, by their idempotency keys."""
    return [digest(RUN_ID, event.key) for event in events if event.kind == "agent.returned"]


def said(result: RunResult) -> tuple[object, ...]:
    """What two runs must have in common, whatever was stopped in the middle."""
    return result.status, result.stop_reason, result.output, result.messages, result.data
