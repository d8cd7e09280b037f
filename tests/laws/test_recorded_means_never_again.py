"""Law 2: from any point of its record a run goes on to the same end, and makes nothing again that was recorded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.journal.memory import MemoryJournal
from teamwright.values.events import Event
from tests.laws.orchestra import Piece, Score, before_the_end, cut, log_of, pieces, play, returned, said

DELAYS = st.lists(st.integers(0, 25), min_size=1, max_size=8)
CUT = st.floats(0, 1, exclude_max=True, width=16)


def place_of(cut_at: float, events: list[Event]) -> int:
    """After how many events to cut: at least one, and never after the ending."""
    return 1 + int(cut_at * (len(events) - 1))


@given(piece=pieces(), delays=DELAYS, cuts=st.lists(CUT, min_size=1, max_size=4))
async def test_a_run_that_is_cut_anywhere_ends_as_it_would_have(
    piece: Piece, delays: list[int], cuts: list[float]
) -> None:
    whole = MemoryJournal()
    expected = await play(piece.team, Score(delays, apart=True), whole)
    events = log_of(whole)
    assert expected.status == "completed"
    for at in {place_of(one, events) for one in cuts}:
        journal = cut(whole, at)
        recorded = returned(events[:at])
        score = Score(apart=True, order=returned(events), recorded=frozenset(recorded))
        result = await play(piece.team, score, journal, resume=True)
        assert said(result) == said(expected), f"cut after event {at}"
        assert not set(score.made) & set(recorded)
        assert log_of(journal)[:at] == events[:at]


@given(piece=pieces(timers=True, people=True, failures=True), delays=DELAYS, cut_at=CUT)
async def test_what_a_resumed_run_did_is_what_the_next_one_finds(
    piece: Piece, delays: list[int], cut_at: float
) -> None:
    """With timers and people the rest may fall otherwise after a cut; but whatever it is, it stays so."""
    whole = MemoryJournal()
    await play(piece.team, Score(delays), whole)
    resumed = cut(whole, place_of(cut_at, log_of(whole)))
    expected = await play(piece.team, Score(delays[::-1]), resumed, resume=True)
    again, score = cut(resumed, before_the_end(log_of(resumed))), Score()
    assert said(await play(piece.team, score, again, resume=True)) == said(expected)
    assert not score.made


@settings(max_examples=20)
@given(piece=pieces(), delays=DELAYS)
async def test_a_run_may_be_cut_after_every_single_event(piece: Piece, delays: list[int]) -> None:
    """One event at a time: each resume is allowed nothing but what the record already says, plus the rest."""
    whole = MemoryJournal()
    expected = await play(piece.team, Score(delays, apart=True), whole)
    events = log_of(whole)
    for at in range(1, len(events)):
        recorded = frozenset(returned(events[:at]))
        score = Score(apart=True, order=returned(events), recorded=recorded)
        assert said(await play(piece.team, score, cut(whole, at), resume=True)) == said(expected), f"cut after {at}"
