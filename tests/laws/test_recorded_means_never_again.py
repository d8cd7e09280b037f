"""Law 2: a run resumes from any point of its record to the same result, and repeats no recorded effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.event import Event
from tests.kit.effects import ReturnSchedule
from tests.laws.random_programs import (
    RandomProgram,
    comparable,
    cut,
    events_before_end,
    log_of,
    random_programs,
    returned_effects,
    run_to_end,
)
from tests.profiles import sampled

DELAYS = st.lists(st.integers(0, 25), min_size=1, max_size=8)
CUT = st.floats(0, 1, exclude_max=True, width=16)


def place_of(cut_at: float, events: list[Event]) -> int:
    """The number of events to keep: at least one, and never the ending."""
    return 1 + int(cut_at * (len(events) - 1))


@given(random_program=random_programs(), delays=DELAYS, cuts=st.lists(CUT, min_size=1, max_size=4))
async def test_a_run_that_is_cut_anywhere_ends_as_it_would_have(
    random_program: RandomProgram, delays: list[int], cuts: list[float]
) -> None:
    whole = MemoryJournal()
    expected = await run_to_end(random_program.team, ReturnSchedule(delays, spaced=True), whole)
    events = log_of(whole)
    assert expected.status == "completed"
    for at in {place_of(one, events) for one in cuts}:
        journal = cut(whole, at)
        recorded = returned_effects(events[:at])
        schedule = ReturnSchedule(spaced=True, order=returned_effects(events), recorded=frozenset(recorded))
        result = await run_to_end(random_program.team, schedule, journal, resume=True)
        assert comparable(result) == comparable(expected), f"cut after event {at}"
        assert not set(schedule.called) & set(recorded)
        assert log_of(journal)[:at] == events[:at]


@given(random_program=random_programs(timers=True, people=True, failures=True), delays=DELAYS, cut_at=CUT)
async def test_what_a_resumed_run_did_is_what_the_next_one_finds(
    random_program: RandomProgram, delays: list[int], cut_at: float
) -> None:
    """With timers and people the rest may differ after a cut; once recorded, it stays the same."""
    whole = MemoryJournal()
    await run_to_end(random_program.team, ReturnSchedule(delays), whole)
    resumed = cut(whole, place_of(cut_at, log_of(whole)))
    expected = await run_to_end(random_program.team, ReturnSchedule(delays[::-1]), resumed, resume=True)
    again, schedule = cut(resumed, events_before_end(log_of(resumed))), ReturnSchedule()
    assert comparable(await run_to_end(random_program.team, schedule, again, resume=True)) == comparable(expected)
    assert not schedule.called


@settings(max_examples=sampled(8, 20))
@given(random_program=random_programs(), delays=DELAYS)
async def test_a_run_may_be_cut_after_every_single_event(random_program: RandomProgram, delays: list[int]) -> None:
    """Cut after every event: each resume repeats the record and makes only the rest."""
    whole = MemoryJournal()
    expected = await run_to_end(random_program.team, ReturnSchedule(delays, spaced=True), whole)
    events = log_of(whole)
    for at in range(1, len(events)):
        recorded = frozenset(returned_effects(events[:at]))
        schedule = ReturnSchedule(spaced=True, order=returned_effects(events), recorded=recorded)
        assert comparable(await run_to_end(random_program.team, schedule, cut(whole, at), resume=True)) == comparable(
            expected
        ), f"cut after {at}"


def awkward(*program: Any, effects: Sequence[int], teams: Sequence[tuple[Any, ...]] = ()) -> RandomProgram:
    """A program over members m0, m1 and so on, with these numbers of effects."""
    members = [("member", f"m{number}", count, None) for number, count in enumerate(effects)]
    return RandomProgram(["seq", *program], [*members, *teams])


AWKWARD = {
    "a reply comes while its branch is being stopped": awkward(
        ["race", 1, ["ask", "m0"], ["ask", "m1"]], ["ask", "m2"], effects=[1, 0, 0]
    ),
    "a lock is held while a person is asked": awkward(
        ["all", 3, ["lock", ["person", "a"]], ["lock", ["person", "b"]]], ["ask", "m0"], effects=[1]
    ),
    "two deadlines ring at once around branches": awkward(
        ["hurry", 0.003, ["hurry", 0.003, ["all", 3, ["sleep", 0], ["person", "a"], ["sleep", 9]]]],
        ["ask", "m0"],
        effects=[2],
    ),
    "one branch passes a lock around while another stops a member": awkward(
        [
            "race", 2,
            ["all", 3, ["lock", ["draw"]], ["lock", ["draw"]]],
            ["race", 2, ["draw"], ["ask", "m0"], ["claim", "it"]],
        ],
        ["ask", "m1"],
        effects=[2, 0],
    ),
    "branches have ended within a team that goes on": awkward(
        ["all", 1, ["ask", "m0"], ["claim", "it"]],
        ["race", 1, ["all", 2, ["ask", "m1"], ["draw"]]],
        ["ask", "m2"],
        effects=[0, 1, 2],
    ),
    "a team is stopped in the middle of its second member": awkward(
        ["race", 1, ["ask", "t"], ["seq", ["ask", "m0"], ["ask", "m1"]]],
        ["ask", "m2"],
        effects=[0, 1, 0],
        teams=[("sequential", "t", [("member", "x", 0, None), ("member", "y", 2, None)])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("delays", [[0], [3], [25, 0]])
@pytest.mark.parametrize("random_program", AWKWARD.values(), ids=AWKWARD)
async def test_an_awkward_run_may_be_cut_anywhere(random_program: RandomProgram, delays: list[int]) -> None:
    whole = MemoryJournal()
    expected = await run_to_end(random_program.team, ReturnSchedule(delays), whole)
    for at in range(1, len(log_of(whole))):
        resumed = cut(whole, at)
        result = await run_to_end(random_program.team, ReturnSchedule(delays), resumed, resume=True)
        if at >= events_before_end(log_of(whole)):
            assert comparable(result) == comparable(expected), f"cut after {at}"
        schedule = ReturnSchedule()
        again = await run_to_end(
            random_program.team, schedule, cut(resumed, events_before_end(log_of(resumed))), resume=True
        )
        assert comparable(again) == comparable(result), f"cut after {at}"
        assert not schedule.called
