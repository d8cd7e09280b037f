"""Sequential: each member once, in order."""

from __future__ import annotations

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted.agent import Rule, ScriptedAgent
from teamwright.errors import ManifestError, Refused
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.limits.usage import Usage
from teamwright.values.results import RunResult
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply, Turn

TASK = "Write a page."


class Ensemble:
    """Members that remember what they were told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Turn]] = []

    def member(self, name: str, *says: str, signal: str | None = None) -> FunctionAgent:
        async def respond(turn: Turn) -> Reply:
            self.told.append((name, turn))
            messages = tuple(Message(name=name, content=text) for text in says or (f"{name} {turn.number}",))
            usage = Usage(requests=1, input_tokens=2, output_tokens=1)
            return Reply(messages=messages, usage=usage, signal=signal)  # pyright: ignore[reportArgumentType]

        return FunctionAgent(name, respond)

    def failing(self, name: str, words: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            self.told.append((name, turn))
            raise Refused(words)

        return FunctionAgent(name, respond)

    @property
    def spoke(self) -> list[str]:
        return [name for name, _ in self.told]


async def run(team: Team, history: list[Message] | None = None) -> RunResult:
    async with Engine("memory") as engine:
        return await engine.run(team, TASK, history=history or [])


def names(result: RunResult) -> list[str]:
    return [message.name for message in result.messages]


async def test_each_member_speaks_once_in_order() -> None:
    cast = Ensemble()
    result = await run(Team("t", members=[cast.member("a"), cast.member("b"), cast.member("c")]))
    assert cast.spoke == names(result) == ["a", "b", "c"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "c 3")


async def test_the_same_member_may_be_listed_several_times() -> None:
    cast = Ensemble()
    writer, critic = cast.member("writer"), cast.member("critic")
    result = await run(Team("t", members=[writer, critic, writer]))
    assert names(result) == ["writer", "critic", "writer"]
    assert [message.content for message in result.messages] == ["writer 1", "critic 2", "writer 3"]


async def test_a_member_is_told_the_replies_before_it_and_then_the_task() -> None:
    cast = Ensemble()
    await run(Team("t", members=[cast.member("a", "one", "two"), cast.member("b"), cast.member("c")]))
    for _, turn in cast.told:
        assert turn.task == TASK
        assert turn.prompt.endswith(TASK)
    assert [message.content for message in cast.told[2][1].history] == ["one", "two", "b 2"]


async def test_the_history_of_the_caller_is_passed_on_and_never_changed_nor_returned() -> None:
    cast = Ensemble()
    history = [Message(name="user", content="before", role="user")]
    result = await run(Team("t", members=[cast.member("a"), cast.member("b")]), history)
    assert history == [Message(name="user", content="before", role="user")]
    assert [turn.history[0].content for _, turn in cast.told] == ["before", "before"]
    assert names(result) == ["a", "b"]


async def test_in_a_pipeline_the_output_of_one_is_the_input_of_the_next() -> None:  # P-03
    cast = Ensemble()
    await run(
        Team("t", members=[cast.member("a", "draft", "better"), cast.member("b"), cast.member("c")], share="output")
    )
    assert [turn.task for _, turn in cast.told] == [TASK, "better", "b 2"]
    assert [len(turn.history) for _, turn in cast.told] == [0, 0, 0]


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_a_failing_member_fails_the_run_by_name_and_keeps_what_was_said(share: str) -> None:  # P-03, R-10
    cast = Ensemble()
    members = [cast.member("a"), cast.failing("b", "no ink"), cast.member("c")]
    result = await run(Team("t", members=members, share=share))  # pyright: ignore[reportArgumentType]
    assert cast.spoke == ["a", "b"]
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert "'b' failed: no ink" in result.failure.message
    assert names(result) == ["a"]
    assert result.output == "a 1"


async def test_a_member_that_terminates_ends_the_team_well() -> None:
    cast = Ensemble()
    result = await run(
        Team("t", members=[cast.member("a"), cast.member("b", "enough", signal="terminate"), cast.member("c")])
    )
    assert cast.spoke == names(result) == ["a", "b"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "enough")


@pytest.mark.parametrize("arguments", [{"response": "that is it"}, {}, {"response": 7}, {"answer": "x"}])
async def test_the_terminate_tool_ends_it_whatever_its_arguments(arguments: dict[str, object]) -> None:
    rule = Rule.model_validate({"tool": {"name": "terminate", "args": arguments}})
    cast = Ensemble()
    team = Team("t", members=[cast.member("a"), ScriptedAgent("b", [rule], tools=["terminate"]), cast.member("c")])
    result = await run(team)
    assert (result.status, result.stop_reason) == ("completed", "terminated")
    assert cast.spoke == ["a"]
    assert names(result)[0] == "a"
    if arguments.get("response") == "that is it":
        assert result.output == "that is it"


async def test_terminating_inside_a_nested_team_ends_only_that_team() -> None:
    cast = Ensemble()
    inner = Team("inner", members=[cast.member("a", signal="terminate"), cast.member("b")])
    result = await run(Team("outer", members=[inner, cast.member("c")]))
    assert cast.spoke == ["a", "c"]
    assert (result.status, result.stop_reason) == ("completed", "done")


async def test_a_nested_team_speaks_under_its_own_name_and_its_usage_rolls_up() -> None:
    cast = Ensemble()
    inner = Team("inner", members=[cast.member("a"), cast.member("b")])
    result = await run(Team("outer", members=[inner, cast.member("c")]))
    assert names(result) == ["inner", "inner", "c"]
    assert result.usage.requests == 3
    assert result.usage.total_tokens == 9


async def test_the_failure_of_a_nested_team_names_the_member_and_keeps_what_was_said() -> None:
    cast = Ensemble()
    inner = Team("inner", members=[cast.member("a"), cast.failing("b", "no ink")])
    result = await run(Team("outer", members=[cast.member("first"), inner, cast.member("c")]))
    assert result.status == "failed"
    assert result.failure is not None
    assert "'b' failed: no ink" in result.failure.message
    assert "first" in names(result)
    assert cast.spoke == ["first", "a", "b"]


def test_a_team_without_members_is_refused() -> None:
    with pytest.raises(ManifestError, match="has no members"):
        Team("t", members=[])
