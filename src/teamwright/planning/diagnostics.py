"""What a schedule comes to in figures: how long its longest chain is, and how much of its width it uses."""

from __future__ import annotations

from teamwright.planning.graph import Graph
from teamwright.planning.planner import nodes_of
from teamwright.planning.schedule import Schedule
from teamwright.values.frozen import Record
from teamwright.values.plan import Plan


class Diagnostics(Record, frozen=True):
    """Figures of a schedule. The critical path is counted in steps, and locks as often as a batch takes them."""

    task_count: int
    batch_count: int
    edge_count: int
    critical_path_len: int
    critical_path: tuple[str, ...]
    max_parallelism: int
    mean_parallelism: float
    efficiency: float
    lock_count: int


def diagnose(schedule: Schedule, plan: Plan) -> Diagnostics:
    """The figures of a schedule of this plan."""
    graph = Graph.of(nodes_of(plan.steps))
    path = critical_path(graph)
    widest = max(len(batch.tasks) for batch in schedule.batches)
    mean = len(plan.steps) / len(schedule.batches)
    return Diagnostics(
        task_count=len(plan.steps),
        batch_count=len(schedule.batches),
        edge_count=sum(map(len, graph.needs.values())),
        critical_path_len=len(path),
        critical_path=path,
        max_parallelism=widest,
        mean_parallelism=round(mean, 4),
        efficiency=round(mean / widest, 4),
        lock_count=sum(len(batch.locks) for batch in schedule.batches),
    )


def critical_path(graph: Graph) -> tuple[str, ...]:
    """The longest chain of steps that need each other, the first one found in the order of the graph."""
    length: dict[str, int] = {}
    before: dict[str, str] = {}
    for id_ in graph.order:
        longest = 0
        for need in graph.needs[id_]:
            if length[need] > longest:
                longest, before[id_] = length[need], need
        length[id_] = longest + 1
    path = [max(graph.order, key=length.__getitem__)]
    while path[-1] in before:
        path.append(before[path[-1]])
    return tuple(reversed(path))
