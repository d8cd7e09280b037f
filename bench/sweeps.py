"""Measures a sweep of the lab: computed, and written as CSV."""

import time
from pathlib import Path

from bench.workload import WrongAnswer
from teamwright.lab import sweep

CELLS_PER_TASK = 3 * 4 * 2 * 3 * 4
"""All budgets, workloads, protocols, policies of degradation and topologies."""


def seconds(how: str, size: int, folder: Path) -> float:
    """Return the time of a sweep with about this many cells."""
    tasks = min(size // CELLS_PER_TASK, 50)
    tokens = size // CELLS_PER_TASK // tasks
    sweep()  # so that imports are not measured
    started = time.perf_counter()
    found = sweep(
        budgets="all",
        workloads="all",
        protocols="all",
        degradations="all",
        tasks=range(1, tasks + 1),
        avg_task_tokens=range(100, 100 + tokens),
    )
    if how == "computed and written as CSV":
        found.write_csv(folder / "cells.csv")
    elapsed = time.perf_counter() - started
    if not 0.8 * size <= len(found) <= size:
        raise WrongAnswer(f"the sweep has {len(found)} cells, and {size} were asked for")
    return elapsed
