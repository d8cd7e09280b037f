"""Diagnostics of a schedule: the length of its critical path, and its parallelism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teamwright.strategies.plan.schedule.schedule import Schedule
from teamwright.values.gc_pause import collection_paused
from teamwright.values.models import Record
from teamwright.values.specs.plan import Plan


class Diagnostics(Record, frozen=True):
    """Figures of a schedule. The critical path is counted in steps, and a lock once for each batch that holds it."""

    task_count: int
    batch_count: int
    edge_count: int
    critical_path_len: int
    critical_path: tuple[str, ...]
    max_parallelism: int
    mean_parallelism: float
    efficiency: float
    lock_count: int


@collection_paused()
def diagnose(schedule: Schedule, plan: Plan) -> Diagnostics:
    """Compute the figures of a valid schedule of this plan."""
    needs = {step.id: step.needs for step in plan.steps}
    path = critical_path(schedule.order, needs)
    widest = max(len(batch.tasks) for batch in schedule.batches)
    mean = len(needs) / len(schedule.batches)
    return Diagnostics(
        task_count=len(needs),
        batch_count=len(schedule.batches),
        edge_count=sum(map(len, needs.values())),
        critical_path_len=len(path),
        critical_path=path,
        max_parallelism=widest,
        mean_parallelism=round(mean, 4),
        efficiency=round(mean / widest, 4),
        lock_count=sum(len(batch.locks) for batch in schedule.batches),
    )


def critical_path(order: Sequence[str], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the longest chain of dependent steps; of several, the one whose last step comes first in the order."""
    length: dict[str, int] = {}
    before: dict[str, str] = {}
    for id_ in order:
        longest = 0
        for need in needs[id_]:
            so_far = length[need]
            if so_far > longest:
                longest, before[id_] = so_far, need
        length[id_] = longest + 1
    path = [max(order, key=length.__getitem__)]
    while path[-1] in before:
        path.append(before[path[-1]])
    return tuple(reversed(path))
