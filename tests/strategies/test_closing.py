"""How teams close: when the budget does not cover all of the work, what was kept back pays for the answer."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Limits, RunResult, Team, Turn
from teamwright.strategies import Members
from teamwright.values.limits import Limits as AnyLimits

STEPS: list[dict[str, JsonValue]] = [
    {"id": "s1"},
    {"id": "s2", "needs": ["s1"]},
    {"id": "s3", "needs": ["s2"]},
    {"id": "s4", "needs": ["s3"]},
]
AGENTS: list[JsonValue] = [{**step, "agent": name} for step, name in zip(STEPS, "abcd", strict=True)]
EDGES: list[JsonValue] = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "d"}]

CASES: dict[str, tuple[dict[str, JsonValue], int | None, int, str]] = {
    "sequential": ({}, None, 3, "d"),
    "round_robin": ({}, 3, 5, "d"),
    "graph": ({"edges": EDGES}, None, 3, "d"),
    "fan_out": ({"chunks": ["1", "2", "3", "4"], "answer": "a", "max_parallel": 1}, None, 3, "a"),
    "dag": ({"steps": AGENTS}, None, 3, "d"),
    "single": ({"steps": [*STEPS]}, None, 3, "a"),
    "lead_subagent": ({"steps": [*STEPS]}, None, 5, "a"),
    "star_team": ({"steps": [*STEPS]}, None, 5, "a"),
    "mesh_team": ({"steps": [*STEPS]}, None, 5, "a"),
    "hierarchical": ({"lead": "a", "max_parallel": 1}, None, 3, "a"),
}
"""The options of a strategy, `max_turns`, the calls that there are, and who closes."""


class Recording:
    """A team of four functions that notes who replied, and whether its turn was a closing one."""

    def __init__(self, strategy: str, limits: AnyLimits | None) -> None:
        self.replies: list[tuple[str, bool]] = []
        options, max_turns, _, _ = CASES[strategy]
        members = [self._member(name) for name in ("ab" if strategy == "lead_subagent" else "abcd")]
        self.team = Team("t", members=members, strategy=strategy, options=options, max_turns=max_turns, limits=limits)

    def _member(self, name: str) -> FunctionAgent:
        def reply(turn: Turn) -> object:
            self.replies.append((name, turn.closing))
            return self.team.strategy.example_reply(turn) or f"{name} says {len(self.replies)}"

        return FunctionAgent(name, reply)

    async def run(self) -> RunResult:
        async with Engine("memory") as engine:
            return await engine.run(self.team, "go")


@pytest.mark.parametrize("strategy", CASES)
async def test_a_team_that_is_short_of_budget_closes_with_what_there_is(strategy: str) -> None:  # Z-10
    *_, calls, closer = CASES[strategy]
    recording = Recording(strategy, Limits(calls=calls))
    result = await recording.run()
    assert (result.status, result.stop_reason, result.exit_code) == ("degraded", "budget", 4)
    assert recording.replies[-1] == (closer, True)
    assert len(recording.replies) <= calls
    assert result.failure is None
    assert result.output
    assert any("budget" in text or "afforded" in text for text in result.warnings), "it says what was left out"


@pytest.mark.parametrize("strategy", CASES)
async def test_the_member_that_is_declared_to_close_is_the_one_that_closes(strategy: str) -> None:  # Z-10
    recording = Recording(strategy, None)
    result = await recording.run()
    team = recording.team
    (closing,) = team.strategy.closing(team.settings, Members(team.members))
    assert result.stop_reason in ("done", "max_turns")
    assert recording.replies[-1] == (closing.member, True)


@pytest.mark.parametrize(
    ("strategy", "options", "max_turns"),
    [
        ("round_robin", {"turns": 1}, None),
        ("selector", {"agent": "a"}, 4),
        ("fan_out", {"chunks": ["1"]}, None),
        ("dag", {"steps": [{"id": "a"}, {"id": "b"}]}, None),
        ("single", {"steps": [{"id": "s1"}]}, None),
    ],
)
def test_without_one_ask_that_gives_the_answer_nothing_is_kept_back(
    strategy: str, options: dict[str, JsonValue], max_turns: int | None
) -> None:
    members = [FunctionAgent(name, lambda turn: "done") for name in "ab"]
    team = Team("t", members=members, strategy=strategy, options=options, max_turns=max_turns)
    assert not team.strategy.closing(team.settings, Members(team.members))


async def test_a_step_that_closes_early_reads_the_nearest_results_before_it() -> None:  # Z-10
    prompts: dict[str, str] = {}

    def member(name: str) -> FunctionAgent:
        def reply(turn: Turn) -> str:
            prompts[name] = turn.prompt
            return f"the result of {name}"

        return FunctionAgent(name, reply)

    steps: list[JsonValue] = [*AGENTS[:3], {"id": "s4", "agent": "d", "needs": ["s3"], "task": "{{ outputs.s3 }}"}]
    team = Team(
        "t", members=[member(name) for name in "abcd"], strategy="dag", options={"steps": steps}, limits=Limits(calls=3)
    )
    async with Engine("memory") as engine:
        result = await engine.run(team, "Write a page.")
    assert (result.stop_reason, result.output) == ("budget", "the result of d")
    assert "the result of b" in prompts["d"], "s3 was not afforded, so s4 reads s2"
    assert "Write a page." in prompts["d"], "its own task reads s3, so it gets the task of the team"


async def test_a_nested_team_keeps_back_for_its_own_answer_too() -> None:  # Z-10
    said: list[str] = []

    def member(name: str) -> FunctionAgent:
        def reply(turn: Turn) -> str:
            said.append(name)
            return name

        return FunctionAgent(name, reply)

    inner = Team("inner", members=[member(name) for name in ("i1", "i2", "i3")])
    team = Team("outer", members=[member("o1"), inner, member("o3")], limits=Limits(calls=4))
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert said == ["o1", "i1", "i3", "o3"]
    assert result.exit_code == 4
