"""The state that all contexts of one run share."""

from __future__ import annotations

import asyncio

import pytest

from teamwright.errors import JournalUnavailable, NonDeterminism
from teamwright.history.run_record import RunRecord
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.ordered_delivery import OrderedDelivery
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.run_state import PendingQuestion, RunState
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Question


def state(past: RunRecord | None = None) -> RunState:
    recorder = Recorder(MemoryJournal(), "r", 0, lambda: 0.0, lambda events: None, lambda error: None)
    delivery = OrderedDelivery([], lambda key, waiting: None, lambda: None)
    record, bodies = past or RunRecord(), MemoryJournal().bodies
    return RunState("r", 1, record, recorder, delivery, Redactor(), Bus(), lambda: 0.0, bodies)


async def test_an_account_is_made_only_where_there_is_a_limit() -> None:
    run = state()
    outer = run.open_account("t", Limits(tokens=10), None)
    assert outer is not None
    assert run.open_account("t/s", None, outer) is outer
    assert run.open_account("t/s", Limits(seconds=5), outer) is outer
    inner = run.open_account("t/s", Limits(calls=1), outer)
    assert inner is not None
    assert inner.parent is outer


async def test_an_account_begins_with_what_was_spent_before() -> None:
    past = RunRecord()
    past.charges.by_scope["t"].add(7, 3, 2)
    account = state(past).open_account("t", Limits(tokens=10), None)
    assert account is not None
    assert account.spent == [7, 3, 2]


async def test_the_first_error_counts() -> None:
    run = state()
    first = JournalUnavailable("first")
    run.abort(first)
    run.abort(JournalUnavailable("second"))
    assert run.error is first
    assert run.closing
    assert run.stopped


async def test_a_report_mismatchment_aborts_the_run_with_both_sides() -> None:
    run = state()
    with pytest.raises(NonDeterminism, match="recorded, the program now replayed"):
        run.report_mismatch("t/s", "recorded", "replayed")
    assert isinstance(run.error, NonDeterminism)


async def test_only_open_questions_with_nothing_else_continuing_wait_for_people() -> None:
    run = state()
    assert not run.is_waiting_outside
    question: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    run.questions["t/q"] = PendingQuestion(Question(text="?"), question)
    assert run.is_waiting_outside
    run.busy_agents = 1
    assert not run.is_waiting_outside
    run.busy_agents = 0
    question.set_result(Answer(text="yes"))
    assert not run.is_waiting_outside
