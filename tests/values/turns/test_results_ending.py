"""The status and stop reason of a run from the outcome of its team."""

from __future__ import annotations

import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import ending_of, iso
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.usage_and_prices import Usage

SAID = (Message(name="a", content="partial"),)
USAGE = Usage(requests=1)


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (Reply(messages=SAID), "completed", "done"),
        (Reply(messages=SAID, stop_reason="terminated"), "completed", "terminated"),
        (Reply(messages=SAID, stop_reason="max_turns", warnings=("w",)), "completed", "max_turns"),
        (Reply(messages=SAID, stop_reason="done", warnings=("w",)), "degraded", "done"),
        (Reply(messages=SAID, stop_reason="budget", warnings=("w",)), "degraded", "budget"),
    ],
)
def test_a_reply_ends_a_run_well(reply: Reply, status: str, reason: str) -> None:
    ending = ending_of(reply, USAGE)
    assert (ending.status, ending.stop_reason, ending.output, ending.failure) == (status, reason, "partial", None)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        ("error", "failed", "error"), ("crash", "failed", "error"), ("timeout", "failed", "error"),
        ("budget", "degraded", "budget"), ("deadline", "timeout", "deadline"),
        ("cancelled", "cancelled", "cancelled"), ("max_turns", "failed", "max_turns"),
    ],
)  # fmt: skip
def test_a_failure_keeps_the_messages(error: str, status: str, reason: str) -> None:
    failure = Failure(member="t", error=error, message="why", messages=SAID)
    result = ending_of(failure, USAGE).result("r", 0.0, 2.0)
    assert (result.status, result.stop_reason) == (status, reason)
    assert (result.output, result.messages, result.warnings) == ("partial", SAID, ("why",))
    assert (result.usage, result.seconds, result.failure) == (USAGE, 2.0, failure)


def test_a_failure_with_nothing_said_has_no_output() -> None:
    assert ending_of(Failure(member="t", error="error", message="why"), USAGE).output is None
    assert ending_of(Reply(), USAGE).output == ""


def test_points_in_time_are_utc() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1.5) == "1970-01-01T00:00:01.500Z"


def test_a_further_warning_degrades_a_completed_run() -> None:
    done = ending_of(Reply(messages=SAID), USAGE)
    stopped = ending_of(Reply(messages=SAID, stop_reason="terminated"), USAGE)
    assert done.with_warnings() is done
    assert (done.with_warnings("w").status, done.with_warnings("w").warnings) == ("degraded", ("w",))
    assert (stopped.with_warnings("w").status, stopped.with_warnings("w").warnings) == ("completed", ("w",))


def test_a_failure_gives_its_data_to_the_result_alone() -> None:
    ending = ending_of(Failure(member="t", error="budget", message="why", data=[1, None]), USAGE)
    assert ending.data == [1, None]
    assert ending.failure is not None
    assert "data" not in ending.failure.to_json()


async def test_a_warning_of_every_turn_is_in_the_result_once() -> None:
    async def warn(turn: Turn) -> Reply:
        return Reply.of("a", "said").changed(warnings=("the MCP server 'x' lists the tool 'y' twice",))

    team = Team("t", members=[FunctionAgent("a", warn)], strategy="round_robin", max_turns=3)
    async with Engine() as engine:
        result = await engine.run(team, "go", run_id="r")
        assert len(result.messages) == 3
        assert [text for text in result.warnings if "lists the tool" in text] == [
            "t: the MCP server 'x' lists the tool 'y' twice"
        ]
        assert (await engine.runs.result("r")).warnings == result.warnings
