"""What each level of a run may spend, has spent and holds, read from events."""

from __future__ import annotations

from itertools import count

from teamwright.runtime.levels import Levels
from teamwright.values.events import (
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    BudgetOpened,
    Event,
    Fact,
    RunEnded,
    RunPaused,
    RunResumed,
    ScopeWaited,
)
from teamwright.values.usage import Amounts, Bounds, Usage

NUMBERS = count(1)
USED = Usage(requests=1, input_tokens=30, output_tokens=10, usd=0.04)


def event(scope: str, place: str, fact: Fact, time: float = 0.0) -> Event:
    return Event("r", next(NUMBERS), time, scope, place, fact)


def opened(scope: str, spent: Amounts | None = None, **limits: int) -> Event:
    return event(scope, "", BudgetOpened(limits=Bounds(tokens=limits.get("tokens"), calls=9), spent=spent))


def called(scope: str, attempt: int = 1) -> Event:
    fact = AgentCalled(effect="model", name="m", request="q", attempt=attempt, reserved=100, reserved_usd=0.1)
    return event(scope, "e", fact)


def sums(levels: Levels, scope: str) -> tuple[list[int], list[int]]:
    level = levels.by_scope[scope]
    return [level.spent[0], level.spent[2]], [level.held[0], level.held[2]]


def test_a_call_is_held_at_every_level_around_it_until_it_is_back() -> None:  # Z-10
    levels = Levels.of([opened("", tokens=500), opened("t", tokens=300), opened("t/other"), called("t/a")])
    assert sums(levels, "") == sums(levels, "t") == ([0, 0], [100, 1])
    assert sums(levels, "t/other") == ([0, 0], [0, 0])
    levels.take(event("t/a", "e", AgentReturned(body="b", usage=USED)))
    assert sums(levels, "") == sums(levels, "t") == ([40, 1], [0, 0])
    assert levels.by_scope["t"].to_json(0.0) == {
        "level": "t",
        "limits": {"tokens": 300, "usd": None, "calls": 9, "seconds": None, "message": None},
        "spent": {"tokens": 40, "usd": 0.04, "calls": 1, "seconds": 0.0},
        "held": {"tokens": 0, "usd": 0.0, "calls": 0, "seconds": None},
        "open": True,
    }


def test_a_call_that_failed_is_charged_only_if_nobody_knows_its_cost() -> None:
    levels = Levels.of([opened("t"), called("t/a"), called("t/b")])
    levels.take(event("t/a", "e", AgentCallFailed(error="server", message="no")))
    levels.take(event("t/b", "e", AgentCallFailed(error="timeout", message="no", charged=True)))
    assert sums(levels, "t") == ([100, 2], [0, 0])


def test_a_call_in_doubt_stays_charged_when_it_is_made_again() -> None:
    levels = Levels.of([opened("t"), called("t/a"), called("t/a", 2)])
    assert sums(levels, "t") == ([100, 1], [100, 1])
    levels.take(event("t/a", "e", AgentReturned(body="b", attempt=2, usage=USED)))
    assert sums(levels, "t") == ([140, 2], [0, 0])


def test_what_is_out_when_its_turn_ends_was_stopped_and_stays_charged() -> None:
    levels = Levels.of([opened("t"), opened("t/a"), called("t/a"), called("t/b")])
    levels.take(event("t", "a", AgentFailed(member="a", error="cancelled", message="stopped")))
    assert sums(levels, "t") == ([100, 1], [100, 1])
    assert [level.scope for level in levels if level.ended is None] == ["t"]
    levels.take(event("", "", RunEnded(status="cancelled", stop_reason="cancelled")))
    assert sums(levels, "t") == ([200, 2], [0, 0])


def test_a_reply_without_usage_is_charged_what_was_reserved() -> None:
    levels = Levels.of([opened("t"), called("t/a"), event("t/a", "e", AgentReturned(body="b"))])
    assert sums(levels, "t") == ([100, 1], [0, 0])


def test_a_fork_begins_with_what_it_took_over() -> None:
    levels = Levels.of([called("t/a"), opened("t", Amounts(tokens=70, calls=2)), called("t/b")])
    assert sums(levels, "t") == ([70, 2], [100, 1])


def test_time_counts_while_somebody_drives_and_nobody_is_waited_for() -> None:
    levels = Levels.of(
        [
            event("", "", BudgetOpened(limits=Bounds(seconds=60))),
            event("", "", RunPaused(stop_reason="pause"), 5.0),
            event("", "", RunResumed(), 1000.0),
            event("", "", ScopeWaited(seconds=2.0), 1004.0),
        ]
    )
    assert levels.by_scope[""].used(levels.driven).seconds == 7.0
    levels.take(event("", "t", AgentReplied(), 1010.0))
    assert levels.by_scope[""].used(levels.driven).seconds == 13.0
