from __future__ import annotations

from teamwright.history.member_board import Board
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentProgressed,
    AgentReplied,
    AgentReturned,
    EffectKind,
)
from teamwright.values.events.event import ArgumentsDelta, Delta, Event, Fact, ThinkingDelta
from teamwright.values.events.run import RunEnded, RunResumed, RunStarted
from teamwright.values.events.team import StepHeldUp, TeamStarted
from teamwright.values.usage_and_prices import Usage


class EventLog:
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


def begun() -> EventLog:
    log = EventLog()
    log.at(0, "", "", RunStarted(team="t", task="", manifest="", seed=1))
    log.ask(0, "", "t", "t", "team")
    log.at(0, "t", "event-1", TeamStarted(strategy="sequential", strategy_version=1, members=("a", "inner")))
    return log


def noted() -> EventLog:
    """The same note twice, a reply, the same twice again, and one of another kind."""
    log = begun()
    for number in (1, 2):
        place = f"step-{number}"
        log.ask(number, "t", place, "a")
        for wait in (1, 2):
            log.at(number, f"t/{place}", f"wait-{wait}", StepHeldUp(keys=("x",), by=("b",)))
        if number == 1:
            log.at(2, "t", place, AgentReplied())
    log.at(3, "t/step-2", "request-1", AgentCallFailed(error="timeout", message="too slow"))
    return log


def called(effect: EffectKind = "model", name: str = "m") -> AgentCalled:
    return AgentCalled(effect=effect, name=name, request="")


def test_members_wait_until_they_are_asked() -> None:
    log = begun()
    assert log.rows() == [("t", 0, "thinking", 0), ("a", 1, "waiting", 0), ("inner", 1, "waiting", 0)]


def test_a_member_thinks_streams_calls_a_tool_and_is_done() -> None:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    log.at(1, "t/step-1", "request-1", called())
    row = log.board.row_of("t/step-1/request-1")
    assert row is not None
    assert row.state == "thinking"
    for offset, text in enumerate("Hi the"):
        log.board.apply(Delta(run_id="run", key="t/step-1", member="a", attempt=1, offset=offset, text=text))
    assert (row.state, row.streamed) == ("streaming", "Hi ")
    log.at(2, "t/step-1", "request-1", AgentReturned(body="", usage=Usage(requests=1, input_tokens=5, output_tokens=2)))
    log.at(2, "t/step-1", "tool-1", called("tool", "search"))
    assert (row.state, row.detail) == ("calling", "search")
    log.at(4, "t", "step-1", AgentReplied())
    assert (row.state, row.elapsed(99)) == ("done", 3)
    assert log.rows()[0] == ("t", 0, "thinking", 7)
    assert log.board.tokens == 7


def test_teams_nest_and_stay_one_row_over_several_rounds() -> None:
    log = begun()
    for number in (1, 2):
        place = f"round-{number}/inner"
        log.ask(number, "t", place, "inner", "team")
        log.at(number, f"t/{place}", "event-1", TeamStarted(strategy="s", strategy_version=1, members=("x",)))
        log.ask(number, f"t/{place}", "step-1", "x")
        log.at(number, f"t/{place}", "step-1", AgentReplied())
        log.at(number, "t", place, AgentReplied())
    assert [(member, depth) for member, depth, *_ in log.rows()] == [("t", 0), ("a", 1), ("inner", 1), ("x", 2)]


def test_failures_and_retries_show() -> None:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    log.at(1, "t/step-1", "request-1", called())
    log.at(1, "t/step-1", "request-1", AgentCallFailed(error="rate_limit", message="", retry_in=2.0))
    assert log.rows()[1][2] == "retrying"
    log.at(2, "t", "step-1", AgentFailed(member="a", error="server", message="down"))
    assert log.rows()[1][2] == "failed"


def test_time_without_a_driver_does_not_count() -> None:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    log.at(2, "t/step-1", "request-1", called())
    log.at(1000, "", "", RunResumed())
    assert log.board.elapsed(1001) == 3
    row = log.board.row_of("t/step-1")
    assert row is not None
    assert row.elapsed(1001) == 2
    log.at(1002, "", "", RunEnded(status="failed", stop_reason="error"))
    assert log.board.elapsed(9999) == 4
    assert row.state == "stopped"


def test_the_part_that_a_model_writes_now_is_the_one_that_is_streamed() -> None:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    row = log.board.row_of("t/step-1")
    assert row is not None

    def piece(kind: type[Delta] | type[ThinkingDelta], offset: int, text: str) -> Delta | ThinkingDelta:
        return kind(run_id="run", key="t/step-1", member="a", attempt=1, offset=offset, text=text)

    seen: list[tuple[str, str, str]] = []
    call = ArgumentsDelta(run_id="run", key="t/step-1", member="a", attempt=1, offset=0, text="{} ", tool="w", call=1)
    for delta in (
        piece(ThinkingDelta, 0, "Let me "),
        piece(ThinkingDelta, 7, "see. "),
        call,
        call.changed(call=2, text="[] "),
        piece(Delta, 0, "It is "),
    ):
        log.board.apply(delta)
        seen.append((row.state, row.detail, row.streamed))
    assert seen == [
        ("thinking", "", "Let me "),
        ("thinking", "", "Let me see. "),
        ("streaming", "w", "{} "),
        ("streaming", "w", "[] "),
        ("streaming", "", "It is "),
    ]


def test_the_progress_of_a_tool_shows_until_the_call_returns() -> None:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    log.at(2, "t/step-1", "tool-1", called("tool", "copy"))
    log.at(3, "t/step-1", "tool-1/event-1-1", AgentProgressed(name="copy", text="half of it", done=0.5))
    row = log.board.row_of("t/step-1")
    assert row is not None
    assert (row.state, row.detail) == ("calling", "copy: half of it 50%")
    log.at(4, "t/step-1", "tool-1", AgentReturned(body=""))
    assert row.state == "thinking"
