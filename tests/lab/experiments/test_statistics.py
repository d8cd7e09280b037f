from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from math import comb
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from teamwright.lab.experiments import statistics
from teamwright.lab.experiments.statistics import (
    all_pass,
    any_passes,
    cases_needed,
    difference,
    kappa,
    pass_rate,
    relative_change,
)


@cache
def scipy_stats() -> Any:
    """The reference; importing it takes longer than all that the other tests of a worker process import."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    return stats


RATES = [0.05, 0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.95]
Z = statistics.Z


@pytest.mark.parametrize("cases", [30, 47, 100, 250])
def test_the_interval_of_a_rate_covers_it_as_often_as_it_says(cases: int) -> None:
    intervals = [pass_rate([(1, 1)] * passed + [(0, 1)] * (cases - passed)) for passed in range(cases + 1)]
    covered = [
        sum(
            float(scipy_stats().binom.pmf(passed, cases, rate))
            for passed, found in enumerate(intervals)
            if found.low <= rate <= found.high
        )
        for rate in np.arange(0.05, 0.951, 0.01)
    ]
    assert 0.93 <= fmean(covered) <= 0.97


def test_the_interval_is_that_of_wilson() -> None:
    for passed in range(41):
        found = pass_rate([(1, 1)] * passed + [(0, 1)] * (40 - passed))
        known = scipy_stats().binomtest(passed, 40).proportion_ci(0.95, method="wilson")
        assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-9)


def samples(draw: np.random.Generator, rate: float, alike: float, cases: int, attempts: int) -> list[tuple[int, int]]:
    """Passes of attempts that resemble each other within a case."""
    scale = (1 - alike) / alike
    chances = draw.beta(rate * scale, (1 - rate) * scale, cases)
    return [(int(passed), attempts) for passed in draw.binomial(attempts, chances)]


@pytest.mark.parametrize(("cases", "attempts", "alike"), [(30, 5, 0.5), (30, 3, 0.1), (60, 5, 0.9)])
def test_attempts_at_one_case_do_not_count_as_independent(cases: int, attempts: int, alike: float) -> None:
    draw = np.random.default_rng(7)
    covered = [
        found.low <= rate <= found.high
        for rate in RATES
        for found in (pass_rate(samples(draw, rate, alike, cases, attempts)) for _ in range(150))
    ]
    assert 0.93 <= fmean(covered) <= 0.97


def pairs(draw: np.random.Generator, first: float, second: float, related: float) -> Iterator[list[tuple[int, int]]]:
    common = draw.normal(size=40)
    for rate in (first, second):
        mixed = related**0.5 * common + (1 - related) ** 0.5 * draw.normal(size=40)
        yield [(int(passed), 1) for passed in mixed < scipy_stats().norm.ppf(rate)]


@pytest.mark.parametrize("related", [0.0, 0.5, 0.9])
def test_the_interval_of_a_paired_difference_covers_it(related: float) -> None:
    draw, covered = np.random.default_rng(3), []
    for first, second in ((0.1, 0.1), (0.2, 0.4), (0.5, 0.5), (0.5, 0.7), (0.8, 0.9), (0.95, 0.95)):
        for _ in range(150):
            found = difference(*pairs(draw, first, second, related))
            covered.append(found.low <= second - first <= found.high)
    assert 0.93 <= fmean(covered) <= 0.99  # it may say less than it could where few cases differ


@pytest.mark.parametrize(
    ("cases", "rate", "loss"), [(20, 0.5, 0.05), (40, 0.5, 0.03), (40, 0.7, 0.05), (100, 0.5, 0.05)]
)
def test_a_small_loss_is_covered_also_where_no_case_has_shown_it(cases: int, rate: float, loss: float) -> None:
    draw, covered = np.random.default_rng(4), []
    for _ in range(400):
        chances = draw.random(cases)  # what the second passes the first passes, too
        first, second = ([(int(one), 1) for one in chances < share] for share in (rate, rate - loss))
        found = difference(first, second)
        covered.append(found.low <= -loss <= found.high)
    assert fmean(covered) >= 0.93
    same = [(1, 1), (0, 1)] * (cases // 2)
    assert difference(same, same).low < -1 / cases


def test_a_difference_is_shown_in_four_experiments_of_five_with_the_cases_that_are_said_to_be_needed() -> None:
    draw = np.random.default_rng(5)
    first, second = [[(1, 1)] * passed + [(0, 1)] * (40 - passed) for passed in (20, 28)]
    draw.shuffle(first)
    cases = cases_needed(first, second)
    shown = 0
    for _ in range(300):
        before, after = ([(int(one), 1) for one in draw.random(cases) < rate] for rate in (0.5, 0.7))
        shown += not difference(before, after).holds_zero
    assert 0.72 <= shown / 300 <= 0.95


def test_pass_k_has_no_bias() -> None:
    outcomes = [True, True, False, True, False]
    for k in range(1, 6):
        drawn = list(combinations(outcomes, k))
        assert all_pass([(3, 5)], k) == pytest.approx(sum(map(all, drawn)) / comb(5, k))
        assert any_passes([(3, 5)], k) == pytest.approx(sum(map(any, drawn)) / comb(5, k))


def test_the_change_of_cost_has_the_interval_of_a_bootstrap_which_is_always_the_same() -> None:
    draw = np.random.default_rng(2)
    first = draw.lognormal(0, 0.4, 60)
    second = first * 0.7 * draw.lognormal(0, 0.1, 60)
    found = relative_change(first.tolist(), second.tolist())
    assert found is not None
    assert found == relative_change(first.tolist(), second.tolist())
    known = (
        scipy_stats()
        .bootstrap(
            (first, second),
            lambda one, other: other.sum() / one.sum() - 1,
            paired=True,
            vectorized=False,
            method="percentile",
            confidence_level=1 - 2 * float(scipy_stats().norm.cdf(scipy_stats().t.ppf(0.025, 59) * (60 / 59) ** 0.5)),
            rng=1,
            n_resamples=2000,
        )
        .confidence_interval
    )
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=0.01)
    assert relative_change([0.0, 0.0], [1.0, 2.0]) is None


def test_the_interval_of_a_mean_covers_it_also_for_few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    draw, covered, costs = np.random.default_rng(8), list[bool](), list[bool]()
    for share in (0.2, 0.5, 0.8) * 80:
        scores = statistics.mean(draw.beta(2 * share, 2 - 2 * share, 30).tolist())
        first = draw.lognormal(0, 0.5, 30)
        cost = relative_change(first.tolist(), (first * share * draw.lognormal(-0.045, 0.3, 30)).tolist())
        assert cost is not None
        covered.append(scores.low <= share <= scores.high)
        costs.append(cost.low <= share - 1 <= cost.high)
    assert 0.92 <= fmean(covered) <= 0.98
    assert 0.92 <= fmean(costs) <= 0.98


def test_kappa_is_agreement_beyond_chance() -> None:
    assert kappa([(True, True), (False, False)]) == 1
    assert kappa([(True, True), (True, False), (False, True), (False, False)]) == 0
    assert kappa([(True, True)]) is None


def test_of_many_cases_a_mean_is_normal_and_close_to_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(6)
    first = draw.lognormal(0, 0.5, 1100).tolist()
    second = (np.array(first) * draw.lognormal(-0.3, 0.2, 1100)).tolist()
    many = relative_change(first, second), statistics.mean(first)
    monkeypatch.setattr(statistics, "MOST_RESAMPLED", 2000)
    for one, other in zip(many, (relative_change(first, second), statistics.mean(first)), strict=True):
        assert one is not None
        assert other is not None
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=0.01)
