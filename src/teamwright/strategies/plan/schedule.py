"""The graph of a plan's steps, and the schedule that is made of it: its order, batches and allotments. Pure.

A schedule serves estimates, display and envelopes; at run time a step waits only for its own needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from teamwright.collector_pauses import collection_paused
from teamwright.errors import nearest
from teamwright.values.owned_paths import WILD, Overlaps
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import name_text
from teamwright.values.turns.messages import Envelope, EnvelopeLimits, RiskLevel, envelope_tokens
from teamwright.values.value import Record

MOST_SUGGESTIONS = 20
"""How many unknown needs get a suggestion: each compares all ids, and more mistakes usually have one cause."""

MOST_SHOWN = 10
"""How many steps of a cycle a message lists."""


class StepNode(NamedTuple):
    """A node of the graph: the id of a step, and the ids of the steps it needs."""

    id: str
    needs: Sequence[str] = ()


class Fault(NamedTuple):
    """A mistake in a graph: the message, the index of the step, and the index of the need if it concerns one."""

    text: str
    step: int
    need: int | None = None


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Dependencies between steps, by id, in both directions.

    `order` is topological: steps without needs in alphabetical order, then each step right after the last of its needs,
    and steps that become ready together in the order of declaration. Steps in or after a cycle are omitted.
    """

    needs: Mapping[str, Sequence[str]]
    dependents: Mapping[str, Sequence[str]]
    order: Sequence[str]

    @classmethod
    def from_nodes(cls, nodes: Sequence[StepNode]) -> StepGraph:
        """Build the graph of these nodes; of two nodes with one id the first counts, and unknown needs are ignored."""
        declared: dict[str, Sequence[str]] = {}
        for node in nodes:
            declared.setdefault(node.id, node.needs)
        needs = {id_: _known(own, declared) for id_, own in declared.items()}
        dependents: dict[str, list[str]] = {id_: [] for id_ in needs}
        for id_, own in needs.items():
            for need in own:
                dependents[need].append(id_)
        return cls(needs, dependents, _order(needs, dependents))


def _known(needs: Sequence[str], declared: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Remove unknown and duplicate needs; nearly always there are none, and the sequence is returned unchanged."""
    once = dict.fromkeys(needs)
    if len(once) == len(needs) and once.keys() <= declared.keys():
        return needs
    return tuple(one for one in once if one in declared)


def graph_faults(nodes: Sequence[StepNode]) -> list[Fault]:
    """Return every mistake that keeps the steps from being an acyclic graph."""
    first: dict[str, int] = {}
    found: list[Fault] = []
    for index, node in enumerate(nodes):
        if not node.id:
            found.append(Fault(f"step {index + 1} has no id", index))
        elif first.setdefault(node.id, index) != index:
            found.append(Fault(f"two steps are called {name_text(node.id)}; give one of them another id", index))
    found += _bad_needs(nodes, first)
    return found + [
        Fault(_cycle_text(cycle), first[cycle[0]]) for cycle in cycles(StepGraph.from_nodes(nodes)) if len(cycle) > 1
    ]


def _bad_needs(nodes: Sequence[StepNode], known: Mapping[str, int]) -> Iterator[Fault]:
    suggestions = 0
    for index, node in enumerate(nodes):
        seen: set[str] = set()
        step = name_text(node.id)
        for place, need in enumerate(node.needs):
            if need == node.id:
                yield Fault(f"the step {step} needs itself", index, place)
            elif need not in known:
                suggestions += 1
                hint = f"; {nearest(need, known)}" if suggestions <= MOST_SUGGESTIONS else ""
                yield Fault(f"the step {step} needs {name_text(need)}, which is no step{hint}", index, place)
            elif need in seen:
                yield Fault(f"the step {step} needs {name_text(need)} twice", index, place)
            seen.add(need)


def cycles(graph: StepGraph) -> Iterator[Sequence[str]]:
    """Yield cycles, each once, as their steps: every step needs the next, and the last needs the first.

    If cycles share steps, at least one of them is found.
    """
    placed = set(graph.order)
    unplaced_need = {
        id_: next(need for need in own if need not in placed) for id_, own in graph.needs.items() if id_ not in placed
    }
    seen: set[str] = set()
    for start in unplaced_need:
        path: dict[str, int] = {}
        step = start
        while step not in seen:
            seen.add(step)
            path[step] = len(path)
            step = unplaced_need[step]
        if step in path:
            yield tuple(islice(path, path[step], None))


def _order(needs: Mapping[str, Sequence[str]], dependents: Mapping[str, Sequence[str]]) -> list[str]:
    unmet = {id_: len(own) for id_, own in needs.items()}
    order = sorted(id_ for id_, count in unmet.items() if not count)
    for id_ in order:  # grows during the iteration
        for dependent in dependents[id_]:
            unmet[dependent] = remaining = unmet[dependent] - 1
            if not remaining:
                order.append(dependent)
    return order


def _cycle_text(cycle: Sequence[str]) -> str:
    shown = [repr(step) for step in cycle[:MOST_SHOWN]]
    if len(cycle) > MOST_SHOWN:
        shown.append(f"… ({len(cycle)} steps)")
    path = " needs ".join([*shown, repr(cycle[0])])
    return f"steps need each other in a circle: {path}; remove one of these needs"


def critical_path_lengths(graph: StepGraph, steps: Iterable[Step]) -> dict[str, int]:
    """Return for each step the length of the critical path from it to the end of the plan, itself included.

    Lengths are sums of token estimates; a step without an estimate counts as 1.
    """
    estimate = {step.id: step.execution_tokens or 1 for step in steps}
    length: dict[str, int] = {}
    for id_ in reversed(graph.order):
        length[id_] = estimate[id_] + max((length[dependent] for dependent in graph.dependents[id_]), default=0)
    return length


MISSING = (-1, -1)
"""The position of a task that another check reports as missing."""

UNTIDY = ("//", "./", "/\n")
"""Redundant parts of a path, in a text with one path per line."""

PLANNER, WORKERS = "planner", "workers"

NEXT_ACTION = "start-batch"

DEFAULT_LIMITS = EnvelopeLimits.model_construct()


class ScheduleBatch(Record, frozen=True):
    """Tasks that can run concurrently, the keys they own, and the tokens allotted to them."""

    index: int
    tasks: tuple[str, ...]
    locks: tuple[str, ...]
    tokens: int


class Allotment(Record, frozen=True):
    """The tokens allotted to one task for execution and for coordination."""

    task: str
    execution: int
    coordination: int

    @property
    def tokens(self) -> int:
        """The sum of both."""
        return self.execution + self.coordination


class Schedule(Record, frozen=True):
    """A scheduled plan; `budgets` are in the order of the plan."""

    order: tuple[str, ...]
    batches: tuple[ScheduleBatch, ...]
    budgets: tuple[Allotment, ...]
    total_tokens: int


def locks_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """All keys that these steps own, in alphabetical order."""
    return tuple(sorted({key for step in steps for key in step.owns}))


@collection_paused()
def validate_schedule(schedule: Schedule, plan: Plan) -> list[str]:
    """Return messages for all differences between a schedule and its plan."""
    steps = {step.id: step for step in plan.steps}
    batched = [task for batch in schedule.batches for task in batch.tasks]
    return [
        *_miscounted(schedule.order, steps, "the order"),
        *_miscounted(batched, steps, "the batches"),
        *_miscounted([budget.task for budget in schedule.budgets], steps, "the budgets"),
        *_out_of_order(schedule, steps),
        *_bad_batches(schedule, steps),
        *_bad_tokens(schedule, steps),
    ]


def _miscounted(tasks: Sequence[str], steps: Mapping[str, Step], where: str) -> Iterator[str]:
    """Report unknown, duplicate and missing tasks."""
    if len(tasks) == len(steps) and set(steps) == set(tasks):
        return
    seen: set[str] = set()
    for task in tasks:
        if task not in steps:
            yield f"{where} has {task!r}, which is no step of the plan"
        elif task in seen:
            yield f"{where} has {task!r} twice"
        seen.add(task)
    yield from (f"{where} lacks {id_!r}" for id_ in steps if id_ not in seen)


def _out_of_order(schedule: Schedule, steps: Mapping[str, Step]) -> Iterator[str]:
    """Report tasks that do not come after the steps they need."""
    index = {task: number for number, task in enumerate(schedule.order)}
    positions = {
        task: (index[task], number)
        for number, batch in enumerate(schedule.batches)
        for task in batch.tasks
        if task in index
    }
    for task, (own_index, own_batch) in positions.items():
        for need in steps[task].needs if task in steps else ():
            need_index, need_batch = positions.get(need, MISSING)
            if need_index >= own_index:
                yield f"the order has {task!r} before {need!r}, which it needs"
            if need_batch >= own_batch:
                yield f"batch {own_batch} has {task!r}, which needs {need!r} of batch {need_batch}"


def _bad_batches(schedule: Schedule, steps: Mapping[str, Step]) -> Iterator[str]:
    """Report wrong batch numbers, keys that two tasks of one batch own, and wrong locks."""
    for number, batch in enumerate(schedule.batches):
        if batch.index != number:
            yield f"batch {number} says that it is batch {batch.index}"
        owner: dict[str, str] = {}
        known = [steps[task] for task in batch.tasks if task in steps]
        for step in known:
            for key in step.owns:
                if owner.setdefault(key, step.id) != step.id:
                    yield f"in batch {number} both {owner[key]!r} and {step.id!r} own {key!r}"
        if batch.locks != (expected := locks_of(known)):
            yield f"batch {number} locks {list(batch.locks)!r}, and its tasks own {list(expected)!r}"


def _bad_tokens(schedule: Schedule, steps: Mapping[str, Step]) -> Iterator[str]:
    """Report sums that do not match their parts, and changed estimates."""
    allotted: dict[str, int] = {}
    for budget in schedule.budgets:
        allotted.setdefault(budget.task, budget.tokens)
        step = steps.get(budget.task)
        if step is not None and budget.execution != step.execution_tokens:
            expected = step.execution_tokens
            yield f"{budget.task!r} is allotted {budget.execution} tokens for its work, and its estimate is {expected}"
        if budget.coordination < 0:
            yield f"{budget.task!r} is allotted {budget.coordination} tokens for coordination"
    for number, batch in enumerate(schedule.batches):
        expected = sum(allotted.get(task, 0) for task in batch.tasks)
        if batch.tokens != expected:
            yield f"batch {number} has {batch.tokens} tokens, and its tasks are allotted {expected}"
    total = sum(batch.tokens for batch in schedule.batches)
    if schedule.total_tokens != total:
        yield f"the schedule has {schedule.total_tokens} tokens, and its batches {total}"


def allot(steps: Sequence[Step], run_budget: int | None, floor: int) -> tuple[Allotment, ...]:
    """Return the tokens for each step, in the order of the steps.

    Each step's request for coordination is raised to the floor. If the requests exceed the budget, every step gets the
    floor and a share of the rest in proportion to its request above the floor, never more than it requested; if not
    even the floors fit, all steps get the same; if execution alone uses up the budget, coordination gets nothing.
    """
    requested = [max(step.coordination_tokens, floor) for step in steps]
    if run_budget is not None:
        available = max(0, run_budget - sum(step.execution_tokens for step in steps))
        if sum(requested) > available:
            requested = _shared(requested, available, floor)
    return tuple(
        Allotment(task=step.id, execution=step.execution_tokens, coordination=coordination)
        for step, coordination in zip(steps, requested, strict=True)
    )


def _shared(requested: Sequence[int], available: int, floor: int) -> list[int]:
    """Divide exactly the available tokens, which are fewer than requested."""
    count = len(requested)
    if available <= floor * count:
        return _distribute_remainder([available // count] * count, requested, available)
    above = [one - floor for one in requested]
    rest, total = available - floor * count, sum(above)
    return _distribute_remainder([floor + rest * one // total for one in above], requested, available)


def _distribute_remainder(allotted: list[int], requested: Sequence[int], available: int) -> list[int]:
    """Distribute the remainder of the division, one token per step from the first; no step exceeds its request."""
    remainder = available - sum(allotted)
    for index, (tokens, most) in enumerate(zip(allotted, requested, strict=True)):
        if not remainder:
            break
        if tokens < most:
            allotted[index] += 1
            remainder -= 1
    return allotted


def conflict_keys(owns: Sequence[Collection[str]]) -> Sequence[Collection[str]]:
    """Return keys such that two steps share one exactly if keys that they own overlap."""
    known = set[str]().union(*owns)
    if _are_disjoint(known):
        return owns
    overlaps = Overlaps()
    for key in sorted(known):
        overlaps.overlapping(key)
    shared = {key: _pairwise_keys(key, overlaps) for key in known}
    return [set[str]().union(*[shared[key] for key in keys]) for keys in owns]


def _are_disjoint(keys: Set[str]) -> bool:
    """Whether the keys trivially do not overlap: no wildcards, and none is a path below another."""
    text = "\n".join((*keys, ""))
    if any(sign in text for sign in (*WILD, *UNTIDY)):
        return False
    for key in keys:
        end = key.rfind("/")
        while end >= 0:
            if key[:end] in keys:
                return False
            end = key.rfind("/", 0, end)
    return True


def _pairwise_keys(key: str, overlaps: Overlaps) -> list[str]:
    """Return the key itself, and for each key that overlaps it one that only these two share."""
    return [key if other == key else "\0".join(sorted((key, other))) for other in overlaps.overlapping(key)]


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


@collection_paused()
def batch_envelopes(
    run_id: str, schedule: Schedule, plan: Plan, policy: EnvelopeLimits = DEFAULT_LIMITS
) -> tuple[Envelope, ...]:
    """Return the envelopes from the planner to the workers, in the order of the batches.

    A batch with more tasks than an envelope may have pointers is split into several envelopes.
    """
    steps = {step.id: step for step in plan.steps}
    tokens = {budget.task: budget.tokens for budget in schedule.budgets}
    found: list[Envelope] = []
    for batch in schedule.batches:
        parts = list(_parts(batch.tasks, policy.max_artifacts))
        for number, tasks in enumerate(parts, start=1):
            title = f"Batch {batch.index}" + (f", part {number} of {len(parts)}" if len(parts) > 1 else "")
            locks = locks_of(steps[task] for task in tasks)
            spent = sum(tokens[task] for task in tasks)
            found.append(policy.compact(_envelope(run_id, batch, tasks, _summary(title, tasks, locks, spent))))
    return tuple(found)


def batch_name(index: int) -> str:
    """The name of a batch in envelopes."""
    return f"batch-{index}"


def batch_risk(batch: ScheduleBatch) -> RiskLevel:
    """The risk level of a batch, by its size."""
    if len(batch.tasks) > 3 or batch.tokens > 12_000:
        return "high"
    return "medium" if len(batch.tasks) > 1 or batch.tokens > 4_000 else "low"


def envelopes_tokens(envelopes: Iterable[Envelope]) -> int:
    """The approximate number of tokens of all these envelopes."""
    return sum(map(envelope_tokens, envelopes))


def _parts(tasks: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(tasks), most):
        yield tasks[start : start + most]


def _summary(title: str, tasks: Sequence[str], locks: Sequence[str], tokens: int) -> str:
    """Summarize a batch, with the tasks last: if the summary is cut, the pointers still name them."""
    locked = f"locks {', '.join(locks)}" if locks else "no locks"
    return f"{title}: {tokens} tokens; {locked}; tasks {', '.join(tasks)}."


def _envelope(run_id: str, batch: ScheduleBatch, tasks: Sequence[str], summary: str) -> Envelope:
    return Envelope(
        run_id=run_id,
        task_id=batch_name(batch.index),
        sender=PLANNER,
        recipient=WORKERS,
        status="queued",
        confidence=100,
        risk_level=batch_risk(batch),
        summary=summary,
        artifacts=tuple(f"task://{task}" for task in tasks),
        needs=(batch_name(batch.index - 1),) if batch.index else (),
        next_action=NEXT_ACTION,
    )
