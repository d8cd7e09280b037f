"""Sequential: each member once, in order."""

from __future__ import annotations

import pytest

from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import ManifestError, Refused
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply
from teamwright.values.usage_and_prices import Usage
from tests.kit.members import FakeMembers, numbered

TASK = "Write a page."
SPENT = Usage(requests=1, input_tokens=2, output_tokens=1)


async def run(team: Team, history: list[Message] | None = None) -> RunResult:
    async with Engine("memory") as engine:
        return await engine.run(team, TASK, history=history or [])


def names(result: RunResult) -> list[str]:
    return [message.name for message in result.messages]


async def test_each_member_speaks_once_in_order() -> None:
    fakes = FakeMembers(numbered)
    result = await run(Team("t", members=[fakes.member("a"), fakes.member("b"), fakes.member("c")]))
    assert fakes.calls == names(result) == ["a", "b", "c"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "c 3")


async def test_the_same_member_may_be_listed_several_times() -> None:
    fakes = FakeMembers(numbered)
    writer, critic = fakes.member("writer"), fakes.member("critic")
    result = await run(Team("t", members=[writer, critic, writer]))
    assert names(result) == ["writer", "critic", "writer"]
    assert [message.content for message in result.messages] == ["writer 1", "critic 2", "writer 3"]


async def test_a_member_receives_the_replies_before_it_and_then_the_task() -> None:
    fakes = FakeMembers(numbered)
    await run(Team("t", members=[fakes.member("a", "one", "two"), fakes.member("b"), fakes.member("c")]))
    for _, turn in fakes.received:
        assert turn.task == TASK
        assert turn.prompt.endswith(TASK)
    assert [message.content for message in fakes.received[2][1].history] == ["one", "two", "b 2"]


async def test_the_history_of_the_caller_is_passed_on_and_never_changed_nor_returned() -> None:
    fakes = FakeMembers(numbered)
    history = [Message(name="user", content="before", role="user")]
    result = await run(Team("t", members=[fakes.member("a"), fakes.member("b")]), history)
    assert history == [Message(name="user", content="before", role="user")]
    assert [turn.history[0].content for _, turn in fakes.received] == ["before", "before"]
    assert names(result) == ["a", "b"]


async def test_in_a_pipeline_the_output_of_one_is_the_input_of_the_next() -> None:  # P-03
    fakes = FakeMembers(numbered)
    await run(
        Team("t", members=[fakes.member("a", "draft", "better"), fakes.member("b"), fakes.member("c")], share="output")
    )
    assert [turn.task for _, turn in fakes.received] == [TASK, "better", "b 2"]
    assert [len(turn.history) for _, turn in fakes.received] == [0, 0, 0]


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_a_failing_member_fails_the_run_by_name_and_keeps_the_messages(share: str) -> None:  # P-03, R-10
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b", Refused("no ink")), fakes.member("c")]
    result = await run(Team("t", members=members, share=share))  # pyright: ignore[reportArgumentType]
    assert fakes.calls == ["a", "b"]
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert "'b' failed: no ink" in result.failure.message
    assert names(result) == ["a"]
    assert result.output == "a 1"


async def test_a_member_that_terminates_ends_the_team_well() -> None:
    fakes = FakeMembers(numbered)
    result = await run(
        Team("t", members=[fakes.member("a"), fakes.member("b", "enough", signal="terminate"), fakes.member("c")])
    )
    assert fakes.calls == names(result) == ["a", "b"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "enough")


@pytest.mark.parametrize("arguments", [{"response": "that is it"}, {}, {"response": 7}, {"answer": "x"}])
async def test_the_terminate_tool_ends_it_whatever_its_arguments(arguments: dict[str, object]) -> None:
    rule = Rule.model_validate({"tool": {"name": "terminate", "args": arguments}})
    fakes = FakeMembers(numbered)
    team = Team("t", members=[fakes.member("a"), ScriptedAgent("b", [rule], tools=["terminate"]), fakes.member("c")])
    result = await run(team)
    assert (result.status, result.stop_reason) == ("completed", "terminated")
    assert fakes.calls == ["a"]
    assert names(result)[0] == "a"
    if arguments.get("response") == "that is it":
        assert result.output == "that is it"


async def test_terminating_inside_a_nested_team_ends_only_that_team() -> None:
    fakes = FakeMembers(numbered)
    inner = Team("inner", members=[fakes.member("a", signal="terminate"), fakes.member("b")])
    result = await run(Team("outer", members=[inner, fakes.member("c")]))
    assert fakes.calls == ["a", "c"]
    assert (result.status, result.stop_reason) == ("completed", "done")


async def test_a_nested_team_speaks_under_its_own_name_and_its_usage_rolls_up() -> None:
    fakes = FakeMembers(numbered)
    a, b, c = (fakes.member(name, Reply.of(name, "paid", usage=SPENT)) for name in "abc")
    inner = Team("inner", members=[a, b])
    result = await run(Team("outer", members=[inner, c]))
    assert names(result) == ["inner", "inner", "c"]
    assert result.usage.requests == 3
    assert result.usage.total_tokens == 9


async def test_the_failure_of_a_nested_team_names_the_member_and_keeps_the_messages() -> None:
    fakes = FakeMembers(numbered)
    inner = Team("inner", members=[fakes.member("a"), fakes.member("b", Refused("no ink"))])
    result = await run(Team("outer", members=[fakes.member("first"), inner, fakes.member("c")]))
    assert result.status == "failed"
    assert result.failure is not None
    assert "'b' failed: no ink" in result.failure.message
    assert "first" in names(result)
    assert fakes.calls == ["first", "a", "b"]


def test_a_team_without_members_is_refused() -> None:
    with pytest.raises(ManifestError, match="has no members"):
        Team("t", members=[])
