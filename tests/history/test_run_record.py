"""The past of a run, read from its events."""

from __future__ import annotations

import pytest

from teamwright.history.run_record import EXPIRED, RunRecord
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    MessageRef,
    Tally,
)
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import (
    Custom,
    PersonAnswered,
    RunIntervened,
    RunPaused,
    RunResumed,
    RunStarted,
    ScopeExpired,
    TimerFired,
    TimerSet,
)
from teamwright.values.people import Answer, Cancel
from teamwright.values.usage_and_prices import Usage

STARTED = RunStarted(team="t", task="b1", manifest="b2", seed=1)
TEAM = AgentAsked(member="t", member_kind="team", turn=1, task="b1", length=0, digest="d")
ASKED = AgentAsked(member="a", member_kind="model", turn=1, task="b1", length=0, digest="d")
CALLED = AgentCalled(effect="model", name="m", request="r", reserved=200)
USAGE = Usage(requests=1, input_tokens=30)


def past(*facts: tuple[str, str, Fact] | Fact) -> RunRecord:
    """The past of facts that happened one second apart."""
    events: list[Event] = []
    for number, one in enumerate(facts, start=1):
        scope, place, fact = one if isinstance(one, tuple) else ("", "", one)
        events.append(Event("r", number, 100.0 + number, scope, place, fact))
    return RunRecord.from_events(events)


OPEN: list[tuple[str, str, Fact] | Fact] = [STARTED, ("", "t", TEAM), ("t", "s", ASKED)]


def test_an_ending_stands_for_everything_inside_the_ask() -> None:
    nested = AgentAsked(member="n", member_kind="team", turn=1, task="b1", length=0, digest="d")
    found = past(
        *OPEN[:2],
        ("t", "n", nested),
        ("t/n/branch", "s", ASKED),
        ("t/n/branch", "s", AgentReplied()),
        ("t/n", "q", PersonAnswered(answer=Answer(text="yes"))),
        ("t/n", "sleep-1", TimerFired()),
        ("t", "n", AgentReplied()),
    )
    assert found.deliveries.due == ["t/n"]


def test_what_reached_the_strategy_is_due_in_journal_order() -> None:
    found = past(
        *OPEN,
        ("t", "q", PersonAnswered(answer=Answer(text="yes"))),
        ("t", "sleep-1", TimerSet(seconds=5)),
        ("t", "sleep-1", TimerFired()),
        ("t/part", "", ScopeExpired(seconds=1)),
        ("t", "s", AgentReplied()),
    )
    assert found.deliveries.due == ["t/q", "t/sleep-1", "t/part" + EXPIRED, "t/s"]
    assert found.deliveries.arrivals["t/q"].time == 104.0


def test_an_ask_that_was_stopped_by_others_is_not_due() -> None:
    found = past(*OPEN, ("t", "s", AgentFailed(member="a", error="cancelled", message="")))
    assert found.deliveries.due == []
    assert found.asks["t/s"].is_cancelled


def test_a_call_without_a_return_is_in_doubt_and_charged_in_full() -> None:
    found = past(*OPEN, ("t/s", "e", CALLED))
    assert found.calls["t/s/e"].in_doubt
    found.charge_open_turns()
    assert [
        (found.charges.by_scope[scope].tokens, found.charges.by_scope[scope].calls) for scope in ("t/s", "t", "")
    ] == [(200, 1)] * 3


def test_every_attempt_in_doubt_stays_charged() -> None:
    again = CALLED.changed(attempt=2, in_doubt=True)
    found = past(*OPEN, ("t/s", "e", CALLED), ("t/s", "e", again))
    found.charge_open_turns()
    assert (found.charges.by_scope["t"].tokens, found.charges.by_scope["t"].calls) == (400, 2)
    assert found.calls["t/s/e"].attempts == 2


@pytest.mark.parametrize(("usage", "charged"), [(USAGE, 30), (Usage(), 200)])
def test_a_returned_call_costs_what_it_used_or_what_was_reserved(usage: Usage, charged: int) -> None:
    found = past(*OPEN, ("t/s", "e", CALLED), ("t/s", "e", AgentReturned(body="b", usage=usage, mark="rule-1")))
    found.charge_open_turns()
    assert (found.charges.by_scope["t"].tokens, found.charges.by_scope["t"].calls) == (charged, 1)
    assert found.charges.marks["a", "rule-1"] == 1


def test_an_ended_turn_is_charged_by_its_tally() -> None:
    tally = Tally(calls=3, charged=250, marks=("rule-1", "rule-1"))
    found = past(*OPEN, ("t", "s", AgentReplied(usage=USAGE, tally=tally)))
    found.charge_open_turns()
    assert (found.charges.by_scope["t"].tokens, found.charges.by_scope["t"].calls) == (250, 3)
    assert found.charges.marks["a", "rule-1"] == 2


def test_a_failed_attempt_says_when_the_next_is_due_and_counts() -> None:
    failed = AgentCallFailed(error="server", message="down", retry_in=7.0)
    found = past(*OPEN, ("t/s", "e", CALLED), ("t/s", "e", failed))
    call = found.calls["t/s/e"]
    assert (call.failures, call.attempts, call.retry_at, call.outcome) == (1, 1, 112.0, None)


def test_time_counts_only_with_a_driver() -> None:
    events = [
        Event("r", 1, 100.0, "", "", STARTED),
        Event("r", 2, 110.0, "", "", RunPaused(stop_reason="pause")),
        Event("r", 3, 500.0, "", "", RunResumed()),
        Event("r", 4, 505.0, "", "", Custom(domain="d", name="n")),
    ]
    found = RunRecord.from_events(events)
    assert found.driver_time.seconds() == 15.0
    assert found.driver_time.seconds(105.0) == 10.0
    assert found.driver_time.seconds(502.0) == 3.0
    assert found.paused is None


def test_interventions_that_were_taken_are_remembered() -> None:
    found = past(STARTED, RunIntervened(intervention=Cancel(), inbox_id=4))
    assert (found.cancelled, found.last_inbox_item) == (Cancel(), 4)


def test_what_is_only_worth_knowing_is_noted_by_its_place() -> None:
    found = past(STARTED, ("t", "event-1", Custom(domain="d", name="n")))
    assert ("custom", "t", "event-1") in found.emitted


def test_only_bodies_that_a_replay_needs_are_asked_for() -> None:
    said = AgentReplied(messages=(MessageRef(name="a", body="said"),), data="data")
    found = past(*OPEN, ("t/s", "e", CALLED), ("t/s", "e", AgentReturned(body="inside")), ("t", "s", said))
    assert found.needed_bodies() == {"b1", "b2", "said", "data", "inside"}
    ended = past(*OPEN, ("t", "s", said), ("", "t", AgentReplied(messages=(MessageRef(name="a", body="all"),))))
    assert ended.needed_bodies() == {"b1", "b2", "all"}


def test_effects_of_ended_turns_need_not_be_read() -> None:
    assert past(*OPEN).first_open_turn() == 3
    assert past(*OPEN, ("t", "s", AgentReplied())).first_open_turn() == 4
