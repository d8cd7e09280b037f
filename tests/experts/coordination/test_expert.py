"""The expert strategy: its plan, its turns and its events, and what is refused before the start."""

from __future__ import annotations

import json
from typing import Any

from teamwright.experts.coordination.expert import Expert
from teamwright.strategies.protocol import Settings, Strategy
from teamwright.teams.team import Team
from teamwright.testing.strategy import StrategyConformance
from teamwright.testing.strategy_trial import TASK as TRIAL
from teamwright.values.events.event import Event, Fact
from teamwright.values.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, run, speakers

CITES = {"criteria": [{"id": "cites", "contains": "[1]"}]}
ROLES = {
    "researcher": {"capability": "research", "instructions": "Be exact.", "tools": ["search"]},
    "writer": {"agent": "ben"},
}
STEPS = [{"id": "find", "role": "researcher", "evaluate": CITES}, {"id": "write", "role": "writer", "needs": ["find"]}]


def revised(turn: Turn) -> str:
    return "200 days [1]" if "Review 1" in turn.task else "often"


def expert(fakes: FakeMembers, answers: dict[str, object] | None = None, **options: Any) -> Team:
    given: dict[str, Any] = {"roles": ROLES, "steps": STEPS, **options}
    said = {"ana": revised, **(answers or {})}
    members = [fakes.member("ben", said.get("ben")), fakes.member("ana", said["ana"], capabilities=("Research",))]
    return Team("report", members=members, strategy="expert", options=given)


def kinds(events: list[Event], *without: str) -> list[str]:
    return [event.kind for event in events if event.kind.startswith("team.") and event.kind not in without]


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
        "team.started", "team.role_bound", "team.role_bound", "team.planned",
        "team.step_assigned", "team.evaluation_started", "team.evaluation_result",
        "team.evaluation_started", "team.evaluation_result", "team.step_completed",
        "team.step_assigned", "team.evaluation_started", "team.evaluation_result", "team.step_completed",
        "team.ended",
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

    settings = Settings(options={"planner": "planner"})

    def make(self) -> Strategy:
        return Expert()

    def lines(self, member: str, turn: Turn) -> str | None:
        if turn.purpose != "coordinate":
            return None
        steps: list[dict[str, object]] = [{"id": "a", "role": "member-1", "task": TRIAL}]
        steps.append({"id": "b", "role": "member-2", "task": TRIAL, "needs": ["a"]})
        return json.dumps({"steps": steps})
