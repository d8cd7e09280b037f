"""Steps that a person stops while a run goes on: what works on them is cancelled, the others go on, a replay agrees."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from teamwright.errors import InterventionRefused, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentFailed
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.events.team import StepSkipped, TeamPlanStatus, TeamStepAssigned, TeamStepCompleted
from teamwright.values.people import StopStep
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import RACE, SPLIT, facts
from tests.kit.members import FakeMembers
from tests.kit.records import cut, cut_and_resume
from tests.kit.runs import RUN_ID, TASK

STEPS: list[Any] = [
    {"id": "a"},
    {"id": "b"},
    {"id": "c", "needs": ["a", "b"]},
    {"id": "d", "needs": ["b"]},
    {"id": "e", "needs": ["c"]},
]


class Slow:
    """A member that works until it is let go or cancelled."""

    def __init__(self, fakes: FakeMembers, name: str) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.was_cancelled = False
        self.member = fakes.member(name, self._answer)

    async def _answer(self, turn: Turn) -> None:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


def made(fakes: FakeMembers, preset: str, *slow: Slow, steps: list[Any] = STEPS, **options: Any) -> Team:
    held = {one.member.name: one.member for one in slow}
    members = [held.get(name) or fakes.member(name) for name in "abcde"]
    answer = {"answer": "e", "lead": "e"} if preset in ("collaborate", "live") else {}
    return Team("t", members=members, strategy=preset, options={"steps": steps, **answer, **options})


async def stopped(
    team: Team, slow: Slow, *stops: StopStep, journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event]]:
    """Run a team, and stop steps of it while the slow member works; then let that one go."""
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            handle = await engine.start(team, TASK, run_id=RUN_ID)
            await slow.begun.wait()
            for one in stops:
                await engine.runs.stop_step(RUN_ID, one.step, reason=one.reason, by=one.by)
            slow.go.set()
            result = await handle.result()
    return result, list(await journal.read(RUN_ID))


PRESETS = ["dag", "expert", "collaborate", "dispatch"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_running_step_is_cancelled_and_the_others_go_on_with_what_they_have(preset: str) -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    stop = StopStep(step="b", reason="it takes too long", by="ann")
    result, events = await stopped(made(fakes, preset, slow), slow, stop)
    assert slow.was_cancelled
    assert (result.status, result.output) == ("degraded", "e is done")
    assert [one for one in result.warnings if "stopped" in one] == [
        "t: the step 'b' was stopped by ann: it takes too long"
    ]
    assert [message.name for message in fakes.last_turn("c").history][-1] == "a"
    assert [one.step for one in facts(events, StepSkipped) if one.reason == "needs"] == ["d"]
    assert "d" not in fakes.calls
    assert [one.error for one in facts(events, AgentFailed)] == ["cancelled"]
    kinds = [event.kind for event in events]
    assert kinds.index("run.intervened") < kinds.index("run.applied") < kinds.index("agent.failed")


@pytest.mark.parametrize("preset", ["expert", "collaborate", "dispatch"])
async def test_a_step_that_was_stopped_ends_once_as_cancelled(preset: str) -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    _, events = await stopped(made(fakes, preset, slow), slow, StopStep(step="b"))
    assert [one.step for one in facts(events, TeamStepAssigned)].count("b") == 1
    assert [one.state for one in facts(events, TeamStepCompleted) if one.step == "b"] == ["cancelled"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_step_that_has_not_started_never_starts(preset: str) -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    result, events = await stopped(made(fakes, preset, slow), slow, StopStep(step="c"))
    assert (result.status, slow.was_cancelled) == ("degraded", False)
    assert [(one.step, one.reason) for one in facts(events, StepSkipped)] == [("c", "stopped"), ("e", "needs")]
    assert {"c", "e"}.isdisjoint(fakes.calls)


@pytest.mark.parametrize("which", ["b", "c"], ids=["running", "waiting"])
@pytest.mark.parametrize("preset", PRESETS)
async def test_a_required_step_that_a_person_stops_fails_the_team(preset: str, which: str) -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    steps = [step | {"required": True} if step["id"] == which else step for step in STEPS]
    journal = MemoryJournal()
    team = made(fakes, preset, slow, steps=steps)
    result, events = await stopped(team, slow, StopStep(step=which, reason="wrong", by="ann"), journal=journal)
    assert result.failure is not None
    assert (result.status, result.failure.member) == ("failed", f"t/{which}")
    assert "it is required, and a person stopped it" in result.failure.message
    assert f"t: the step '{which}' was stopped by ann: wrong" in result.warnings
    assert fakes.calls.count("e") == 0  # neither as a step nor as a lead that answers
    plans = [one.status for one in facts(events, TeamPlanStatus)]
    assert plans[-1:] == ([] if preset == "dag" else ["failed"])
    for at in range(len(events) // 2, len(events)):
        again, _ = await cut_and_resume(team, at, journal)
        assert (again.status, again.failure) == (result.status, result.failure)


async def test_what_needs_a_step_that_was_stopped_starts_at_once() -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    steps: list[Any] = [{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "d", "needs": ["a", "c"]}]
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            handle = await engine.start(made(fakes, "dag", slow, steps=steps), TASK, run_id=RUN_ID)
            await slow.begun.wait()
            await engine.runs.stop_step(RUN_ID, "c", wait=True)
            while "d" not in fakes.calls:  # noqa: ASYNC110 - the member says nothing when it is asked
                await anyio.sleep(0.001)
            slow.go.set()
            await handle.result()


async def test_a_step_that_several_work_on_is_stopped_with_all_of_them() -> None:
    for parallel in (RACE, SPLIT):
        fakes = FakeMembers()
        slow = Slow(fakes, "b")
        shared = {"id": "x", "parallel": parallel, "agents": ["a", "b"], "merge": "fusion"}
        if parallel == SPLIT:
            shared = {"id": "x", "parallel": parallel, "parts": [{"id": "p", "agent": "a"}, {"id": "q", "agent": "b"}]}
        team = made(fakes, "collaborate", slow, steps=[shared, {"id": "e"}])
        result, events = await stopped(team, slow, StopStep(step="x"))
        assert (result.status, result.output, slow.was_cancelled) == ("degraded", "e is done", True), parallel
        assert [one.state for one in facts(events, TeamStepCompleted) if one.step == "x"] == ["cancelled"]


async def test_a_step_that_waits_for_a_change_of_the_lead_is_stopped() -> None:
    fakes = FakeMembers()
    begun, go = asyncio.Event(), asyncio.Event()

    async def lead(turn: Turn) -> str | None:
        if turn.output_schema is None:
            return None
        begun.set()
        await go.wait()
        return "{}"

    members = [fakes.member("lead", lead), fakes.member("a", Refused("no")), fakes.member("b")]
    options: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b"}]}
    team = Team("t", members=members, strategy="collaborate", options=options)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            handle = await engine.start(team, TASK, run_id=RUN_ID)
            await begun.wait()
            await engine.runs.stop_step(RUN_ID, "a")
            go.set()
            result = await handle.result()
    events = list(await journal.read(RUN_ID))
    assert (result.status, fakes.calls.count("a")) == ("degraded", 1)
    assert [one.state for one in facts(events, TeamStepCompleted) if one.step == "a"] == ["cancelled"]


@pytest.mark.parametrize("preset", ["dag", "expert"])
async def test_what_can_not_be_stopped_is_refused_before_it_is_acknowledged(preset: str) -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "c")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(made(fakes, preset, slow), TASK, run_id=RUN_ID)
        await slow.begun.wait()
        with pytest.raises(InterventionRefused, match="there is no step 'bb'; did you mean 'b'"):
            await engine.runs.stop_step(RUN_ID, "bb")
        with pytest.raises(InterventionRefused, match="the step 'a' is completed already; you can stop 'c'"):
            await engine.runs.stop_step(RUN_ID, "a")
        slow.go.set()
        assert (await handle.result()).status == "completed"
    assert not facts(list(await journal.read(RUN_ID)), RunIntervened)


async def test_a_strategy_without_a_plan_says_that_it_has_no_steps() -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "a")
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(Team("t", members=[slow.member]), TASK, run_id=RUN_ID)
        await slow.begun.wait()
        with pytest.raises(InterventionRefused, match="'sequential' has no steps that people stop"):
            await engine.runs.stop_step(RUN_ID, "a")
        slow.go.set()
        await handle.result()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stop", ["b", "c"])
async def test_a_run_that_is_cut_anywhere_stops_the_same_step_and_ends_the_same(preset: str, stop: str) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    slow = Slow(fakes, "b")
    expected, events = await stopped(made(fakes, preset, slow), slow, StopStep(step=stop), journal=journal)
    accepted = next(event.number for event in events if isinstance(event.fact, RunIntervened))
    for at in range(accepted, len(events)):
        again = FakeMembers()
        other = Slow(again, "b")
        other.go.set()
        result, kinds = await cut_and_resume(made(again, preset, other), at, journal)
        assert (result.status, result.output) == (expected.status, expected.output), at
        assert result.warnings == expected.warnings, at
        assert (kinds.count("run.intervened"), kinds.count("run.applied"), kinds.count("run.refused")) == (1, 1, 0), at
        assert kinds.count("step.skipped") == sum(event.kind == "step.skipped" for event in events), at
        done = {event.key for event in events[:at] if event.kind == "agent.replied"}
        assert not {name for name in again.calls if any(key.split("/")[-2:] == [name, "work"] for key in done)}, at


async def test_a_stop_that_was_sent_to_a_run_without_a_driver_takes_effect_when_it_is_resumed() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    slow = Slow(fakes, "b")
    expected, events = await stopped(made(fakes, "expert", slow), slow, StopStep(step="d"), journal=journal)
    accepted = next(event.number for event in events if isinstance(event.fact, RunIntervened))
    for at in range(1, accepted):
        copy = await cut(journal, at)
        again = FakeMembers()
        slow_again = Slow(again, "b")
        slow_again.go.set()
        async with Engine(copy) as engine:
            with anyio.fail_after(10):
                result = await engine.resume(RUN_ID, team=made(again, "expert", slow_again))
        found = list(await copy.read(RUN_ID))
        assert len(facts(found, RunApplied)) + len(facts(found, RunRefused)) == 1, at
        assert result.output == expected.output, at


async def test_a_fork_keeps_the_step_stopped() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    slow = Slow(fakes, "b")
    team = made(fakes, "expert", slow)
    expected, events = await stopped(team, slow, StopStep(step="b"), journal=journal)
    applied = next(event.number for event in events if isinstance(event.fact, RunApplied))
    slow.begun.clear()
    async with Engine(journal) as engine:
        for at in (applied, len(events) - 3):
            result = await engine.fork(RUN_ID, at=at, team=team)
            assert (result.status, result.output) == (expected.status, expected.output)


async def test_work_on_a_step_that_was_stopped_is_never_the_answer() -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "b")
    parts = [{"id": "p", "agent": "a"}, {"id": "q", "agent": "b"}]
    shared = {"id": "x", "parallel": SPLIT, "parts": parts}
    team = made(fakes, "plan", slow, steps=[shared], evaluate={"criteria": [{"id": "long", "length": {"min": 99}}]})
    result, _ = await stopped(team, slow, StopStep(step="x"))
    assert "a" in fakes.calls
    assert (result.status, result.output, result.messages) == ("degraded", "", ())


async def test_a_step_is_stopped_once() -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "a")
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(made(fakes, "expert", slow, max_parallel=1), TASK, run_id=RUN_ID)
        await slow.begun.wait()
        await engine.runs.stop_step(RUN_ID, "c")
        with pytest.raises(InterventionRefused, match=r"the step 'c' is (stopped|skipped) already"):
            await engine.runs.stop_step(RUN_ID, "c")
        slow.go.set()
        assert (await handle.result()).status == "degraded"


async def test_a_plan_that_one_agent_finishes_is_neither_stopped_in_parts_nor_changed() -> None:
    fakes = FakeMembers()
    slow = Slow(fakes, "e")
    members = [fakes.member("a", RuntimeError("no")), fakes.member("c"), slow.member]
    options: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "c", "needs": ["a"]}], "on_failure": [{"finish": "e"}]}
    team, journal = Team("t", members=members, strategy="expert", options=options), MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(team, TASK, run_id=RUN_ID)
        await slow.begun.wait()
        with pytest.raises(InterventionRefused, match="the step 'c' does not begin any more: the plan was left"):
            await engine.runs.stop_step(RUN_ID, "c")
        with pytest.raises(InterventionRefused, match="the plan changes no more: the plan was left"):
            await engine.runs.edit_plan(RUN_ID, {"put": [{"id": "d", "agent": "c"}]})
        slow.go.set()
        await handle.result()
    assert not facts(list(await journal.read(RUN_ID)), RunIntervened)
