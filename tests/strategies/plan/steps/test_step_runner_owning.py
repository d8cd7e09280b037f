"""Steps that own keys: never two of one key at once, the longest way first, and the same order after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from teamwright.agents.agent import Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import StepGraph, StepNode
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import StepHeldUp
from teamwright.values.limits import Limits
from teamwright.values.owned_paths import overlap
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.turns.turn import Turn
from tests.kit.effects import ReturnSchedule, effect_member
from tests.kit.members import FakeMembers
from tests.kit.runs import run
from tests.kit.step_clock import StepClock
from tests.laws.random_programs import comparable, cut, log_of, returned_effects, run_to_end

KEYS = ["a", "b", "c/x", "c/y", "c/**"]


@dataclass(frozen=True)
class TimedPlan:
    """A plan, and how long each of its steps takes."""

    steps: tuple[Step, ...]
    durations: dict[str, int]

    @property
    def longest_path(self) -> int:
        ends: dict[str, int] = {}
        needs = {step.id: step.needs for step in self.steps}
        for step in StepGraph.from_nodes([StepNode(one, of) for one, of in needs.items()]).order:
            ends[step] = self.durations[step] + max((ends[need] for need in needs[step]), default=0)
        return max(ends.values())

    def owned(self, key: str) -> int:
        """The total time that a key is owned."""
        return sum(self.durations[step.id] for step in self.steps if key in step.owns)


@st.composite
def works(draw: st.DrawFn) -> TimedPlan:
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 9))):
        earlier = [step.id for step in steps]
        needs = sorted(draw(st.sets(st.sampled_from(earlier), max_size=2))) if earlier else []
        steps.append(
            Step(
                id=f"s{number}",
                needs=tuple(needs),
                owns=tuple(sorted(draw(st.sets(st.sampled_from(KEYS), max_size=2)))),
                execution_tokens=draw(st.integers(0, 9)),
                priority=draw(st.sampled_from([0, 0, 0, 1])),
            )
        )
    return TimedPlan(tuple(steps), {step.id: draw(st.integers(1, 9)) for step in steps})


@dataclass
class OverlapProbe:
    """Members that record which others work at the same time."""

    work: TimedPlan
    time: StepClock = field(default_factory=StepClock)
    at_work: dict[str, Step] = field(default_factory=dict[str, Step])
    most: int = 0
    clashes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def team(self, max_parallel: int) -> Team:
        options = PlanOptions(steps=self.work.steps, max_parallel=max_parallel)
        return Team("flow", members=[self._member(step) for step in self.work.steps], strategy="dag", options=options)

    def _member(self, step: Step) -> FunctionAgent:
        async def respond(_: Turn) -> str:
            met = [one.id for one in self.at_work.values() if _clash(one, step)]
            self.clashes += [(one, step.id) for one in met]
            self.at_work[step.id] = step
            self.most = max(self.most, len(self.at_work))
            await self.time.sleep(self.work.durations[step.id])
            del self.at_work[step.id]
            return step.id

        return FunctionAgent(step.id, respond)


def _clash(one: Step, other: Step) -> bool:
    return any(overlap(key, another) for key in one.owns for another in other.owns)


@given(works(), st.integers(1, 4))
async def test_owners_of_one_key_never_overlap_and_everything_is_done_in_time(work: TimedPlan, limit: int) -> None:
    probe = OverlapProbe(work)
    with probe.time.running():
        result, _ = await run(probe.team(limit))
    assert not probe.clashes  # Z-05
    assert probe.most <= limit
    assert sorted(message.name for message in result.messages) == sorted(step.id for step in work.steps)
    total = sum(work.durations.values())
    least = max(work.longest_path, total / limit, *(work.owned(key) for key in KEYS))
    assert least <= probe.time.now <= total


def owning_team(work: TimedPlan, limit: int, schedule: ReturnSchedule) -> Team:
    members = [effect_member(step.id, schedule) for step in work.steps]
    options = PlanOptions(steps=work.steps, max_parallel=limit)
    return Team("random", members=members, strategy="dag", options=options)


def begun(events: Sequence[Event]) -> list[str]:
    return [event.key for event in events if event.kind == "agent.asked"]


@settings(max_examples=40)
@given(works(), st.integers(1, 3), st.lists(st.integers(0, 20), min_size=1, max_size=6), st.floats(0, 1, width=16))
async def test_after_a_crash_anywhere_steps_continue_in_the_same_order(
    work: TimedPlan, limit: int, delays: list[int], at: float
) -> None:  # Z-05
    whole = MemoryJournal()
    expected = await run_to_end(
        lambda schedule: owning_team(work, limit, schedule), ReturnSchedule(delays, spaced=True), whole
    )
    events = log_of(whole)
    place = 1 + int(at * (len(events) - 2))
    journal = cut(whole, place)
    schedule = ReturnSchedule(
        spaced=True, order=returned_effects(events), recorded=frozenset(returned_effects(events[:place]))
    )
    result = await run_to_end(lambda schedule: owning_team(work, limit, schedule), schedule, journal, resume=True)
    assert comparable(result) == comparable(expected)
    assert begun(log_of(journal)) == begun(events)
    assert not set(schedule.called) & set(returned_effects(events[:place]))


def told(events: Sequence[Event]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(one.fact.step, one.fact.keys, one.fact.by) for one in events if isinstance(one.fact, StepHeldUp)]


def dag(name: str, members: Sequence[Any], steps: list[Any], **more: Any) -> Team:
    options: dict[str, Any] = {"steps": steps, **more}
    return Team(name, members=members, strategy="dag", options=options)


async def order_of(steps: list[dict[str, Any]], **options: Any) -> tuple[list[str], list[Event]]:
    fakes = FakeMembers()
    members = [fakes.member(step["id"]) for step in steps]
    _, events = await run(dag("flow", members, steps, **options))
    return fakes.calls, events


async def test_the_step_with_the_longest_critical_path_goes_first_when_there_is_no_room_for_all() -> None:  # Z-05
    steps = [
        {"id": "a"}, {"id": "b", "execution_tokens": 5}, {"id": "c"}, {"id": "d", "needs": ["c"]},
        {"id": "e", "needs": ["d"], "execution_tokens": 9},
    ]  # fmt: skip
    assert (await order_of(steps, max_parallel=1))[0] == ["c", "d", "e", "b", "a"]


async def test_the_step_with_the_longest_critical_path_gets_a_key_first() -> None:  # Z-05
    steps = [
        {"id": "a", "owns": ["x"]}, {"id": "b", "owns": ["x"], "execution_tokens": 3},
        {"id": "c", "owns": ["x"]}, {"id": "z", "needs": ["c"], "execution_tokens": 9},
    ]  # fmt: skip
    asked, events = await order_of(steps)
    assert [one for one in asked if one != "z"] == ["c", "b", "a"]
    assert told(events) == [("b", ("x",), ("c",)), ("a", ("x",), ("c",))]


async def test_a_priority_counts_before_any_length_of_way() -> None:
    steps = [{"id": "a", "execution_tokens": 10**9}, {"id": "b", "priority": 1}, {"id": "c", "priority": -1}]
    assert (await order_of(steps, max_parallel=1))[0] == ["b", "a", "c"]


async def test_a_later_step_passes_one_that_waits_for_a_key_and_takes_none_that_is_promised() -> None:  # Z-05
    """`both` waits for x; `other` passes it; `late` wants y, which is free, but `both` is to have it first."""
    steps = [
        {"id": "first", "owns": ["x"], "priority": 9}, {"id": "both", "owns": ["x", "y"], "priority": 5},
        {"id": "late", "owns": ["y"]}, {"id": "other", "owns": ["z"]},
    ]  # fmt: skip
    asked, events = await order_of(steps)
    assert sorted(asked[:2]) == ["first", "other"]
    assert asked[2:] == ["both", "late"]
    assert told(events) == [("both", ("x",), ("first",)), ("late", ("y",), ("both",))]


async def test_a_plan_in_python_is_what_a_dag_works_through() -> None:  # Z-05
    fakes = FakeMembers()
    plan = Plan(steps=(Step(id="survey", owns=("map",)), Step(id="draw", needs=("survey",), owns=("map",))))
    result, _ = await run(Team("harbour", members=fakes.members("survey draw"), strategy="dag", options=plan))
    assert result.status == "completed"
    assert fakes.calls == ["survey", "draw"]


async def test_a_step_has_its_own_limits_and_one_that_is_late_fails_alone() -> None:
    fakes = FakeMembers()

    async def slow(_: Turn) -> None:
        await asyncio.sleep(30)

    members = [fakes.member("slow", slow), *fakes.members("quick after")]
    steps = (
        Step(id="slow", limits=Limits(seconds=0.05)),
        Step(id="quick"),
        Step(id="after", needs=("slow", "quick")),
    )
    options = PlanOptions(steps=steps, on_failure="skip")
    with anyio.fail_after(10):
        result, _ = await run(Team("harbour", members=members, strategy="dag", options=options))
    assert fakes.calls[-1] == "after"
    assert result.status == "degraded"
    assert "'step' used up its 0.05 seconds" in result.warnings[0]


async def test_a_nested_plan_may_own_parts_of_what_its_step_owns_and_nothing_else() -> None:  # Z-05
    fakes = FakeMembers()
    inner = {"good": ["src/a.py"], "bad": ["docs"]}
    crews = [dag(f"{name}-crew", [fakes.member(name)], [{"id": name, "owns": own}]) for name, own in inner.items()]
    team = dag("harbour", crews, [{"id": crew.name, "owns": ["src"]} for crew in crews], on_failure="collect")
    result, _ = await run(team)
    assert fakes.calls == ["good"]
    assert "would own 'docs', and what is around it owns only 'src'" in result.warnings[0]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{"id": "a"}, {"id": "b"}], {"a": None, "b": None}),
        ([{"id": "a", "owns": ["src"]}, {"id": "b"}], {"a": ("src",), "b": ()}),
    ],
)
async def test_where_any_step_owns_something_a_step_without_keys_owns_nothing(
    steps: list[dict[str, Any]], expected: dict[str, tuple[str, ...] | None]
) -> None:  # Z-05
    found: dict[str, tuple[str, ...] | None] = {}

    def member(name: str) -> FunctionAgent:
        async def respond(turn: Turn, ctx: Context) -> str:
            found[name] = ctx.owned.keys
            return name

        return FunctionAgent(name, respond)

    await run(dag("harbour", [member("a"), member("b")], steps))
    assert found == expected
