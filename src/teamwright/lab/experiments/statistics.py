"""Statistics of experiments: rates, differences and costs with 95 % intervals, and how many cases would be needed.

Attempts at one case resemble each other, so a case counts as more than one observation only as far as its attempts
differ. Pure, and without randomness: a bootstrap always draws the same samples.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ceil, comb, sqrt
from statistics import NormalDist, fmean

from teamwright.values.value import Record

CONFIDENCE, POWER = 0.95, 0.8
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
Z_POWER = NormalDist().inv_cdf(POWER)
RESAMPLES, SEED, MOST_RESAMPLED = 2000, 20_011, 1000
"""Of more cases than this, a mean is as good as normal, and a bootstrap would take long."""
NOTABLE = 0.05
"""A difference of pass rates that is worth knowing: five points."""
Counts = Sequence[tuple[int, int]]
"""For each case, how many of its attempts passed, and how many there were."""


class Interval(Record, frozen=True):
    """An estimate, and the bounds of its 95 % interval."""

    value: float
    low: float
    high: float

    def rounded(self, digits: int = 4) -> Interval:
        """The same, rounded."""
        return Interval(round(self.value, digits), round(self.low, digits), round(self.high, digits))

    @property
    def holds_zero(self) -> bool:
        """Whether chance alone explains it."""
        return self.low <= 0 <= self.high


def pass_rate(counts: Counts) -> Interval:
    """The mean pass rate of cases with Wilson's interval, for as many observations as the attempts are worth."""
    rate = fmean(passed / tries for passed, tries in counts)
    return wilson(rate, _worth(counts))


def wilson(rate: float, observations: float) -> Interval:
    """Wilson's interval of a rate."""
    middle = (rate + Z * Z / (2 * observations)) / (1 + Z * Z / observations)
    spread = rate * (1 - rate) / observations + Z * Z / (4 * observations * observations)
    half = Z * sqrt(spread) / (1 + Z * Z / observations)
    return Interval(rate, 0.0 if rate == 0 else max(0.0, middle - half), 1.0 if rate == 1 else min(1.0, middle + half))


def _worth(counts: Counts) -> float:
    """How many independent observations the attempts are worth: from the number of cases to that of attempts."""
    cases, attempts = len(counts), sum(tries for _, tries in counts)
    rates = [passed / tries for passed, tries in counts]
    mean = fmean(rates)
    within = mean * (1 - mean)
    if cases < 2 or attempts == cases or within == 0:
        return float(cases)
    variance = sum((rate - mean) ** 2 for rate in rates) / (cases - 1)
    found = min(float(attempts), max(float(cases), within * cases / variance if variance else float(attempts)))
    return found * (Z / _student(cases - 1)) ** 2  # how alike attempts are is itself an estimate


def _student(freedom: int) -> float:
    """The quantile of Student's distribution that belongs to `Z`, by the expansion of Cornish and Fisher."""
    first, second = (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / freedom + second / freedom**2


def difference(first: Counts, second: Counts) -> Interval:
    """The second pass rate minus the first, over the same cases, with the interval of Bonett and Price.

    It is that of two cases more which differ, one each way: where all cases agree, that is no proof that all others do.
    """
    changes = [b / m - a / n for (a, n), (b, m) in zip(first, second, strict=True)]
    size = len(changes) + 2
    middle, squares = sum(changes) / size, sum(one * one for one in changes) + 2
    half = _student(size - 1) * sqrt((squares / size - middle * middle) / size)
    return Interval(fmean(changes), max(-1.0, middle - half), min(1.0, middle + half))


def cases_needed(first: Counts, second: Counts) -> int:
    """How many cases would show the difference, or one of five points if it is smaller, four times in five."""
    changes = [b / m - a / n for (a, n), (b, m) in zip(first, second, strict=True)]
    mean = fmean(changes)
    variance = (sum((one - mean) ** 2 for one in changes) + 1) / (len(changes) + 1)  # one more case that differs
    return ceil((Z + Z_POWER) ** 2 * variance / max(abs(mean), NOTABLE) ** 2)


def all_pass(counts: Counts, attempts: int) -> float:
    """pass^k: the chance that k attempts at a case all pass, without bias from how many were made."""
    return fmean(comb(passed, attempts) / comb(tries, attempts) for passed, tries in counts)


def any_passes(counts: Counts, attempts: int) -> float:
    """pass@k: the chance that at least one of k attempts at a case passes, without bias from how many were made."""
    return fmean(1 - comb(tries - passed, attempts) / comb(tries, attempts) for passed, tries in counts)


def relative_change(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """How much more the second costs than the first over the same cases, as a share; `None` if the first is free."""
    if not (total := sum(first)):
        return None
    if (size := len(first)) > MOST_RESAMPLED:
        ratio = sum(second) / total
        rests = [after - ratio * before for before, after in zip(first, second, strict=True)]
        return _normal(ratio - 1, _error(rests) * size / total)
    draw, places = random.Random(SEED), range(size)  # the same samples each time
    found: list[float] = []
    for _ in range(RESAMPLES):
        sample = draw.choices(places, k=size)
        if drawn := sum(first[place] for place in sample):
            found.append(sum(second[place] for place in sample) / drawn - 1)
    return _between(sum(second) / total - 1, found, size)


def mean(values: Sequence[float]) -> Interval:
    """A mean with the interval of a bootstrap over cases."""
    draw, size = random.Random(SEED), len(values)
    if size > MOST_RESAMPLED:
        return _normal(fmean(values), _error(values))
    return _between(fmean(values), [fmean(draw.choices(values, k=size)) for _ in range(RESAMPLES)], size)


def _between(value: float, resampled: list[float], size: int) -> Interval:
    """The interval of a bootstrap over so many cases, with Hesterberg's wider percentiles, as few cases need them."""
    tail = NormalDist().cdf(-_student(size - 1) * sqrt(size / (size - 1))) if size > 1 else 0.0
    resampled.sort()
    edge = int(len(resampled) * tail)
    return Interval(value, resampled[edge], resampled[-1 - edge])


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean."""
    middle = fmean(values)
    return sqrt(sum((one - middle) ** 2 for one in values) / (len(values) - 1) / len(values))


def _normal(value: float, error: float) -> Interval:
    return Interval(value, value - Z * error, value + Z * error)


def kappa(agreed: Sequence[tuple[bool, bool]]) -> float | None:
    """Cohen's kappa of two raters: 1 for full agreement, 0 for that of chance; `None` if both always say the same."""
    count = len(agreed)
    same = sum(one == other for one, other in agreed) / count
    first, second = (sum(pair[place] for pair in agreed) / count for place in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    return None if chance == 1 else (same - chance) / (1 - chance)
