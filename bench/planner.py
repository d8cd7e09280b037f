"""Measures planning: order, batches, budgets, validation and diagnostics."""

import random
import time
from collections.abc import Callable, Mapping

from bench.workload import WrongAnswer
from teamwright.strategies.plan.schedule import diagnose, validate_schedule
from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.values.specs.plan import Plan, Step

WIDTH, WIDE = 8, 100
BACK = (1, 7, 20, 33, 50)
KEYS_EACH = 3


def seconds(shape: str, size: int) -> float:
    """Return the time from a plan to a validated and diagnosed schedule."""
    make, width = PLANS[shape]
    plan = make(size)
    settings = PlannerSettings(max_parallel=width, run_budget=110 * size)
    started = time.perf_counter()
    schedule = make_schedule(plan, settings)
    problems = validate_schedule(schedule, plan)
    figures = diagnose(schedule, plan)
    elapsed = time.perf_counter() - started
    if problems or figures.task_count != size:
        raise WrongAnswer(f"the schedule of {size} steps is wrong: {problems[:3]}")
    return elapsed


def _five_needs(size: int) -> Plan:
    """Each step needs five of the steps shortly before it, and shares an owned file with a few others."""
    return Plan(
        steps=tuple(
            _step(number, [number - back for back in BACK if back <= number], (f"file-{number % (size // 4)}",))
            for number in range(size)
        )
    )


def _one_key(size: int) -> Plan:
    """Independent steps that all own the same key."""
    return Plan(steps=tuple(_step(number, [], ("everything",)) for number in range(size)))


def _three_of(keys: int) -> Callable[[int], Plan]:
    """Independent steps, each of which owns three random keys of a few, so that most conflict."""

    def make(size: int) -> Plan:
        chance = random.Random(7)
        names = [f"file-{number}" for number in range(keys)]
        return Plan(steps=tuple(_step(number, [], tuple(chance.sample(names, KEYS_EACH))) for number in range(size)))

    return make


def _step(number: int, needs: list[int], owns: tuple[str, ...]) -> Step:
    return Step(
        id=f"s{number}",
        needs=tuple(f"s{need}" for need in needs),
        owns=owns,
        execution_tokens=100,
        coordination_tokens=20,
    )


PLANS: Mapping[str, tuple[Callable[[int], Plan], int]] = {
    "five needs each": (_five_needs, WIDTH),
    "one key for all": (_one_key, WIDTH),
    "three of 50 keys each": (_three_of(50), WIDE),
    "three of 300 keys each": (_three_of(300), WIDE),
}
