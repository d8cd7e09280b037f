"""The envelopes that announce the batches of a schedule to workers, and their approximate size in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from teamwright.strategies.plan.schedule.schedule import Schedule, ScheduleBatch, locks_of
from teamwright.values.gc_pause import collection_paused
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, RiskLevel, envelope_tokens

PLANNER, WORKERS = "planner", "workers"
NEXT_ACTION = "start-batch"
USUAL = EnvelopeLimits.model_construct()


@collection_paused()
def batch_envelopes(
    run_id: str, schedule: Schedule, plan: Plan, policy: EnvelopeLimits = USUAL
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
