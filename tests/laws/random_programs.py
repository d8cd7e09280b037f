"""Random programs over members whose effects return on a schedule, and runs cut anywhere and resumed, in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from hypothesis import strategies as st

from teamwright.agents.agent import Agent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import RunResult
from tests.kit.effects import ReturnSchedule, effect_member
from tests.laws.program import program_team

RUN_ID = "r"
TASK = "play"
RUN_TIMEOUT = 5


MakeTeam = Callable[[ReturnSchedule], Team]
"""Makes the same team for another engine."""


@dataclass(frozen=True)
class RandomProgram:
    """A random program over members, some of which are teams."""

    program: Sequence[Any]
    members: Sequence[tuple[Any, ...]]

    def team(self, schedule: ReturnSchedule) -> Team:
        return program_team("random", self.program, [_member(one, schedule) for one in self.members])


def _member(shape: tuple[Any, ...], schedule: ReturnSchedule) -> Agent:
    match shape:
        case ("member", str(name), int(effects), error):
            return effect_member(name, schedule, effects, error)
        case ("sequential", str(name), members):
            return Team(name, members=[_member(one, schedule) for one in members], share="output")
        case ("round_robin", str(name), members):
            inner = [_member(one, schedule) for one in members]
            return Team(name, members=inner, strategy="round_robin", max_turns=2)
        case _:
            raise AssertionError(shape)


@st.composite
def random_programs(
    draw: st.DrawFn, *, timers: bool = False, people: bool = False, failures: bool = False
) -> RandomProgram:
    """Draw a program of asks, branches, races, locks and claims over members and nested teams."""
    names = (f"m{number}" for number in itertools.count())
    members: list[tuple[Any, ...]] = []

    def a_member() -> tuple[Any, ...]:
        name = next(names)
        fails = failures and draw(st.integers(0, 3)) == 0
        return ("member", name, draw(st.integers(0, 2)), f"the trouble with {name}" if fails else None)

    def an_ask(kind: str) -> list[Any]:
        if kind == "member":
            members.append(a_member())
        else:
            members.append((kind, next(names), [a_member() for _ in range(draw(st.integers(1, 2)))]))
        return ["ask", members[-1][1]]

    kinds = st.sampled_from(["member", "member", "member", "sequential", "round_robin"])
    leaves: list[st.SearchStrategy[Any]] = [kinds, kinds, st.just(["claim", "it"]), st.just(["draw"])]
    if timers:
        leaves.append(st.sampled_from([["sleep", 0.0], ["sleep", 0.002]]))
    if people:
        leaves.append(st.just(["person", "well?"]))
    combined = partial(_combined, timers=timers, owning=draw(st.booleans()))
    shape = draw(st.recursive(st.one_of(leaves), combined, max_leaves=7))
    return RandomProgram(["seq", _with_asks(shape, an_ask), an_ask("member")], members)


KEYS = st.sets(st.sampled_from(["x", "y", "d/a", "d/b", "d/**"]), min_size=1, max_size=2).map(sorted)


def _combined(inner: st.SearchStrategy[Any], *, timers: bool, owning: bool) -> st.SearchStrategy[Any]:
    """Locks of the program or owned keys, not both, because a mix can deadlock."""
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
    """Replace each kind of member by an ask of a new member, and drop nested locks, which would deadlock."""
    if isinstance(shape, str) and shape in ("member", "sequential", "round_robin"):
        return an_ask(shape)
    if not isinstance(shape, list):
        return shape
    if shape[:1] == ["own"]:
        return [*shape[:3], _with_asks(shape[3], an_ask, locked)]
    if shape[0] == "lock" and locked:
        return _with_asks(shape[1], an_ask, locked)
    locked = locked or shape[0] == "lock"
    return [shape[0], *(_with_asks(part, an_ask, locked) for part in shape[1:])]


async def run_to_end(make: MakeTeam, schedule: ReturnSchedule, journal: Journal, *, resume: bool = False) -> RunResult:
    """Run or resume to the end; every question is answered with yes."""
    with anyio.fail_after(RUN_TIMEOUT):
        return await _run_to_end(make(schedule), journal, resume=resume)


async def _run_to_end(team: Team, journal: Journal, *, resume: bool) -> RunResult:
    async with Engine(journal) as engine:
        result = await (engine.resume(RUN_ID, team=team) if resume else engine.run(team, TASK, run_id=RUN_ID))
        while result.status == "paused":
            for key in (await engine.runs.history(RUN_ID)).questions():
                await engine.runs.answer(RUN_ID, key, f"yes to {key}")
            result = await engine.resume(RUN_ID, team=team)
        return result


def log_of(journal: MemoryJournal) -> list[Event]:
    """All events of the run."""
    return list(journal._logs[RUN_ID])


def cut(journal: MemoryJournal, number: int) -> MemoryJournal:
    """Copy the first events into a new journal, without the inbox."""
    made = MemoryJournal()
    made.append(Batch(log_of(journal)[:number], dict(journal._bodies)), lambda _: None)
    return made


async def has_begun(engine: Engine, place: str, kind: str = "agent.asked") -> bool:
    """Whether the run has recorded an event of this kind at this key."""
    return any(event.kind == kind and place in event.key for event in await engine.journal.read(RUN_ID))


def events_before_end(events: Sequence[Event]) -> int:
    """The number of events before the end of the team; a resume from there runs its strategy again."""
    return (
        next(event.number for event in reversed(events) if event.kind == "team.ended" and event.scope == "random") - 1
    )


def returned_effects(events: Iterable[Event]) -> list[str]:
    """The idempotency keys of returned effects, in order."""
    return [digest(RUN_ID, event.key) for event in events if event.kind == "agent.returned"]


def comparable(result: RunResult) -> tuple[object, ...]:
    """The part of a result that must not depend on interruptions."""
    return result.status, result.stop_reason, result.output, result.messages, result.data
