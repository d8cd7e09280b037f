"""The phases of a live team: their tasks, and the milestones that their results have to pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent
from teamwright.errors import ManifestError
from teamwright.experts.live.plan import one_phase_each
from teamwright.strategies.expressions.conditions_and_templates import Template
from teamwright.teams.team import Team
from teamwright.values.specs.plan import Roster
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, run


def live(members: Sequence[Agent], steps: list[JsonValue] | None = None) -> Team:
    return Team("t", members=members, strategy="live", options={} if steps is None else {"steps": steps})


async def test_a_task_is_a_template_that_reads_the_phases_it_needs() -> None:
    fakes = FakeMembers()
    steps: list[JsonValue] = [{"id": "a"}, {"id": "b", "needs": ["a"], "task": "{{ task }} After: {{ outputs.a }}"}]
    result, _ = await run(live(fakes.members("a b"), steps))
    assert result.status == "completed"
    assert fakes.last_turn("b").task.endswith(f"{TASK} After: a is done")


async def test_what_a_lead_or_a_user_writes_in_braces_is_text() -> None:
    fakes = FakeMembers()
    plan = '{"steps": [{"id": "x", "agent": "b", "task": "Explain {{ x }} and {% y.", "needs": [], "why": "."}]}'
    lead = fakes.member("a", lambda turn: plan if turn.output_schema else "done")
    result, _ = await run(live([lead, fakes.member("b")]))
    assert (result.status, result.warnings) == ("completed", ())
    assert fakes.last_turn("b").task.endswith("Explain {{ x }} and {% y.")
    (phase,) = one_phase_each(Roster(("a", "b"), "a"), "What is {{ this }}?").steps
    assert Template(phase.task or "").render({}) == "What is {{ this }}?"


@pytest.mark.parametrize(("second", "status"), [("a roof", "completed"), ("a hole", "failed")])
async def test_a_phase_has_to_pass_its_milestone(second: str, status: str) -> None:
    fakes = FakeMembers()
    works = iter(("a hole", second))
    milestone: JsonValue = {"rounds": 2, "criteria": [{"id": "roof", "contains": "roof"}]}
    steps: list[JsonValue] = [{"id": "b", "evaluate": milestone}, {"id": "c", "needs": ["b"]}]
    members = [fakes.member("a"), fakes.member("b", lambda _: next(works)), fakes.member("c")]
    result, _ = await run(live(members, steps))
    assert result.status == status
    assert ("c" in fakes.calls) == (status == "completed")
    assert result.stop_reason == ("done" if status == "completed" else "review_exceeded")


@pytest.mark.parametrize("field", [{"when": "true"}, {"limits": {"calls": 1}}, {"owns": ["x"]}, {"priority": 2}])
def test_what_a_live_team_does_not_carry_out_is_refused(field: dict[str, JsonValue]) -> None:
    with pytest.raises(ManifestError, match=f"has '{next(iter(field))}', which a live team does not use"):
        live(FakeMembers().members("a b"), [{"id": "b", **field}])


async def test_a_helper_may_judge_a_phase() -> None:
    fakes = FakeMembers()
    judge = fakes.member("judge", '{"criteria": [{"id": "q", "passed": true}]}')
    steps: list[JsonValue] = [{"id": "b", "evaluate": {"judge": "judge", "criteria": [{"id": "q", "judge": "Good?"}]}}]
    team = Team("t", members=fakes.members("a b"), helpers=[judge], strategy="live", options={"steps": steps})
    result, _ = await run(team)
    assert (result.status, fakes.calls) == ("completed", ["b", "judge", "a"])
