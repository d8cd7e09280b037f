"""Concurrent parts: what a failed part does to the others, and the turn of a part."""

from __future__ import annotations

from typing import cast

import pytest

from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.strategies.part_results import FailurePolicy, PartResults, part_turn, result_of
from teamwright.strategies.protocol import Settings, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

ORDER = ["a", "b", "c", "d"]


def failure(name: str, *, optional: bool = False) -> Failure:
    return Failure(member=name, error="refused", message=f"the trouble with {name}", optional=optional)


def parts(policy: FailurePolicy, *failed: str, optional: bool = False) -> PartResults:
    made = PartResults(policy)
    for name in reversed(ORDER):
        if name in failed:
            made.fail(name, failure(name, optional=optional))
        else:
            made.replies[name] = Reply.of(name, f"{name} says")
    return made


def test_messages_are_in_the_requested_order() -> None:
    talk = TeamConversation(Task("go"))
    assert parts(FailurePolicy()).finish(talk, ORDER) is None
    assert [message.name for message in talk.messages] == ORDER
    assert not talk.warnings


def test_a_failure_ends_the_team_and_names_the_parts_that_failed() -> None:
    talk = TeamConversation(Task("go"))
    ended = parts(FailurePolicy(), "b", "c").finish(talk, ORDER)
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.message == "the trouble with b (b; 1 more failed: c)"
    assert [message.name for message in ended.messages] == ["a", "d"]


def test_of_many_failures_only_some_are_named() -> None:
    made = PartResults(FailurePolicy())
    names = [f"p{number}" for number in range(100)]
    for name in names:
        made.fail(name, failure(name))
    ended = made.finish(TeamConversation(Task("go")), names)
    assert ended is not None
    assert ended.failure is not None
    assert "(p0; 99 more failed: p1, p2, p3, p4, p5, …)" in ended.failure.message


@pytest.mark.parametrize("policy", ["skip", "collect"])
def test_other_policies_continue_with_a_warning_for_each(policy: str) -> None:
    talk = TeamConversation(Task("go"))
    made = parts(FailurePolicy(on_failure=policy), "c", "b")  # pyright: ignore[reportArgumentType]
    assert made.finish(talk, ORDER) is None
    assert [warning.partition(":")[0] for warning in talk.warnings] == ["b", "c"]
    assert not made.is_over


def test_the_failure_of_an_optional_member_is_skipped() -> None:
    talk = TeamConversation(Task("go"))
    made = parts(FailurePolicy(on_failure="cancel"), "b", optional=True)
    assert made.finish(talk, ORDER) is None
    assert not made.is_over
    assert len(talk.warnings) == 1


class Terminating:
    """A context in which every ask terminates the team."""

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply:
        return Reply.of(member.name, "enough", signal="terminate")


@pytest.mark.parametrize(("optional", "status"), [(True, "terminated"), (False, "error")])
async def test_a_failure_is_not_forgotten_when_a_member_terminates_after_it(optional: bool, status: str) -> None:
    made = PartResults(FailurePolicy())
    made.fail("a", failure("a", optional=optional))
    await made.ask("b", FunctionAgent("b", lambda turn: ""), Turn("x"), cast("Context", Terminating()))
    ended = made.finish(TeamConversation(Task("go")), ORDER)
    assert ended is not None
    assert (ended.stop_reason, ended.messages[-1].content) == (status, "enough")
    assert len(ended.warnings) == (1 if optional else 0)
    assert made.is_over


def test_the_first_failure_may_end_it_for_all() -> None:
    assert parts(FailurePolicy(on_failure="cancel"), "b").is_over
    assert not parts(FailurePolicy(), "b").is_over


def test_without_a_single_reply_there_is_nothing_to_continue_with() -> None:
    policy = FailurePolicy(on_failure="skip")
    ended = parts(policy, *ORDER).finish(TeamConversation(Task("go")), ORDER)
    assert ended is not None
    assert ended.failure is not None
    assert parts(policy, *ORDER).finish(TeamConversation(Task("go")), ORDER, need_one=False) is None


def test_the_result_of_a_part_is_its_data_or_else_its_text() -> None:
    assert result_of(Reply.of("a", "text")) == "text"
    assert result_of(Reply.of("a", "text", data={"x": 1})) == {"x": 1}
    assert result_of(Reply()) == ""


BEFORE = (Message(name="a", content="a says"),)
HISTORY = History.of([Message(name="user", content="earlier", role="user")])


@pytest.mark.parametrize(
    ("share", "own", "output", "history", "task"),
    [
        ("transcript", None, True, ["earlier", "a says"], "go"),
        ("transcript", "do this", True, ["earlier", "go", "a says"], "do this"),
        ("output", None, True, [], "all of it"),
        ("output", "do this", True, ["a says"], "do this"),
        ("output", None, False, ["earlier", "a says"], "go"),
    ],
)
def test_the_turn_of_a_part(share: str, own: str | None, output: bool, history: list[str], task: str) -> None:
    settings = Settings(share=share)  # pyright: ignore[reportArgumentType]
    turn = part_turn(Task("go", HISTORY, settings), 3, BEFORE, (lambda: "all of it") if output else None, own_task=own)
    assert [message.content for message in turn.history] == history
    assert (turn.task, turn.number, turn.purpose) == (task, 3, "work")


def unpaid(policy: FailurePolicy, *names: str, broken: str = "") -> PartResults:
    made = parts(policy, *([broken] if broken else []))
    for name in names:
        made.replies.pop(name)
        made.fail(name, Failure(member=name, error="budget", message="t has 0 of 9 calls left"))
    return made


def test_parts_that_were_not_afforded_end_the_team_with_what_there_is() -> None:  # Z-10
    talk = TeamConversation(Task("go"))
    ended = unpaid(FailurePolicy(), "b", "d").finish(talk, ORDER)
    assert ended is not None
    assert ended.failure is not None
    assert (ended.failure.member, ended.failure.error) == ("", "budget")
    assert ended.failure.message == "2 of 4 parts were not afforded (b, d): t has 0 of 9 calls left"
    assert [message.name for message in ended.messages] == ["a", "c"]


def test_a_real_failure_comes_before_what_was_not_afforded() -> None:
    ended = unpaid(FailurePolicy(), "a", "d", broken="c").finish(TeamConversation(Task("go")), ORDER)
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.error == "refused"


@pytest.mark.parametrize("policy", ["skip", "collect"])
def test_continuing_without_unpaid_parts_still_counts_as_a_budget_stop(policy: str) -> None:  # Z-10
    talk = TeamConversation(Task("go"))
    assert unpaid(FailurePolicy.model_validate({"on_failure": policy}), "b", "d").finish(talk, ORDER) is None
    assert talk.warnings == ["2 of 4 parts were not afforded (b, d): t has 0 of 9 calls left"]
    assert talk.ended("done").stop_reason == "budget"
    assert talk.ended("terminated").stop_reason == "terminated"
