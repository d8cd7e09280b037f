"""How long Teamwright takes to plan: order, batches, budgets, the check of the schedule and its figures."""

import time
from collections.abc import Callable, Mapping

from bench.workload import WrongAnswer
from teamwright.planning.diagnostics import diagnose
from teamwright.planning.planner import PlannerSettings, make_schedule
from teamwright.planning.schedule import validate_schedule
from teamwright.values.plan import Plan, Step

WIDTH = 8
BACK = (1, 7, 20, 33, 50)


def seconds(shape: str, size: int) -> float:
    """The time from a plan to a schedule that was checked and diagnosed."""
    plan = PLANS[shape](size)
    settings = PlannerSettings(max_parallel=WIDTH, run_budget=110 * size)
    started = time.perf_counter()
    schedule = make_schedule(plan, settings)
    problems = validate_schedule(schedule, plan)
    figures = diagnose(schedule, plan)
    elapsed = time.perf_counter() - started
    if problems or figures.task_count != size:
        raise WrongAnswer(f"the schedule of {size} steps is wrong: {problems[:3]}")
    return elapsed


def _five_needs(size: int) -> Plan:
    """Each step needs five of those shortly before it, and owns a file that a few others own too."""
    return Plan(
        steps=tuple(
            _step(number, needs=[number - back for back in BACK if back <= number], owns=f"file-{number % (size // 4)}")
            for number in range(size)
        )
    )


def _one_key(size: int) -> Plan:
    """Nobody needs anybody, and all own the same."""
    return Plan(steps=tuple(_step(number, needs=[], owns="everything") for number in range(size)))


def _step(number: int, needs: list[int], owns: str) -> Step:
    return Step(
        id=f"s{number}",
        needs=tuple(f"s{need}" for need in needs),
        owns=(owns,),
        execution_tokens=100,
        coordination_tokens=20,
    )


PLANS: Mapping[str, Callable[[int], Plan]] = {"five needs each": _five_needs, "one key for all": _one_key}
