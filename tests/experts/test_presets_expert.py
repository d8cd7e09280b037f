"""The expert strategy: its plan, its turns and its events, and what is refused before the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright import load_team
from teamwright.errors import ManifestError, Refused
from teamwright.experts.presets import Expert
from teamwright.history.kpis import kpis_of
from teamwright.strategies.plan.steps.step_options import has_evaluated_steps, without_evaluation
from teamwright.strategies.protocol import Members, Settings, Strategy
from teamwright.teams.team import Team
from teamwright.testing.strategy import StrategyConformance
from teamwright.testing.trial import TASK as TRIAL
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.team import TeamPlanChanged, TeamStepCompleted, TeamStepFailed
from teamwright.values.limits import Limits
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, run, speakers

CITES: dict[str, Any] = {"criteria": [{"id": "cites", "contains": "[1]"}]}
ROLES = {
    "researcher": {"capabilities": ["research"], "instructions": "Be exact.", "tools": ["search"]},
    "writer": {"agent": "ben"},
}
STEPS: list[Any] = [
    {"id": "find", "role": "researcher", "evaluate": CITES},
    {"id": "write", "role": "writer", "needs": ["find"]},
]


def revised(turn: Turn) -> str:
    return "200 days [1]" if "Review 1" in turn.task else "often"


def expert(fakes: FakeMembers, answers: dict[str, object] | None = None, **options: Any) -> Team:
    given: dict[str, Any] = {"roles": ROLES, "steps": STEPS, **options}
    said = {"ana": revised, **(answers or {})}
    members = [fakes.member("ben", said.get("ben")), fakes.member("ana", said["ana"], capabilities=("Research",))]
    return Team("report", members=members, strategy="expert", options=given)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events if event.kind.startswith("team.")]


def facts(events: list[Event], kind: type[Fact]) -> list[Any]:
    return [event.fact for event in events if isinstance(event.fact, kind)]


async def ended(team: Team) -> RunResult:
    result, _ = await run(team)
    return result


async def test_steps_are_bound_evaluated_and_revised_and_the_last_gives_the_answer() -> None:  # K-03, K-13
    fakes = FakeMembers()
    result, events = await run(expert(fakes))
    assert (result.status, result.output, result.warnings) == ("completed", "ben is done", ())
    assert speakers(result) == ["ana", "ben"]
    assert fakes.calls == ["ana", "ana", "ben"]
    assert [message.content for message in fakes.last_turn("ben").history] == ["200 days [1]"]
    assert kinds(events) == [
        "team.started", "team.plan_changed", "team.role_bound", "team.role_bound", "team.planned", "team.plan_status",
        "team.step_assigned", "team.evaluation_started", "team.evaluation_result",
        "team.evaluation_started", "team.evaluation_result", "team.step_completed",
        "team.step_assigned", "team.evaluation_started", "team.evaluation_result", "team.step_completed",
        "team.plan_status", "team.ended",
    ]  # fmt: skip
    assert events[-3].kind == "team.ended"
    assert (events[-3].fact.status, events[-3].fact.stop_reason) == ("completed", "done")  # type: ignore[union-attr]


async def test_instructions_and_tools_of_a_role_reach_its_steps_alone() -> None:  # K-04
    fakes = FakeMembers()
    await ended(expert(fakes))
    ana, ben = fakes.received[0][1], fakes.last_turn("ben")
    assert (ana.task, ana.tools) == (f"Be exact.\n\n{TASK}", ("search",))
    assert (ben.task, ben.tools) == (TASK, None)


class TestExpert(StrategyConformance):
    """One step for each member."""

    settings = Settings()

    def make(self) -> Strategy:
        return Expert()


class TestExpertWithAFixedPlan(StrategyConformance):
    """Two steps side by side, and one that gives the answer from both."""

    settings = Settings(
        options={
            "steps": [
                {"id": "one", "agent": "member-1"},
                {"id": "two", "agent": "member-2"},
                {"id": "both", "agent": "member-3", "needs": ["one", "two"]},
            ]
        }
    )

    def make(self) -> Strategy:
        return Expert()


class TestExpertWithAPlanner(StrategyConformance):
    """A helper plans two steps."""

    settings = Settings(options={"lead": "planner"})

    def make(self) -> Strategy:
        return Expert()

    def lines(self, member: str, turn: Turn) -> str | None:
        if turn.purpose != "coordinate":
            return None
        steps: list[dict[str, object]] = [{"id": "a", "role": "member-1", "task": TRIAL}]
        steps.append({"id": "b", "role": "member-2", "task": TRIAL, "needs": ["a"]})
        return json.dumps({"steps": steps})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"steps": [{"id": "find", "role": "poet"}]}, "there is neither a role nor a member 'poet'"),
        ({"steps": [{"id": "nobody"}]}, "no role and no member has its name"),
        ({"steps": [{"id": "ben", "needs": ["gone"]}]}, "gone"),
        ({"steps": [{"id": "ben", "needs": ["ben"]}]}, "ben"),
        ({"steps": [{"id": "ben", "task": "{{ outputs.x }}"}]}, "which is no step that it needs"),
        ({"answer": "nothing"}, "there is no step 'nothing'"),
        ({"roles": {"writer": {"agent": "dora"}}}, "'dora' is not a member"),
        ({"steps": [], "lead": "dora"}, "'dora' is neither a member nor a helper"),
        ({"evaluate": {"criteria": [{"id": "q", "judge": "Good?"}]}}, "needs a judge"),
    ],
)
def test_a_team_that_can_not_work_is_refused_when_it_is_made(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        expert(FakeMembers(), **options)
    assert problem in str(refused.value)


def test_a_manifest_is_refused_with_file_line_and_suggestion(tmp_path: Path) -> None:
    text = """
agents: {ana: {model: {rules: [{reply: hi}]}}}
teams:
  t:
    strategy: expert
    members: [ana]
    expert:
      roles: {writer: {agnet: ana}}
      max_feedback_rounds: 0
      steps:
        - {id: write, role: writter}
"""
    file = tmp_path / "team.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as refused:
        load_team(file)
    said = str(refused.value)
    assert "team.yaml:8" in said
    assert "agent" in said
    assert "team.yaml:9" in said


def test_the_step_that_answers_is_declared_as_the_closing_ask() -> None:
    team = expert(FakeMembers())
    (closing,) = team.strategy.closing(team.settings, Members(team.members))
    assert (closing.member, closing.reads) == ("ben", 1)


async def test_a_team_that_is_short_of_budget_closes_with_what_there_is() -> None:  # K-11
    fakes = FakeMembers()
    members = [fakes.member("a"), fakes.member("b"), fakes.member("c", limits=Limits(calls=0))]
    steps: list[Any] = [{"id": "a"}, {"id": "c"}, {"id": "b", "needs": ["a", "c"]}]
    result, events = await run(Team("t", members=members, strategy="expert", options={"steps": steps}))
    assert (result.status, result.stop_reason, result.output) == ("degraded", "budget", "b is done")
    assert facts(events, TeamStepFailed)[0].passed_over == ("retry", "upgrade_model", "downgrade_model")


def test_a_team_is_drawn_with_its_steps_and_with_the_roles_of_its_planner() -> None:
    team = expert(FakeMembers())
    diagram = team.strategy.diagram(team.settings, Members(team.members))
    assert [(node.label, node.agent, node.about) for node in diagram.nodes] == [
        ("find", "ana", "as researcher"),
        ("write", "ben", "as writer"),
    ]
    team = expert(FakeMembers(), steps=[], lead="ana")
    nodes = team.strategy.diagram(team.settings, Members(team.members)).nodes
    assert [node.label for node in nodes] == ["plan", "researcher", "writer"]


def test_a_simulation_evaluates_nothing() -> None:
    settings = Settings(options={"evaluate": CITES, "steps": STEPS})
    assert has_evaluated_steps(settings)
    plain = without_evaluation(settings)
    assert not has_evaluated_steps(plain)
    assert "evaluate" not in plain.options


async def test_a_member_that_would_judge_its_own_work_as_planned_is_refused_in_planning() -> None:  # K-10
    fakes = FakeMembers()
    plan = '{"steps": [{"id": "write", "role": "ben", "task": "Write."}]}'
    options: Any = {"lead": "p", "evaluate": {"judge": "ben", "criteria": [{"id": "q", "judge": "Is it good?"}]}}
    members, helpers = fakes.members("ana ben"), [fakes.member("p", plan)]
    result, _ = await run(Team("t", members=members, helpers=helpers, strategy="expert", options=options))
    assert (result.status, result.stop_reason) == ("failed", "planning")
    assert "the step 'write'" in (result.failure.message if result.failure else "")
    assert fakes.calls == ["p", "p"]


async def test_a_step_that_is_tried_again_counts_once_in_kpis() -> None:
    left: list[object] = [Refused("no"), "often [1]"]
    fakes = FakeMembers()
    result, events = await run(expert(fakes, {"ana": lambda _: left.pop(0)}))
    found = kpis_of(events)
    assert (result.status, found.steps, found.passed) == ("completed", 2, 2)


def planned(fakes: FakeMembers) -> Team:
    plan = {
        "steps": [{"id": "a", "role": "ana", "task": "A."}, {"id": "b", "role": "ben", "task": "B.", "needs": ["a"]}]
    }
    helpers = [fakes.member("planner", json.dumps(plan))]
    options: dict[str, Any] = {"lead": "planner"}
    return Team("t", members=fakes.members("ana ben"), helpers=helpers, strategy="expert", options=options)


async def test_the_plan_of_a_planner_is_recorded() -> None:
    _, events = await run(planned(FakeMembers()))
    (plan,) = facts(events, TeamPlanChanged)
    assert plan.by == "planner"
    assert [(step["id"], step["agent"]) for step in plan.plan["steps"]] == [("a", "ana"), ("b", "ben")]


async def test_with_the_default_plan_the_others_go_on_without_the_first_member() -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", Refused("ill")), *fakes.members("b c")]
    result, _ = await run(Team("t", members=members, strategy="expert"))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert [message.name for message in fakes.last_turn("c").history] == ["b"]


async def test_of_two_steps_side_by_side_one_is_done_and_reviewed_where_the_budget_does_not_cover_both() -> None:
    """A-03, Z-10: a part is kept back for the judge, so no work is left that none reviewed."""
    fakes = FakeMembers()
    passing = {"criteria": [{"id": "good", "passed": True, "score": 1.0, "reason": "It is."}]}
    judge = fakes.member("judge", lambda turn: json.dumps(passing))
    evaluate: dict[str, Any] = {"judge": "judge", "criteria": [{"id": "good", "judge": "Is it good?"}]}
    options: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b"}], "evaluate": evaluate}
    members = fakes.members("a b")
    team = Team("t", members=members, helpers=[judge], strategy="expert", options=options, limits=Limits(calls=2))
    result, events = await run(team)
    verdicts = [event.fact.verdict for event in events if isinstance(event.fact, TeamStepCompleted)]
    assert sorted(map(str, verdicts)) == ["None", "pass"]
    assert (result.status, result.stop_reason) == ("degraded", "budget")
