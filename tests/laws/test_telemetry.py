"""Traces are right whatever happens: their sums are the ledger's, and a run that was cut anywhere continues its own."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.history.telemetry.run_spans import spans_of
from teamwright.journal.in_memory_journal import MemoryJournal
from tests.kit.effects import ReturnSchedule
from tests.kit.spans import check_spans
from tests.laws.random_programs import RandomProgram, cut, log_of, random_programs, run_to_end
from tests.laws.test_recorded_means_never_again import CUT, DELAYS, place_of


@given(random_program=random_programs(timers=True, people=True, failures=True), delays=DELAYS)
async def test_the_tokens_of_all_spans_are_those_of_the_ledger(
    random_program: RandomProgram, delays: list[int]
) -> None:
    journal = MemoryJournal()
    await run_to_end(random_program.team, ReturnSchedule(delays), journal)
    check_spans(log_of(journal))


@given(random_program=random_programs(people=True), delays=DELAYS, cuts=st.lists(CUT, min_size=1, max_size=3))
async def test_a_run_that_is_cut_anywhere_continues_its_trace(
    random_program: RandomProgram, delays: list[int], cuts: list[float]
) -> None:
    journal = MemoryJournal()
    await run_to_end(random_program.team, ReturnSchedule(delays), journal)
    for one in cuts:
        journal = cut(journal, place_of(one, log_of(journal)))
        sent = spans_of(log_of(journal))
        await run_to_end(random_program.team, ReturnSchedule(delays), journal, resume=True)
        whole = {span.span_id: span for span in check_spans(log_of(journal))}
        assert all(whole.get(span.span_id) == span for span in sent)
