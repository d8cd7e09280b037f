"""Law 2: from any point of its record a run goes on to the same end, and makes nothing again that was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.journal.memory import MemoryJournal
from teamwright.values.events.event import Event
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


def awkward(*program: Any, players: Sequence[int], teams: Sequence[tuple[Any, ...]] = ()) -> Piece:
    """A program over players m0, m1 and so on, with so many effects each."""
    members = [("player", f"m{number}", effects, None) for number, effects in enumerate(players)]
    return Piece(["seq", *program], [*members, *teams])


AWKWARD = {
    "a reply comes while its branch is being stopped": awkward(
        ["race", 1, ["ask", "m0"], ["ask", "m1"]], ["ask", "m2"], players=[1, 0, 0]
    ),
    "a lock is held while a person is asked": awkward(
        ["all", 3, ["lock", ["person", "a"]], ["lock", ["person", "b"]]], ["ask", "m0"], players=[1]
    ),
    "two deadlines ring at once around branches": awkward(
        ["hurry", 0.003, ["hurry", 0.003, ["all", 3, ["sleep", 0], ["person", "a"], ["sleep", 9]]]],
        ["ask", "m0"],
        players=[2],
    ),
    "one branch passes a lock around while another stops a member": awkward(
        [
            "race", 2,
            ["all", 3, ["lock", ["draw"]], ["lock", ["draw"]]],
            ["race", 2, ["draw"], ["ask", "m0"], ["claim", "it"]],
        ],
        ["ask", "m1"],
        players=[2, 0],
    ),
    "branches have ended within a team that goes on": awkward(
        ["all", 1, ["ask", "m0"], ["claim", "it"]],
        ["race", 1, ["all", 2, ["ask", "m1"], ["draw"]]],
        ["ask", "m2"],
        players=[0, 1, 2],
    ),
    "a team is stopped in the middle of its second member": awkward(
        ["race", 1, ["ask", "t"], ["seq", ["ask", "m0"], ["ask", "m1"]]],
        ["ask", "m2"],
        players=[0, 1, 0],
        teams=[("sequential", "t", [("player", "x", 0, None), ("player", "y", 2, None)])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("delays", [[0], [3], [25, 0]])
@pytest.mark.parametrize("piece", AWKWARD.values(), ids=AWKWARD)
async def test_an_awkward_run_may_be_cut_anywhere(piece: Piece, delays: list[int]) -> None:
    whole = MemoryJournal()
    expected = await play(piece.team, Score(delays), whole)
    for at in range(1, len(log_of(whole))):
        resumed = cut(whole, at)
        result = await play(piece.team, Score(delays), resumed, resume=True)
        if at >= before_the_end(log_of(whole)):
            assert said(result) == said(expected), f"cut after {at}"
        score = Score()
        again = await play(piece.team, score, cut(resumed, before_the_end(log_of(resumed))), resume=True)
        assert said(again) == said(result), f"cut after {at}"
        assert not score.made
