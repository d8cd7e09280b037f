"""What workers are told of a schedule: an envelope for each batch, and about how many tokens such envelopes take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from teamwright.planning.schedule.schedule import Schedule, ScheduleBatch, locks_of
from teamwright.values.gc_pause import collection_paused
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, RiskLevel, envelope_tokens

PLANNER, WORKERS = "planner", "workers"
NEXT_ACTION = "start-batch"
USUAL = EnvelopeLimits.model_construct()


@collection_paused()
def batch_handoffs(run_id: str, schedule: Schedule, plan: Plan, policy: EnvelopeLimits = USUAL) -> tuple[Envelope, ...]:
    """The envelopes from the planner to the workers, in the order of the batches.

    A batch with more tasks than an envelope may have pointers makes several, so that none is lost.
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
    """What envelopes call a batch."""
    return f"batch-{index}"


def batch_risk(batch: ScheduleBatch) -> RiskLevel:
    """How much hangs on a batch, by its size."""
    if len(batch.tasks) > 3 or batch.tokens > 12_000:
        return "high"
    return "medium" if len(batch.tasks) > 1 or batch.tokens > 4_000 else "low"


def handoff_tokens(envelopes: Iterable[Envelope]) -> int:
    """About how many tokens these envelopes take together."""
    return sum(map(envelope_tokens, envelopes))


def _parts(tasks: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(tasks), most):
        yield tasks[start : start + most]


def _summary(title: str, tasks: Sequence[str], locks: Sequence[str], tokens: int) -> str:
    """The tasks stand last: where the summary is cut, the pointers still name them."""
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
