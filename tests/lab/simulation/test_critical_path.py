"""Critical paths and bottlenecks, against small runs made by hand."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from teamwright.history.kpis import TurnFigures
from teamwright.lab.simulation.critical_path import (
    Bottleneck,
    CommonPath,
    PathStep,
    bottleneck,
    common_path,
    critical_path,
    step_name,
)


def turn(step: str, began: float, ended: float | None, member: str = "m") -> TurnFigures:
    status = "open" if ended is None else "passed"
    return TurnFigures(key=f"team/{step}/work", member=member, purpose="work", began=began, ended=ended, status=status)


def names(path: tuple[PathStep, ...]) -> str:
    return "".join(one.step for one in path)


def test_the_path_leads_over_what_the_next_had_to_wait_for() -> None:
    turns = [turn("a", 0, 2), turn("b", 2, 3), turn("c", 2, 7), turn("d", 7, 9), turn("e", 3, 8)]
    assert names(critical_path(turns)) == "acd"
    assert [one.seconds for one in critical_path(turns)] == [2, 5, 2]


def test_a_wait_between_two_turns_is_stepped_over() -> None:
    assert names(critical_path([turn("a", 0, 2), turn("b", 5, 6)])) == "ab"


def test_an_open_turn_is_on_no_path() -> None:
    assert names(critical_path([turn("a", 0, 2), turn("b", 2, None)])) == "a"
    assert critical_path([]) == ()


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=20))
def test_turns_of_a_path_never_overlap_and_end_with_the_last(times: list[tuple[float, float]]) -> None:
    turns = [turn(str(place), began, began + long) for place, (began, long) in enumerate(times)]
    path = critical_path(turns)
    ends = {step_name(one.key): (one.began, one.ended or 0.0) for one in turns}
    assert ends[path[-1].step][1] == max(ended for _, ended in ends.values())
    for before, after in pairwise(path):
        assert ends[before.step][1] <= ends[after.step][0] + 1e-6


def test_a_place_is_reported_without_the_team_attempts_and_escapes() -> None:
    assert step_name("team/a/work") == "a"
    assert step_name("team/a/step/work#2") == "a"
    assert step_name("team/round-1/writer") == "round-1/writer"
    assert step_name("team/a%20b/work") == "a b"
    assert step_name("team") == "team"


def test_the_most_common_path_has_the_average_times_of_its_runs() -> None:
    one = critical_path([turn("a", 0, 2), turn("b", 2, 4)])
    other = critical_path([turn("a", 0, 4), turn("b", 4, 5)])
    rare = critical_path([turn("c", 0, 9)])
    steps = (PathStep(step="a", member="m", seconds=3.0), PathStep(step="b", member="m", seconds=1.5))
    assert common_path([one, rare, other]) == CommonPath(steps=steps, share=0.6667)
    assert common_path([]) == CommonPath(steps=(), share=0.0)


def test_the_bottleneck_has_the_most_time_over_all_runs() -> None:
    paths = [critical_path([turn("a", 0, 2), turn("b", 2, 8)]), critical_path([turn("a", 0, 3)])]
    assert bottleneck(paths, 11.0) == Bottleneck(
        step="b", member="m", seconds=6.0, share_of_time=round(6 / 11, 4), share_of_runs=0.5
    )
    assert bottleneck([()], 0.0) is None
