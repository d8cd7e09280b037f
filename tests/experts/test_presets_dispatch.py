"""Dispatch: a pool of members works through steps; a failed step goes to another member, and is then skipped."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.errors import ManifestError, Refused
from teamwright.experts.presets import Dispatch
from teamwright.strategies.protocol import Settings, Strategy
from teamwright.teams.team import Team
from teamwright.testing.strategy import StrategyConformance
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamStepAssigned, TeamStepFailed
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import facts
from tests.kit.members import FakeMembers
from tests.kit.runs import run


class TestDispatch(StrategyConformance):
    """Three steps over three members, the last after the others."""

    settings = Settings(options={"steps": [{"id": "one"}, {"id": "two"}, {"id": "both", "needs": ["one", "two"]}]})

    def make(self) -> Strategy:
        return Dispatch()


NAMES = ["one", "two", "three"]
STEPS: list[dict[str, Any]] = [*({"id": name} for name in NAMES), {"id": "all", "needs": NAMES}]


def dispatch(fakes: FakeMembers, answers: dict[str, object] | None = None, **options: Any) -> Team:
    members = [fakes.member(name, (answers or {}).get(name)) for name in ("ana", "ben", "cat")]
    given: dict[str, Any] = {"steps": STEPS, **options}
    return Team("pool", members=members, strategy="dispatch", options=given)


def assigned(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(one.step, one.member, one.attempt) for one in facts(events, TeamStepAssigned)]


async def test_steps_go_to_the_least_busy_members() -> None:
    fakes = FakeMembers()
    result, events = await run(dispatch(fakes))
    assert (result.status, result.output) == ("completed", "ana is done")
    assert sorted(member for _, member, _ in assigned(events)[:3]) == ["ana", "ben", "cat"]


async def test_a_failed_step_goes_to_another_member() -> None:
    result, events = await run(dispatch(FakeMembers(), {"ana": Refused("no")}, max_parallel=1))
    assert result.status == "completed"
    assert assigned(events)[:2] == [("one", "ana", 1), ("one", "ben", 2)]


async def test_after_its_retries_a_step_is_skipped_with_a_warning_and_the_others_go_on() -> None:  # K-06
    wrong: dict[str, object] = {"ana": Refused("no"), "ben": Refused("no")}
    steps = [*STEPS[:2], {"id": "three", "agent": "cat"}]
    result, events = await run(dispatch(FakeMembers(), wrong, max_parallel=1, steps=steps))
    assert (result.status, result.output) == ("degraded", "cat is done")
    rungs = [event.fact.rung for event in events if isinstance(event.fact, TeamStepFailed)]
    assert rungs == ["retry", "skip_step"] * 2
    assert len(result.warnings) == 2


async def test_a_step_that_names_its_member_is_tried_again_by_the_same() -> None:
    steps = [{"id": "one", "agent": "ana"}, {"id": "two", "agent": "ben"}]
    result, events = await run(dispatch(FakeMembers(), {"ana": Refused("no")}, steps=steps))
    assert result.status == "degraded"
    assert {member for step, member, _ in assigned(events) if step == "one"} == {"ana"}


@pytest.mark.parametrize(("role", "able"), [({"agent": "cat"}, ["cat"]), ({"capabilities": "law"}, ["ben", "cat"])])
async def test_a_step_with_a_role_goes_to_those_alone_who_may_have_it(role: JsonValue, able: list[str]) -> None:
    fakes, steps = FakeMembers(), [{"id": "one", "role": "lawyer"}]
    members = [
        fakes.member("ana"),
        *(fakes.member(name, Refused("no"), capabilities=("law",)) for name in ("ben", "cat")),
    ]
    options: dict[str, Any] = {"roles": {"lawyer": role}, "steps": steps}
    _, events = await run(Team("pool", members=members, strategy="dispatch", options=options))
    assert [member for _, member, _ in assigned(events)] == able


async def test_a_revision_goes_to_the_author_who_took_over() -> None:
    fakes = FakeMembers()
    rubric = {"criteria": [{"id": "good", "contains": "good"}]}

    def says(turn: Turn) -> str:
        return "good" if "Review 1" in turn.task else "bad"

    await run(dispatch(fakes, {"ana": Refused("no"), "ben": says}, steps=[{"id": "one", "evaluate": rubric}]))
    assert fakes.calls == ["ana", "ben", "ben"]
    assert [message.name for message in fakes.last_turn("ben").history] == ["ben"]


async def test_the_time_of_the_pool_ends_it_with_what_it_has() -> None:  # K-12
    async def never(turn: Turn) -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    result, _ = await run(dispatch(FakeMembers(), {"ben": never}, timeout=0.3))
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert isinstance(result.data, list)
    assert len(result.data) == 4


def test_a_step_with_a_role_is_refused_because_a_pool_has_none() -> None:
    with pytest.raises(ManifestError, match="has a role, and a pool has none"):
        dispatch(FakeMembers(), steps=[{"id": "one", "role": "writer"}])


@pytest.mark.parametrize("strategy", ["dispatch", "single"])
async def test_a_pool_without_steps_has_one_for_each_member(strategy: str) -> None:
    fakes = FakeMembers()
    team = Team("t", members=[fakes.member("a"), fakes.member("b")], strategy=strategy)
    result, events = await run(team)
    assert (result.status, len(fakes.calls)) == ("completed", 2)
    assert [one.step for one in facts(events, TeamStepAssigned)] == ["a", "b"]


async def test_a_step_that_the_lead_plans_without_a_role_goes_to_whoever_is_free() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", json.dumps({"steps": [{"id": "x", "task": "Go."}, {"id": "y", "task": "Go."}]}))
    members = [lead, fakes.member("a"), fakes.member("b")]
    result, events = await run(Team("t", members=members, strategy="dispatch", options={"lead": "lead"}))
    assert result.status == "completed"
    assert {one.member for one in facts(events, TeamStepAssigned)} == {"a", "b"}


async def test_a_pool_whose_lead_gives_no_plan_works_on_the_task_as_one_step() -> None:
    fakes = FakeMembers()
    members = [fakes.member("lead", "no plan"), fakes.member("a")]
    options: dict[str, JsonValue] = {"lead": "lead", "on_planner_failure": "single_step_fallback"}
    result, _ = await run(Team("t", members=members, strategy="dispatch", options=options))
    assert (result.status, result.output) == ("degraded", "a is done")
    assert "the task is one step of whoever is free" in result.warnings[0]
