"""A schedule: a plan in topological order, in batches without conflicting keys, with tokens allotted.

Batches serve estimates, display and handoffs; at run time they are not barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from teamwright.values.gc_pause import collection_paused
from teamwright.values.models import Record
from teamwright.values.specs.plan import Plan, Step

MISSING = (-1, -1)
"""The position of a task that another check reports as missing."""


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
