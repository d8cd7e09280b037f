"""The limit, spending and reservations of each level, folded from events."""

from __future__ import annotations

from itertools import count

from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.history.member_board import BudgetLevels
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetOpened
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import RunEnded, RunLogged, RunPaused, RunResumed, RunStarted, ScopeWaited
from teamwright.values.limits import Amounts, Bounds
from teamwright.values.usage_and_prices import Usage

NUMBERS = count(1)
STARTED = RunStarted(team="t", task="b", manifest="b", seed=1)
USED = Usage(requests=1, input_tokens=30, output_tokens=10, usd=0.04)


def event(scope: str, place: str, fact: Fact, time: float = 0.0) -> Event:
    return Event("r", next(NUMBERS), time, scope, place, fact)


def opened(scope: str, spent: Amounts | None = None, **limits: int) -> Event:
    return event(scope, "", BudgetOpened(limits=Bounds(tokens=limits.get("tokens"), calls=9), spent=spent))


def called(scope: str, attempt: int = 1) -> Event:
    fact = AgentCalled(effect="model", name="m", request="q", attempt=attempt, reserved=100, reserved_usd=0.1)
    return event(scope, "e", fact)


def asked(key: str, time: float = 0.0) -> Event:
    scope, _, place = key.rpartition("/")
    fact = AgentAsked(member="m", member_kind="model", turn=1, task="b", length=0, digest="d")
    return event(scope, place, fact, time)


def sums(levels: BudgetLevels, scope: str) -> tuple[list[int], list[int]]:
    level = levels.by_scope[scope]
    return [level.spent[0], level.spent[2]], [level.held[0], level.held[2]]


def test_a_call_is_held_at_every_level_around_it_until_it_is_back() -> None:  # Z-10
    first = [opened("", tokens=500), asked("t"), opened("t", tokens=300), opened("t/other"), called("t/a")]
    levels = BudgetLevels.from_events(first)
    assert sums(levels, "") == sums(levels, "t") == ([0, 0], [100, 1])
    assert sums(levels, "t/other") == ([0, 0], [0, 0])
    levels.apply(event("t/a", "e", AgentReturned(body="b", usage=USED)))
    assert sums(levels, "") == sums(levels, "t") == ([40, 1], [0, 0])
    assert levels.by_scope["t"].to_json(0.0) == {
        "level": "t",
        "limits": {"tokens": 300, "calls": 9} | dict.fromkeys(("usd", "seconds", "message", "strict", "asks", "depth")),
        "spent": {"tokens": 40, "usd": 0.04, "calls": 1, "seconds": 0.0},
        "held": {"tokens": 0, "usd": 0.0, "calls": 0, "seconds": None},
        "open": True,
    }


def test_a_failed_call_is_charged_only_if_its_cost_is_unknown() -> None:
    levels = BudgetLevels.from_events([opened("t"), called("t/a"), called("t/b")])
    levels.apply(event("t/a", "e", AgentCallFailed(error="server", message="no")))
    levels.apply(event("t/b", "e", AgentCallFailed(error="timeout", message="no", charged=True)))
    assert sums(levels, "t") == ([100, 2], [0, 0])


def test_a_call_in_doubt_stays_charged_when_it_is_made_again() -> None:
    levels = BudgetLevels.from_events([opened("t"), called("t/a"), called("t/a", 2)])
    assert sums(levels, "t") == ([100, 1], [100, 1])
    levels.apply(event("t/a", "e", AgentReturned(body="b", attempt=2, usage=USED)))
    assert sums(levels, "t") == ([140, 2], [0, 0])


def test_what_is_out_when_its_turn_ends_was_stopped_and_stays_charged() -> None:
    levels = BudgetLevels.from_events(
        [asked("t"), opened("t"), asked("t/a"), opened("t/a"), called("t/a"), called("t/b")]
    )
    levels.apply(event("t", "a", AgentFailed(member="a", error="cancelled", message="stopped")))
    assert sums(levels, "t") == ([100, 1], [100, 1])
    assert [level.scope for level in levels if level.ended is None] == ["t"]
    levels.apply(event("", "", RunEnded(status="cancelled", stop_reason="cancelled")))
    assert sums(levels, "t") == ([200, 2], [0, 0])


def test_a_reply_without_usage_is_charged_what_was_reserved() -> None:
    levels = BudgetLevels.from_events([opened("t"), called("t/a"), event("t/a", "e", AgentReturned(body="b"))])
    assert sums(levels, "t") == ([100, 1], [0, 0])


def test_what_is_charged_and_was_not_reported_is_told_apart() -> None:
    levels = BudgetLevels.from_events([opened("t"), called("t/a"), called("t/a", 2), called("t/b"), called("t/c")])
    level = levels.by_scope["t"]
    assert level.of_unknown_cost() == Amounts(tokens=100, usd=0.1, calls=0)
    levels.apply(event("t/a", "e", AgentReturned(body="b", attempt=2, usage=USED)))
    levels.apply(event("t/b", "e", AgentCallFailed(error="server", message="no")))
    assert level.of_unknown_cost() == Amounts(tokens=100, usd=0.1, calls=0)
    levels.apply(event("t/c", "e", AgentReturned(body="b", usage=USED, partial_usage="cut")))
    assert level.of_unknown_cost() == Amounts(tokens=160, usd=0.16, calls=0)
    assert level.spent[0] - level.unreported[0] == 2 * USED.total_tokens


def test_a_fork_begins_with_what_it_took_over() -> None:
    levels = BudgetLevels.from_events([called("t/a"), opened("t", Amounts(tokens=70, calls=2)), called("t/b")])
    assert sums(levels, "t") == ([70, 2], [100, 1])


def test_time_counts_with_a_driver_and_without_open_questions() -> None:
    levels = BudgetLevels.from_events(
        [
            event("", "", STARTED),
            event("", "", BudgetOpened(limits=Bounds(seconds=60))),
            event("", "", RunPaused(stop_reason="pause"), 5.0),
            event("", "", RunLogged(text="told"), 20.0),
            event("", "", RunLogged(text="told"), 30.0),
            event("", "", RunResumed(), 1000.0),
            event("", "", ScopeWaited(seconds=2.0), 1004.0),
        ]
    )
    assert levels.by_scope[""].used(levels.driver_seconds).seconds == 7.0
    levels.apply(event("", "t", AgentReplied(), 1010.0))
    assert levels.by_scope[""].used(levels.driver_seconds).seconds == 13.0


def stand(levels: BudgetLevels, scope: str) -> tuple[bool, float | None]:
    level = levels.by_scope[scope]
    return level.ended is None, level.used(levels.driver_seconds).seconds


def test_a_part_of_the_work_is_open_while_a_turn_in_it_is_and_its_time_ends_with_the_last_of_them() -> None:
    levels = BudgetLevels.from_events([event("", "", STARTED), asked("t"), opened("t"), opened("t/part")])
    assert stand(levels, "t/part") == (False, 0.0)
    levels.apply(asked("t/part/a", 1.0))
    levels.apply(asked("t/part/b", 2.0))
    levels.apply(event("t/part", "a", AgentReplied(), 3.0))
    assert stand(levels, "t/part") == (True, 3.0)
    levels.apply(event("t/part", "b", AgentReplied(), 4.0))
    levels.apply(asked("t/other", 5.0))
    assert (stand(levels, "t/part"), stand(levels, "t")) == ((False, 4.0), (True, 5.0))
    levels.apply(asked("t/part/c", 7.0))
    assert stand(levels, "t/part") == (True, 7.0)
    levels.apply(event("", "t", AgentFailed(member="t", error="cancelled", message=""), 9.0))
    assert (stand(levels, "t/part"), stand(levels, "t")) == ((False, 9.0), (False, 9.0))


def test_a_part_that_a_fork_continues_with_is_open_while_a_turn_in_it_is() -> None:
    levels = BudgetLevels.from_events([event("", "", STARTED), asked("t"), asked("t/part/a"), opened("t/part")])
    assert stand(levels, "t/part") == (True, 0.0)
    levels.apply(event("t/part", "a", AgentReplied(), 3.0))
    levels.apply(asked("t/other", 5.0))
    assert stand(levels, "t/part") == (False, 3.0)


async def test_the_level_of_a_step_ends_with_the_step() -> None:
    async def respond(turn: Turn) -> str:
        return "done"

    steps: list[JsonValue] = [{"id": "one", "limits": {"tokens": 900}}, {"id": "two", "needs": ["one"]}]
    members = [FunctionAgent("one", respond), FunctionAgent("two", respond)]
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=members, strategy="dag", options={"steps": steps}), "go", run_id="r")
        events = await engine.journal.read("r")
    begun = next(e.number for e in events if isinstance(e.fact, AgentAsked) and e.fact.member == "two")
    levels = BudgetLevels.from_events([e for e in events if e.number <= begun])
    assert [level.ended is None for level in levels] == [False]
