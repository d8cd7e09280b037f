"""Steps flow: each starts the moment its own inputs are there, so the whole takes as long as its longest path."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anyio
from hypothesis import given, strategies as st

from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import StepGraph, StepNode
from teamwright.teams.team import Team
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import run
from tests.kit.step_clock import StepClock, answer_after

Plan = dict[str, tuple[int, list[str]]]
"""Steps by id: how long each takes, and what it needs."""


def team(plan: Plan, time: StepClock, fakes: FakeMembers, max_parallel: int) -> Team:
    members = [fakes.member(step, answer_after(time, duration)) for step, (duration, _) in plan.items()]
    steps = tuple(Step(id=step, needs=tuple(needs)) for step, (_, needs) in plan.items())
    options = PlanOptions(steps=steps, max_parallel=max_parallel)
    return Team("flow", members=members, strategy="dag", options=options)


async def makespan(plan: Plan, max_parallel: int = 100) -> tuple[int, FakeMembers]:
    """The total virtual time of the steps."""
    time, fakes = StepClock(), FakeMembers()
    with time.running():
        result, _ = await run(team(plan, time, fakes, max_parallel))
    assert len(result.messages) == len(plan)
    return time.now, fakes


def critical_path(plan: Plan) -> int:
    """The length of the longest path, which nothing can beat."""
    ends: dict[str, int] = {}
    for step in StepGraph.from_nodes([StepNode(step, needs) for step, (_, needs) in plan.items()]).order:
        duration, needs = plan[step]
        ends[step] = duration + max((ends[need] for need in needs), default=0)
    return max(ends.values())


async def test_a_slow_sibling_does_not_delay_an_unrelated_branch() -> None:  # P-05
    """The slow one waits for the end of the other branch: with a barrier between waves this would wait for ever."""
    fakes, third_is_done = FakeMembers(), asyncio.Event()

    async def slow(_: Turn) -> str:
        await third_is_done.wait()
        return "slow is done"

    async def third(_: Turn) -> str:
        third_is_done.set()
        return "third is done"

    members = [fakes.member("slow", slow), *fakes.members("first second"), fakes.member("third", third)]
    steps: list[Any] = [
        {"id": "slow"}, {"id": "first"}, {"id": "second", "needs": ["first"]}, {"id": "third", "needs": ["second"]},
    ]  # fmt: skip
    with anyio.fail_after(10):
        result, events = await run(Team("flow", members=members, strategy="dag", options={"steps": steps}))
    assert result.status == "completed"
    replied = [event.key.split("/")[1] for event in events if event.kind == "agent.replied" and "/" in event.key]
    assert replied == ["first", "second", "third", "slow"]


async def test_the_whole_takes_as_long_as_its_critical_path() -> None:  # P-05
    """In waves it would take 9 + 9 + 1: the slow step of each wave would hold up all of the next."""
    plan: Plan = {
        "slow": (9, []), "quick": (1, []), "after_slow": (1, ["slow"]), "after_quick": (9, ["quick"]),
        "end": (1, ["after_slow", "after_quick"]),
    }  # fmt: skip
    taken, _ = await makespan(plan)
    assert taken == critical_path(plan) == 11


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    plan: Plan = {}
    for number in range(draw(st.integers(1, 10))):
        needs = sorted(draw(st.sets(st.sampled_from(sorted(plan)), max_size=3))) if plan else []
        plan[f"s{number}"] = (draw(st.integers(1, 20)), needs)
    return plan


@given(plans())
async def test_no_graph_takes_longer_than_its_critical_path(plan: Plan) -> None:  # P-05
    taken, _ = await makespan(plan)
    assert taken == critical_path(plan)


@given(plans(), st.integers(1, 3))
async def test_no_more_steps_than_the_limit_run_and_no_ready_step_waits_below_it(plan: Plan, limit: int) -> None:
    """Starting every ready step stays within Graham's bound of the optimum."""
    taken, fakes = await makespan(plan, limit)
    work = sum(duration for duration, _ in plan.values())
    assert fakes.most_in_flight <= limit
    assert max(critical_path(plan), work / limit) <= taken <= work / limit + critical_path(plan)


async def calls_of(size: int) -> int:
    """The number of calls in the strategy's files for a wide and a long graph of this size."""
    count = 0
    own = (
        "strategies/plan/steps/step_runner.py",
        "strategies/part_results.py",
        "strategies/plan/schedule.py",
        "strategies/plan/dag.py",
    )

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal count
        count += frame.f_code.co_filename.endswith(own)

    fakes = FakeMembers()
    steps: list[Any] = [{"id": "s0", "agent": "hand"}]
    steps += [
        {"id": f"s{one}", "agent": "hand", "needs": [f"s{one - 1}"] if one < size // 2 else ["s0"]}
        for one in range(1, size)
    ]
    steps.append({"id": "end", "agent": "hand", "needs": [step["id"] for step in steps]})
    made = Team("flow", members=[fakes.member("hand")], strategy="dag", options={"steps": steps})
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        await run(made)
    finally:
        sys.setprofile(before)
    return count


async def test_the_work_grows_with_the_steps_and_no_faster() -> None:
    assert await calls_of(400) < 4.5 * await calls_of(100)
