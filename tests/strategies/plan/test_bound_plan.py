"""The risk of a team decides how its steps are evaluated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.agents.evaluators import make_evaluator
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError, UsageError
from teamwright.experts.presets import Expert
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.plan import bound_plan
from teamwright.strategies.plan.bound_roles import NO_ROLE
from teamwright.strategies.plan.options import FailureLadder, PlanOptions
from teamwright.strategies.plan.rounds import WorkerPool
from teamwright.strategies.plan.steps.step_work import StepAssignment
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamStepCompleted
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import facts
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, run
from tests.kit.steering import Gate, run_steered

QUESTION = {"id": "good", "judge": "Is it good?"}
CHECK = {"id": "long", "length": {"min": 3}}
ExpertOptions = Expert.options


def evaluation_of(step: Step, options: PlanOptions) -> Evaluate:
    found = bound_plan.evaluation_of(step, options)
    assert found is not None
    return found


def test_a_step_without_a_declaration_has_that_of_its_team_and_else_must_not_be_blank() -> None:  # K-10
    step = Step(id="a")
    assert [one.id for one in evaluation_of(step, ExpertOptions()).rubric] == ["not-blank"]
    options = ExpertOptions.model_validate({"evaluate": {"criteria": [CHECK]}})
    assert [one.id for one in evaluation_of(step, options).rubric] == ["long"]


def test_the_defaults_are_medium_risk_three_rounds_ten_minutes_and_to_fail_fast() -> None:  # K-11
    options = ExpertOptions()
    declared = evaluation_of(Step(id="a"), options)
    assert (declared.risk, declared.revisions, declared.evaluator) == ("medium", 2, "auto")
    assert (options.timeout, options.on_planner_failure) == (600, "fail_fast")


def test_rounds_of_a_step_are_never_more_than_those_of_its_team() -> None:  # K-11
    options = ExpertOptions.model_validate({"max_feedback_rounds": 2})
    assert evaluation_of(Step(id="a", evaluate=Evaluate(revisions=4)), options).revisions == 1
    assert evaluation_of(Step(id="a", evaluate=Evaluate(revisions=0)), options).revisions == 0
    assert evaluation_of(Step(id="a", evaluate=Evaluate()), options).revisions == 1


@pytest.mark.parametrize(
    ("risk", "counts", "asks"), [("low", True, True), ("medium", False, True), ("high", False, False)]
)
def test_the_risk_decides_whether_a_judge_is_asked_and_what_becomes_of_work_that_does_not_pass(
    risk: str, counts: bool, asks: bool
) -> None:  # K-09, K-10
    options = ExpertOptions.model_validate({"risk": risk, "evaluate": {"criteria": [CHECK, QUESTION], "judge": "j"}})
    declared = evaluation_of(Step(id="a"), options)
    assert (declared.counts_with_warning, declared.asks_judges) == (counts, asks)


def test_a_step_may_have_a_risk_of_its_own() -> None:
    step = Step(id="a", evaluate=Evaluate(risk="low"))
    assert evaluation_of(step, ExpertOptions(risk="high")).risk == "low"


def make(**options: Any) -> Team:
    fakes = FakeMembers()
    return Team("t", members=fakes.members("a"), helpers=fakes.members("j"), strategy="expert", options=options)


def test_a_team_of_high_risk_needs_checks_and_is_warned_of_questions() -> None:  # K-10
    with pytest.raises(ManifestError, match="checks alone decide, and there is none"):
        make(risk="high", evaluate={"criteria": [QUESTION], "judge": "j"})
    with pytest.raises(ManifestError, match="the step 'a': with risk 'high' checks alone decide"):
        make(risk="high", steps=[{"id": "a", "evaluate": {"criteria": [QUESTION], "judge": "j"}}])
    (warning,) = make(risk="high", evaluate={"criteria": [CHECK, QUESTION], "judge": "j"}).warnings
    assert "do not count: good" in str(warning)


@pytest.mark.parametrize(
    "options",
    [
        {"max_feedback_rounds": 0},
        {"max_feedback_rounds": 2.5},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"max_parallel": 0},
        {"risk": "none"},
        {"evaluate": {"threshold": 1.01}},
        {"evaluate": {"criteria": [{**CHECK, "threshold": float("nan")}]}},
        {"evaluate": {"risk": "medium", "on_failure": "pass"}},
        {"on_failure": ["abort_team"]},
        {"roles": {"no such name!": {}}},
    ],
)
def test_nonsense_is_refused_when_the_team_is_made(options: dict[str, Any]) -> None:  # K-11
    with pytest.raises(UsageError):
        make(**options)


JUDGED = {"criteria": [QUESTION], "judge": "a"}


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("expert", {"evaluate": JUDGED}),
        ("expert", {"evaluate": JUDGED, "roles": {"writer": {"agent": "b"}, "reader": {"agent": "a"}}}),
        ("expert", {"roles": {"writer": {"agent": "a"}}, "steps": [{"id": "x", "role": "writer", "evaluate": JUDGED}]}),
        ("dispatch", {"evaluate": JUDGED, "steps": [{"id": "x"}]}),
        ("dispatch", {"steps": [{"id": "x", "evaluate": JUDGED}]}),
        ("react", {"lead": "a", "evaluate": JUDGED}),
        ("react", {"lead": "b", "evaluate": JUDGED}),
        ("react", {"lead": "b", "create_roles": True, "roles": {"writer": {"agent": "c"}}, "evaluate": JUDGED}),
    ],
)
def test_a_judge_that_would_judge_its_own_work_is_refused_before_work_starts(
    strategy: str, options: dict[str, Any]
) -> None:  # K-10
    with pytest.raises(ManifestError, match="'a' would judge its own work; name another judge"):
        Team("t", members=FakeMembers().members("a b c"), strategy=strategy, options=options)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("expert", {"evaluate": JUDGED, "roles": {"writer": {"agent": "b"}}}),
        ("dispatch", {"evaluate": JUDGED, "steps": [{"id": "x", "agent": "b"}]}),
        ("react", {"lead": "b", "roles": {"writer": {"agent": "c"}}, "evaluate": JUDGED}),
    ],
)
def test_a_member_judges_the_work_of_others(strategy: str, options: dict[str, Any]) -> None:  # K-10
    assert Team("t", members=FakeMembers().members("a b c"), strategy=strategy, options=options)


REVIEWED = {"judge": "judge", "criteria": [QUESTION]}
MADE = {"steps": [{"id": "poem", "role": "poet", "task": "Write it.", "instructions": "You write poems."}]}
USED = {"steps": [{"id": "poem", "role": "author", "task": "Write it."}]}


def passing(turn: Turn) -> str:
    return json.dumps({"criteria": [{"id": "good", "passed": True, "score": 1, "reason": "Yes."}], "feedback": ""})


@pytest.mark.parametrize("strategy", ["expert", "dispatch", "react"])
@pytest.mark.parametrize(
    ("plan", "options"),
    [(MADE, {"create_roles": True}), (USED, {"roles": {"author": {}}}), (MADE, {"create_roles": True, "pool": True})],
    ids=["a role that it made", "a role that is declared", "a role that it made in a pool"],
)
async def test_a_role_goes_to_the_lead_or_to_a_judge_only_where_no_other_can_have_it(
    strategy: str, plan: Any, options: dict[str, Any]
) -> None:
    fakes, decisions = FakeMembers(), [{"action": "work", **plan}, {"action": "answer"}]

    def lead(turn: Turn) -> str | None:
        return json.dumps(decisions.pop(0)) if turn.output_schema and "steps" in str(turn.output_schema) else None

    members = [fakes.member("lead", lead), *fakes.members("ana ben")]
    settings: dict[str, Any] = {"lead": "lead", "evaluate": REVIEWED, **options}
    if strategy == "expert" and "pool" not in options:  # where a judge may be a member of the team
        members, helpers = [fakes.member("judge", passing), *members], []
    else:
        helpers = [fakes.member("judge", passing)]
    team = Team("t", members=members, helpers=helpers, strategy=strategy, options=settings)
    result, events = await run(team)
    assert result.status == "completed"
    assert [one.member for one in facts(events, TeamStepCompleted) if one.step == "poem"] == ["ana"]


async def test_a_change_is_checked_with_the_roles_as_they_are_bound_in_the_run() -> None:
    fakes, gate = FakeMembers(), Gate()
    roles: dict[str, Any] = {"one": {}, "two": {}}
    members = [fakes.member("a", gate.answer), fakes.member("b", passing), fakes.member("c")]
    team = Team(
        "t", members=members, strategy="expert", options={"roles": roles, "steps": [{"id": "x", "role": "one"}]}
    )
    put: dict[str, Any] = {"id": "y", "role": "two", "needs": ["x"], "evaluate": {**REVIEWED, "judge": "b"}}
    result, events = await run_steered(
        team, gate, lambda engine: engine.runs.edit_plan(RUN_ID, {"put": [put]}), MemoryJournal()
    )
    assert result.status == "completed"
    assert [one.member for one in facts(events, TeamStepCompleted)] == ["a", "c"]


def test_a_member_with_the_model_of_the_judge_takes_no_step_over() -> None:
    a, twin, c, judge = (ModelAgent(name, model=f"openai:{model}") for name, model in ("ax", "by", "cx", "jy"))
    declared = Evaluate.model_validate({**REVIEWED, "judge": "j", "require_other_model": True})
    evaluator = make_evaluator(declared, [judge])
    assignment = StepAssignment(Step(id="x"), "", NO_ROLE, evaluator, FailureLadder())
    assert WorkerPool([a, twin, c], 3).exchange(a, assignment) is c
    assert [one.name for one in (a, twin, c, judge) if assignment.may_write(one)] == ["a", "c"]
