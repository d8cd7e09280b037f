"""The strategy itself, by the suite for strategies: a plan with all ways to work, and one that the lead writes."""

from __future__ import annotations

import json

from pydantic import JsonValue
from typing_extensions import override

from teamwright.experts.presets import Collaborate
from teamwright.strategies.protocol import Settings
from teamwright.testing.strategy import StrategyConformance
from teamwright.values.turns.turn import Turn

PARTS: list[JsonValue] = [{"id": "one", "agent": "member-2"}, {"id": "two", "agent": "member-3", "task": "{{ task }}"}]
STEPS: list[JsonValue] = [
    {"id": "facts", "agent": "member-2"},
    {"id": "draft", "parallel": "subtask_parallel", "needs": ["facts"], "parts": PARTS},
    {"id": "title", "parallel": "competitive_parallel", "merge": "vote", "needs": ["draft"]},
]


class TestDeclaredPhases(StrategyConformance):
    """A phase in turn, one in parts, and a competition that is decided by votes."""

    settings = Settings(options={"proposals": 0, "steps": STEPS})

    @override
    def make(self) -> Collaborate:
        return Collaborate()

    @override
    def lines(self, member: str, turn: Turn) -> str | None:
        """Vote for the last answer that is offered."""
        schema = turn.output_schema or {}
        offered = json.dumps(schema).count("answer-")
        return '{"winner": "answer-1", "reason": "short"}' if offered else None


class TestPlannedPhases(StrategyConformance):
    """A plan that the lead writes, with a part for each member and a competition that the lead decides."""

    settings = Settings(options={"proposals": 1})

    @override
    def make(self) -> Collaborate:
        return Collaborate()

    @override
    def lines(self, member: str, turn: Turn) -> str | None:
        """Plan, pick and approve."""
        if turn.output_schema is None:
            return None
        plan = {"steps": [{"id": "work", "agent": "member-2"}, {**RACE, "needs": ["work"]}]}
        wanted = json.dumps(turn.output_schema)
        return json.dumps(plan if "PhaseDraft" in wanted else {"winner": "answer-2", "reason": "It is longer."})


RACE = {"id": "race", "parallel": "competitive_parallel", "agents": ["member-2", "member-3"]}
