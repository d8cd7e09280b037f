"""Roles: a step gets a member with the required capability, or the plan fails with who was considered."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.strategies.plan.bound_roles import bind_roles
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import CreatedRole, Role, Step
from tests.kit.members import FakeMembers
from tests.kit.runs import run

FAKES = FakeMembers()
ANA = FAKES.member("ana", capabilities=("research", "maths"))
BEN = FAKES.member("ben", capabilities=("Writing",))
CAT = FAKES.member("cat")
MEMBERS = Members([ANA, BEN, CAT])


def bound(roles: dict[str, Role], *steps: Step) -> dict[str, str]:
    binding = bind_roles(steps, roles, MEMBERS)
    assert binding.problems == []
    return {step: one.agent.name for step, one in binding.by_step.items()}


def test_a_role_gets_a_member_with_its_capability_in_any_case() -> None:  # K-03
    assert bound({"author": Role(capabilities="writing")}, Step(id="write", role="author")) == {"write": "ben"}


def test_two_roles_get_two_members_where_there_are_enough() -> None:
    roles = {"one": Role(), "two": Role(), "three": Role(capabilities="research")}
    steps = (Step(id="a", role="one"), Step(id="b", role="two"), Step(id="c", role="three"))
    assert bound(roles, *steps) == {"a": "ana", "b": "ben", "c": "ana"}
    assert bound(roles, *steps, Step(id="d", role="two"))["d"] == "ben"


def test_a_step_without_a_role_goes_to_its_agent_or_to_the_member_of_its_name() -> None:
    assert bound({}, Step(id="x", agent="cat"), Step(id="ben")) == {"x": "cat", "ben": "ben"}


def test_a_role_that_nobody_fits_is_told_with_the_step_the_need_and_who_was_considered() -> None:  # K-03
    binding = bind_roles([Step(id="draw", role="artist")], {"artist": Role(capabilities="drawing")}, MEMBERS)
    (problem,) = binding.problems
    assert problem.startswith("the step 'draw' needs the role 'artist', which requires the capability 'drawing'; ")
    assert problem.endswith("considered: ana (research, maths), ben (Writing), cat (no capabilities)")


def test_a_member_needs_all_capabilities_of_its_role() -> None:
    both = Role(capabilities=("Writing", "research"))
    agent = FAKES.member("dan", capabilities=("research", "writing", "law"))
    binding = bind_roles([Step(id="w", role="r")], {"r": both}, Members([*MEMBERS, agent]))
    assert binding.by_step["w"].agent is agent
    (problem,) = bind_roles([Step(id="w", role="r")], {"r": both}, MEMBERS).problems
    assert "which requires the capabilities 'Writing' and 'research'; considered: " in problem


def test_a_named_agent_needs_the_capability_of_its_role_too() -> None:
    binding = bind_roles([Step(id="w", role="r", agent="cat")], {"r": Role(capabilities="writing")}, MEMBERS)
    assert binding.problems == [
        "the step 'w' needs the role 'r', which requires the capability 'writing'; considered: cat (no capabilities)"
    ]


def test_a_role_with_an_allowlist_is_never_bound_to_a_team_which_could_not_keep_it() -> None:  # K-04
    team = Team("inner", members=[CAT])
    binding = bind_roles([Step(id="inner")], {"inner": Role(tools=("search",))}, Members([team]))
    assert "whose members have their own" in binding.problems[0]


def expert(fakes: FakeMembers, **options: Any) -> Team:
    members = [fakes.member("ana", capabilities=("research",)), fakes.member("ben")]
    return Team("t", members=members, strategy="expert", options=options)


async def test_a_run_whose_roles_can_not_be_bound_fails_in_planning_before_anybody_is_asked() -> None:  # K-03
    fakes = FakeMembers()
    roles = {"artist": {"capabilities": "drawing"}}
    result, events = await run(expert(fakes, roles=roles, steps=[{"id": "draw", "role": "artist"}]))
    assert (result.status, result.stop_reason, result.exit_code) == ("failed", "planning", 1)
    assert result.failure is not None
    assert "considered: ana (research), ben (no capabilities)" in result.failure.message
    assert fakes.calls == []
    ending = next(event.fact for event in events if event.kind == "team.ended")
    assert ending.to_json()["status"] == "failed"


async def test_limits_of_a_role_hold_for_each_of_its_steps() -> None:  # K-04
    fakes = FakeMembers()
    roles = {"one": {"agent": "ana", "limits": Limits(calls=1).model_dump(exclude_unset=True)}, "two": {"agent": "ben"}}
    steps = [{"id": "a", "role": "one"}, {"id": "b", "role": "one"}, {"id": "c", "role": "two", "needs": ["a", "b"]}]
    result, events = await run(expert(fakes, roles=roles, steps=steps))
    assert result.status == "completed"
    assert sorted(fakes.calls) == ["ana", "ana", "ben"]
    opened = [event.key for event in events if event.kind == "budget.opened"]
    assert opened == ["t/plan", "t/plan/a/role-limits", "t/plan/b/role-limits"]


@pytest.mark.parametrize(
    ("allowed", "called"), [(["search"], []), (["search", "delete"], ["delete"]), (None, ["delete"])]
)
async def test_a_tool_that_the_role_does_not_allow_is_never_called(allowed: Any, called: list[str]) -> None:  # K-04
    calls: list[str] = []

    def search() -> str:
        """Search."""
        return "found"

    def delete() -> str:
        """Delete."""
        calls.append("delete")
        return "gone"

    rules = [Rule(tool=ToolRule(name="delete", args={}), times=1), Rule(reply="done")]
    ana = ScriptedAgent("ana", rules, tools=[search, delete])
    options: dict[str, Any] = {"roles": {"clerk": {"agent": "ana", "tools": allowed}}}
    await run(Team("t", members=[ana], strategy="expert", options=options))
    assert calls == called


@pytest.mark.parametrize(
    ("declared", "tools"),
    [
        ({"reader": Role(agent="ana", tools=("search",))}, ("search",)),
        ({"reader": Role(capabilities="research", tools=("search",))}, ("search",)),
        ({"reader": Role(tools=())}, ()),
        ({"a": Role(agent="ana", tools=("x", "y")), "b": Role(agent="ana", tools=("y",))}, ("y",)),
        ({"a": Role(agent="ana", tools=("x",)), "b": Role(agent="ana")}, ("x",)),
        ({"writer": Role(agent="ben", tools=("x",))}, None),
        ({}, None),
    ],
)
def test_a_role_that_a_planner_made_gives_no_tool_that_a_declared_one_forbids(
    declared: dict[str, Role], tools: tuple[str, ...] | None
) -> None:
    made = {"free": CreatedRole(instructions="Do all.", capabilities="maths")}
    binding = bind_roles([Step(id="s", role="free")], {**declared, **made}, MEMBERS)
    one = binding.by_step["s"]
    assert (one.agent.name, one.role.tools) == ("ana", tools)
