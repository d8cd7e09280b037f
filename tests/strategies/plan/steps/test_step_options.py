"""Steps are evaluated before steps that need them start, in every strategy that executes a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teamwright import load_team
from teamwright.errors import ManifestError, UsageError
from teamwright.strategies.plan.steps.step_options import has_evaluated_steps, without_evaluation
from teamwright.strategies.protocol import Settings
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamEvaluationResult
from tests.kit.evaluators import words
from tests.kit.members import FakeMembers
from tests.kit.runs import run

DECLARED = words().model_dump(mode="json", exclude_unset=True)


def steps(**evaluate: Any) -> dict[str, Any]:
    return {"steps": [{"id": "a", "evaluate": {**DECLARED, **evaluate}}, {"id": "b", "needs": ["a"]}]}


def drafts(made: FakeMembers, *texts: str) -> Any:
    rest = list(texts)
    return made.member("a", lambda _: rest.pop(0))


async def test_a_step_is_revised_until_it_passes_and_its_dependents_get_the_last_result() -> None:
    made = FakeMembers()
    team = Team(
        "t",
        members=[drafts(made, "first", "a good second"), made.member("b")],
        strategy="dag",
        options=steps(revisions=1),
    )
    result, events = await run(team)
    assert (result.status, made.calls) == ("completed", ["a", "a", "b"])
    assert [message.content for message in made.last_turn("b").history] == ["a good second"]
    found = [event.fact for event in events if isinstance(event.fact, TeamEvaluationResult)]
    assert [(one.member, one.verdict.outcome) for one in found] == [("a", "revise"), ("a", "pass")]


async def test_dependents_of_a_step_that_does_not_pass_never_start() -> None:
    made = FakeMembers()
    team = Team("t", members=[drafts(made, "first"), made.member("b")], strategy="dag", options=steps())
    result, _ = await run(team)
    assert (result.stop_reason, made.calls) == ("review_exceeded", ["a"])


async def test_the_risk_and_the_revisions_of_the_team_hold_for_steps_of_every_plan() -> None:
    made = FakeMembers()
    options = {**steps(), "risk": "low", "revisions": 1}
    team = Team("t", members=[drafts(made, "first", "second"), made.member("b")], strategy="dag", options=options)
    result, _ = await run(team)
    assert (result.status, made.calls) == ("degraded", ["a", "a", "b"])
    assert any("did not pass its review" in text for text in result.warnings)


@pytest.mark.parametrize("strategy", ["single", "lead_subagent", "star_team", "mesh_team"])
async def test_every_strategy_with_a_plan_evaluates_its_steps(strategy: str) -> None:
    made = FakeMembers()
    team = Team("t", members=made.members("lead a b"), strategy=strategy, options=steps())
    result, _ = await run(team)
    assert result.stop_reason == "review_exceeded"


async def test_steps_that_share_envelopes_are_evaluated_in_full() -> None:
    made = FakeMembers()
    long = "x" * 2000 + " good"
    options = steps()
    team = Team("t", members=[drafts(made, long), made.member("b")], strategy="dag", options=options, share="a2a_lite")
    result, _ = await run(team)
    assert result.stop_reason == "done"


def test_the_evaluation_of_a_step_is_checked_at_load(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        """
agents: {a: {model: local}}
teams:
  t:
    strategy: dag
    members: [a]
    dag: {steps: [{id: a, evaluate: {evaluator: "x:Y", judge: [a, nobody], revisions: -1}}]}
"""
    )
    with pytest.raises(ManifestError) as caught:
        load_team(tmp_path / "team.yaml")
    texts = "\n".join(map(str, caught.value.problems))
    assert "revisions" in texts
    assert "nobody" in texts


def test_the_author_of_a_step_can_not_be_its_judge() -> None:
    made = FakeMembers()
    with pytest.raises(UsageError, match="the step 'a': 'a' would judge its own work"):
        Team("t", members=made.members("a b"), strategy="dag", options=steps(judge="a"))


def test_a_judge_with_an_author_among_its_members_is_refused() -> None:
    made = FakeMembers()
    author, other = made.member("a"), made.member("b")
    panel = Team("panel", members=[author, made.member("c")])
    with pytest.raises(UsageError, match="the step 'a': the judge 'panel' of 'a' can't judge its own work"):
        Team("t", members=[author, other], helpers=[panel], strategy="dag", options=steps(judge="panel"))


def test_a_simulation_evaluates_nothing() -> None:  # its checks are programs of the user
    settings = Settings(options=steps())
    assert has_evaluated_steps(settings)
    plain = without_evaluation(settings)
    assert not has_evaluated_steps(plain)
    assert plain.options["steps"] == [{"id": "a"}, {"id": "b", "needs": ["a"]}]
    assert without_evaluation(plain) is plain
