from __future__ import annotations

from teamwright.history.board import Board
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    EffectKind,
)
from teamwright.values.events.event import Delta, Event, Fact
from teamwright.values.events.run import RunEnded, RunResumed, RunStarted
from teamwright.values.events.step import StepHeldUp
from teamwright.values.events.team import TeamStarted
from teamwright.values.limits.usage import Usage


class Story:
    """Makes events and shows them to a board."""

    def __init__(self) -> None:
        self.board = Board()
        self.number = 0
        self.events: list[Event] = []

    def at(self, time: float, scope: str, place: str, fact: Fact) -> None:
        self.number += 1
        self.events.append(Event("run", self.number, time, scope, place, fact))
        self.board.apply(self.events[-1])

    def ask(self, time: float, scope: str, place: str, member: str, kind: str = "model") -> None:
        self.at(time, scope, place, AgentAsked(member=member, member_kind=kind, turn=1, task="", length=0, digest=""))

    def rows(self) -> list[tuple[str, int, str, int]]:
        return [(row.member, row.depth, row.state, row.tokens) for row in self.board.rows()]


def begun() -> Story:
    story = Story()
    story.at(0, "", "", RunStarted(team="t", task="", manifest="", seed=1))
    story.ask(0, "", "t", "t", "team")
    story.at(0, "t", "event-1", TeamStarted(strategy="sequential", strategy_version=1, members=("a", "inner")))
    return story


def noted() -> Story:
    """The same note twice, a reply, the same twice again, and one of another kind."""
    story = begun()
    for number in (1, 2):
        place = f"step-{number}"
        story.ask(number, "t", place, "a")
        for wait in (1, 2):
            story.at(number, f"t/{place}", f"wait-{wait}", StepHeldUp(keys=("x",), by=("b",)))
        if number == 1:
            story.at(2, "t", place, AgentReplied())
    story.at(3, "t/step-2", "request-1", AgentCallFailed(error="timeout", message="too slow"))
    return story


def called(effect: EffectKind = "model", name: str = "m") -> AgentCalled:
    return AgentCalled(effect=effect, name=name, request="")


def test_members_wait_until_they_are_asked() -> None:
    story = begun()
    assert story.rows() == [("t", 0, "thinking", 0), ("a", 1, "waiting", 0), ("inner", 1, "waiting", 0)]


def test_a_member_thinks_streams_calls_a_tool_and_is_done() -> None:
    story = begun()
    story.ask(1, "t", "step-1", "a")
    story.at(1, "t/step-1", "request-1", called())
    row = story.board.row_of("t/step-1/request-1")
    assert row is not None
    assert row.state == "thinking"
    for offset, text in enumerate("Hi the"):
        story.board.apply(Delta(run_id="run", key="t/step-1", member="a", attempt=1, offset=offset, text=text))
    assert (row.state, row.streamed) == ("streaming", "Hi ")
    story.at(
        2, "t/step-1", "request-1", AgentReturned(body="", usage=Usage(requests=1, input_tokens=5, output_tokens=2))
    )
    story.at(2, "t/step-1", "tool-1", called("tool", "search"))
    assert (row.state, row.detail) == ("calling", "search")
    story.at(4, "t", "step-1", AgentReplied())
    assert (row.state, row.elapsed(99)) == ("done", 3)
    assert story.rows()[0] == ("t", 0, "thinking", 7)
    assert story.board.tokens == 7


def test_teams_nest_and_stay_one_row_over_several_rounds() -> None:
    story = begun()
    for number in (1, 2):
        place = f"round-{number}/inner"
        story.ask(number, "t", place, "inner", "team")
        story.at(number, f"t/{place}", "event-1", TeamStarted(strategy="s", strategy_version=1, members=("x",)))
        story.ask(number, f"t/{place}", "step-1", "x")
        story.at(number, f"t/{place}", "step-1", AgentReplied())
        story.at(number, "t", place, AgentReplied())
    assert [(member, depth) for member, depth, *_ in story.rows()] == [("t", 0), ("a", 1), ("inner", 1), ("x", 2)]


def test_failures_and_retries_show() -> None:
    story = begun()
    story.ask(1, "t", "step-1", "a")
    story.at(1, "t/step-1", "request-1", called())
    story.at(1, "t/step-1", "request-1", AgentCallFailed(error="rate_limit", message="", retry_in=2.0))
    assert story.rows()[1][2] == "retrying"
    story.at(2, "t", "step-1", AgentFailed(member="a", error="server", message="down"))
    assert story.rows()[1][2] == "failed"


def test_time_without_a_driver_does_not_count() -> None:
    story = begun()
    story.ask(1, "t", "step-1", "a")
    story.at(2, "t/step-1", "request-1", called())
    story.at(1000, "", "", RunResumed())
    assert story.board.elapsed(1001) == 3
    row = story.board.row_of("t/step-1")
    assert row is not None
    assert row.elapsed(1001) == 2
    story.at(1002, "", "", RunEnded(status="failed", stop_reason="error"))
    assert story.board.elapsed(9999) == 4
    assert row.state == "stopped"
