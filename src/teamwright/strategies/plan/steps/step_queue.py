"""Which steps of a plan are ready, wait for keys, or are skipped.

A step waits for the steps it needs, for owned keys and for a free slot, and for nothing else: there are no waves. Among
ready steps, the one with the longest critical path starts first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from teamwright.strategies.expressions import Condition
from teamwright.strategies.plan.key_locks import Claim, LockTable
from teamwright.strategies.plan.schedule import StepGraph, critical_path_lengths
from teamwright.strategies.plan.schedule_maker import nodes_of
from teamwright.strategies.plan.steps.step_board import StepOutputs
from teamwright.values.specs.plan import Step, StepStatus

PRIORITY_WEIGHT = 1 << 40
"""How much one point of priority counts, in tokens of critical-path length; it outweighs any path."""


class Skip(NamedTuple):
    """Why a step is skipped, and because of which of its needs."""

    reason: Literal["condition", "needs", "failure"]
    because: Sequence[str] = ()


class StepQueue:
    """The steps of a plan that may change; `waiting` are those that start only after a decision.

    With `in_order` steps come in topological order, regardless of critical path; with `as_listed` in that of the plan.
    """

    def __init__(self, outputs: StepOutputs, *, in_order: bool, as_listed: bool) -> None:
        self._outputs, self._results = outputs, outputs.results
        self._in_order, self._as_listed = in_order or as_listed, as_listed
        self.skipped: set[str] = set()
        self._after_failure: set[str] = set()
        self.running: dict[str, Claim] = {}
        self.waiting: frozenset[str] = frozenset()
        self.goes_on = False
        """Whether a step starts also where none of its needs has a result: in the plan that no one wrote."""
        self.set_steps((), None)

    def set_steps(self, steps: Sequence[Step], closing: str | None) -> None:
        """Continue with these steps. They include all that have started; what has ended stays so."""
        ended = self.ended
        self.graph = graph = StepGraph.from_nodes(nodes_of(steps))
        self._outputs.belong_to(graph, closing)
        self.steps = {step.id: step for step in steps}
        self._results.required = [step.id for step in steps if step.required]
        self._unmet = {step.id: sum(need not in ended for need in step.needs) for step in steps}
        self._ready = deque(
            step for step in graph.order if not self._unmet[step] and step not in ended and step not in self.running
        )
        self._deferred: list[str] = []
        """Steps that are ready and left to a later call."""
        self.numbers = {step: number for number, step in enumerate(graph.order, start=1)}
        self._ranks = {step.id: place for place, step in enumerate(steps)} if self._as_listed else self.numbers
        self._path_lengths = critical_path_lengths(graph, steps)
        self.has_owned_keys = any(step.owns for step in steps)
        self.claims = LockTable()
        for name in [name for name in self.running if name in self.steps]:
            step = self.steps[name]
            self.running[name] = self.claims.hold(name, step.owns, self.priority(step), self._ranks[name])

    @property
    def ended(self) -> set[str]:
        """The steps that have a result, have failed, or were skipped."""
        return self._results.replies.keys() | self._results.failures.keys() | self.skipped

    @property
    def open(self) -> set[str]:
        """The steps that have not ended."""
        return self.steps.keys() - self.ended

    def recall(self) -> None:
        """Make the steps ready again that were left to a later call."""
        self._ready.extendleft(reversed(self._deferred))
        self._deferred.clear()

    def next_ready(self, only: Collection[str] | None) -> str | None:
        """Return the next step that is ready, of these alone; the others are left to a later call."""
        while self._ready:
            step = self._ready.popleft()
            if step not in self.waiting and (only is None or step in only):
                return step
            self._deferred.append(step)
        return None

    def claim(self, step: Step) -> None:
        """Let a step wait for its keys and a free slot."""
        self.claims.add(step.id, step.owns, self.priority(step), self._ranks[step.id])

    def release(self, step: str) -> None:
        """Release the keys of a step that has been worked on."""
        self.claims.release(self.running.pop(step))

    def settle(self, step: str) -> None:
        """Let those be ready that need nothing but settled steps, now that this one is settled."""
        for dependent in self.graph.dependents[step]:
            self._unmet[dependent] -= 1
            if not self._unmet[dependent] and dependent not in self.skipped:
                self._ready.append(dependent)

    def priority(self, step: Step) -> int:
        """Return the priority in the queue: the priority of the step first, then its critical-path length."""
        return 0 if self._in_order else step.priority * PRIORITY_WEIGHT + self._path_lengths[step.id]

    def statuses(self) -> dict[str, StepStatus]:
        """Return how far each step is that has started or was skipped."""
        found: dict[str, StepStatus] = {}
        for step, failure in self._results.failures.items():
            found[step] = "skipped" if failure.optional else "failed"
        found |= dict.fromkeys(self.skipped, "skipped")
        found |= dict.fromkeys(self.running, "in_progress")
        found |= dict.fromkeys(self._results.replies, "completed")
        return found

    def skip_reason(self, step: Step) -> Skip | None:
        """Return why to skip a step: a need failed, no need has a result, or the condition does not hold; else None."""
        broken: list[str] = []
        if self._results.failures or self._after_failure:
            broken = [need for need in step.needs if need in self._after_failure or self._results.is_fatal(need)]
        if broken and not self._outputs.closes_early(step):
            self._after_failure.add(step.id)
            return Skip("failure", broken)
        if step.needs and not self.goes_on and not self._outputs.visible_needs(step):
            return Skip("needs", step.needs)
        if step.when is not None and not Condition(step.when).holds(self._outputs.variables(step, full=True)):
            return Skip("condition")
        return None
