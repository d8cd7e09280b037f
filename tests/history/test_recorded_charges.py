"""When a run was being worked on."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.history.recorded_charges import DriverTime
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import Origin, RunLogged, RunPaused, RunResumed, RunStarted

START = RunStarted(team="t", task="b", manifest="b", seed=1)


def driving(*facts: tuple[float, Fact]) -> DriverTime:
    made = DriverTime()
    for number, (time, fact) in enumerate(facts, start=1):
        made.apply(Event("r", number, time, "", "", fact))
    return made


def test_time_counts_up_to_the_last_thing_that_a_driver_recorded() -> None:
    found = driving((0, START), (5, RunLogged(text="x")), (100, RunResumed()), (103, RunLogged(text="y")))
    assert found.busy_seconds(0, 1000, []) == 8
    assert found.busy_seconds(4, 102, []) == 3
    assert found.busy_seconds(6, 99, []) == 0


def test_what_comes_after_a_pause_is_no_time_with_a_driver() -> None:
    found = driving((0, START), (5, RunPaused(stop_reason="pause")), (80, RunLogged(text="told")), (90, RunResumed()))
    assert found.busy_seconds(0, 100, []) == 5


def test_waits_count_once_however_they_overlap() -> None:
    found = driving((0, START), (50, RunLogged(text="x")))
    assert found.busy_seconds(10, 40, [(30, 60), (5, 15), (12, 20), (14, 16)]) == 10


def test_what_a_fork_took_over_has_its_own_time() -> None:
    forked = START.changed(origin=Origin(run_id="before", number=3, how="fork"))
    copied: list[tuple[float, Fact]] = [(1000, forked), (3, RunLogged(text="x")), (7, RunLogged(text="x"))]
    found = driving(*copied)
    assert (found.busy_seconds(3, 1000, []), found.seconds()) == (4, 0)
    found = driving(*copied, (1000, RunResumed()), (1002, RunLogged(text="y")))
    assert (found.busy_seconds(3, 7, []), found.busy_seconds(5, 1002, []), found.seconds()) == (4, 4, 2)


seconds = st.integers(0, 40)


@given(
    st.lists(st.tuples(seconds, seconds), max_size=5),
    st.lists(st.integers(1, 10), max_size=6),
    st.tuples(seconds, seconds),
)
def test_busy_seconds_are_those_with_a_driver_and_without_open_questions(
    waits: list[tuple[int, int]], lengths: list[int], asked: tuple[int, int]
) -> None:
    facts: list[tuple[float, Fact]] = [(0, START)]
    driven: set[int] = set()
    time = 0
    for place, length in enumerate(lengths):
        if place % 2:
            facts.append((time + length, RunResumed()))
        else:
            facts.append((time + length, RunLogged(text="x")))
            driven.update(range(time, time + length))
        time += length
    begin, end = min(asked), max(asked)
    spans = [(min(one), max(one)) for one in waits]
    expected = [
        second for second in range(begin, end) if second in driven and not any(a <= second < b for a, b in spans)
    ]
    assert driving(*facts).busy_seconds(begin, end, spans) == len(expected)
