"""The published figures are those of the published rows, and advice by them is tested on benchmarks it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from teamwright.lab.topology_decision import (
    ALWAYS_ALONE,
    FAILURES_CENTRAL,
    FAILURES_INDEPENDENT,
    HELD_OUT,
    MEAN_LOSS,
    MEASURED,
    MOST_TRUST,
    priors,
    team_pass_rate,
    trust_in_published,
    validation_reason,
)
from tools.advice_table import (
    ALONE,
    CANDIDATES,
    CHOSEN,
    DIVISIBLE,
    LEAD,
    Cell,
    Policy,
    advantage,
    by_kind,
    failure_ratio,
    fit_effect,
    gains_above,
    held_out,
    interval,
    judge,
    read_cells,
)

CELLS = read_cells()
RESULTS = {name: judge(held_out(CELLS, learner)) for name, learner in CANDIDATES.items()}
SHARES = st.floats(min_value=0, max_value=1)


def test_there_are_36_cells_with_five_shapes_each() -> None:
    assert len(CELLS) == 36
    assert {cell.benchmark for cell in CELLS} == DIVISIBLE.keys()
    assert sum(len(cell.solved) for cell in CELLS) == 180


def test_the_figures_are_those_of_the_rows() -> None:
    assert fit_effect(CELLS) == pytest.approx(MEASURED, abs=5e-4)
    assert by_kind(CELLS) == HELD_OUT
    assert RESULTS["always one agent"].near == ALWAYS_ALONE
    losses = (RESULTS[CHOSEN].loss, RESULTS["always one agent"].loss, *advantage(CELLS)[1:])
    assert losses == pytest.approx(MEAN_LOSS, abs=5e-4)


def test_task_failures_are_not_amplified_17_and_4_times() -> None:
    assert failure_ratio(CELLS, "independent") == pytest.approx(FAILURES_INDEPENDENT, abs=5e-3)
    assert failure_ratio(CELLS, LEAD) == pytest.approx(FAILURES_CENTRAL, abs=5e-3)


def test_above_45_percent_teams_gain_nothing_only_in_sequential_planning() -> None:
    assert gains_above(CELLS, 0.45) == {"Finance-Agent": (3, 3), "PlanCraft": (0, 8), "WorkBench": (5, 9)}
    finding = next(one.finding for one in priors(0.5, 0.6) if "45%" in one.finding)
    assert "0 of 8" in finding
    assert "8 of the 12 other cases" in finding


def test_the_chosen_advice_loses_least_of_those_that_a_topology_exists_for() -> None:
    possible = {name: one for name, one in RESULTS.items() if "equals" not in name}
    assert min(possible, key=lambda name: possible[name].loss) == CHOSEN
    assert max(possible.values(), key=lambda one: one.near).near == possible[CHOSEN].near
    assert max(possible.values(), key=lambda one: one.best) == possible[CHOSEN]


def test_its_advantage_over_one_agent_does_not_hold_for_other_benchmarks_and_the_advice_says_so() -> None:
    _, low, _ = advantage(CELLS)
    alone, chosen = RESULTS["always one agent"].losses, RESULTS[CHOSEN].losses
    better = [name for name in DIVISIBLE if alone[name] - chosen[name] > 0.01]
    assert (low, better) == (0, ["Finance-Agent"])
    told = priors(0.5, 0.6)[3]
    assert "comes from one benchmark of four" in told.finding
    assert told.here == "it is not certain to be better than always using one agent"


def test_a_benchmark_is_never_used_for_its_own_advice() -> None:
    seen: list[set[str]] = []

    def learner(cells: Sequence[Cell]) -> Policy:
        seen.append({cell.benchmark for cell in cells})
        return lambda _: ALONE

    held_out(CELLS, learner)
    assert [set(DIVISIBLE) - one for one in seen] == [{name} for name in DIVISIBLE]


def test_an_interval_is_that_of_all_ways_to_draw_again() -> None:
    assert interval([0.0, 0.0, 0.0, 1.0]) == (0.0, 0.75)
    assert interval([0.5, 0.5, 0.5, 0.5]) == (0.5, 0.5)


@given(SHARES, SHARES, SHARES)
def test_more_that_can_be_divided_never_speaks_against_a_team(alone: float, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert team_pass_rate(low, alone) <= team_pass_rate(high, alone) + 1e-12
    assert 0 <= team_pass_rate(low, alone) <= 1


def test_published_figures_alone_are_never_trusted_much_and_least_on_mixed_work() -> None:
    sequential, mixed, divisible = map(trust_in_published, (0.0, 0.5, 1.0))
    assert mixed < 0.34 < divisible < sequential == MOST_TRUST < 0.67


def test_how_sure_advice_is_comes_with_counts() -> None:
    told = validation_reason(0.5)
    assert "in 9 of 18 cases of mixed work (BrowseComp-Plus, WorkBench)" in told
    assert "in 26 of 36 overall, where one agent everywhere came to 19" in told
