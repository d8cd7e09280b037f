"""What the steps of a plan gave, as other steps, conditions and the answer read it; the state of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

from msgspec.structs import replace
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.agent import Agent, Context
from teamwright.errors import ExpressionFailed
from teamwright.strategies.expressions import Template
from teamwright.strategies.part_results import FailurePolicy, PartResults, result_of
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import StepGraph
from teamwright.strategies.plan.steps.step_work import (
    NOTHING_FOUND,
    Crew,
    FinalState,
    StepAssignment,
    StepExecution,
    StepMachine,
    StepState,
    team_state,
)
from teamwright.strategies.protocol import Task
from teamwright.strategies.team_conversation import OWN_REASONS, is_unaffordable
from teamwright.values.events.team import TeamStepCompleted
from teamwright.values.retries import FUTILE
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome, StopReason
from teamwright.values.turns.turn import Failure, Reply, Turn

FAILED = "This step failed: there is no result of it."


class StepInput(NamedTuple):
    """The input of a step: its position, its own task if it has one, and the results of the steps it needs.

    `output` renders those results as one text; None if the step needs no other.
    """

    step: Step
    number: int
    own_task: str | None
    inputs: Sequence[Message]
    output: Callable[[], str] | None


class StepOutputs:
    """The results of the steps so far, by the plan that they belong to.

    `closing` is the step that gives the answer, if there is one. Where the budget did not cover the steps that it
    needs, it works with the results before them.
    """

    def __init__(
        self,
        task: Task,
        policy: FailurePolicy,
        results: PartResults,
        variables: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._task, self._policy, self.results, self.plan_variables = task, policy, results, variables or {}
        self.variables_at: dict[str, Mapping[str, JsonValue]] = {}
        """The variables of the plan when each step started."""
        self.graph = StepGraph.from_nodes(())
        self.closing: str | None = None

    def begin(self, step: Step) -> None:
        """Keep the variables for all turns of a step that starts now: a later change is for steps that start then."""
        self.variables_at[step.id] = self.plan_variables

    def belong_to(self, graph: StepGraph, closing: str | None) -> None:
        """Read the results by this plan from now on."""
        self.graph, self.closing = graph, closing

    def input_of(self, step: Step, number: int) -> StepInput:
        """Return what a step works with, at this position of the plan."""
        inputs = [self.message_of(need) for need in self.visible_needs(step)]
        output = partial(self._joined_output, step) if step.needs else None
        return StepInput(step, number, self.own_task(step), inputs, output)

    def message_of(self, step: str) -> Message:
        """Return the result of a step as a message under its id; for a failed step, only that it failed."""
        reply = self.results.replies.get(step)
        if reply is None:
            return Message(name=step, content=FAILED, role="user")
        return as_message(step, reply)

    def answer_data(self, answer: str | None) -> JsonValue:
        """Return the data of the answer step; if several steps are final, the result of each by id."""
        replies, final_steps = self.results.replies, self.final_steps
        if answer in replies:
            return replies[answer].full.data
        if len(final_steps) == 1:
            return replies[final_steps[0]].full.data
        return {step: result_of(replies[step]) for step in final_steps} or None

    @property
    def final_steps(self) -> list[str]:
        """The steps with a result that no other step with a result depends on."""
        replies, dependents = self.results.replies, self.graph.dependents
        return [step for step in self.graph.order if step in replies and replies.keys().isdisjoint(dependents[step])]

    @property
    def has_closed(self) -> bool:
        """Whether the closing step has a result, so that steps that the budget did not cover do not fail the team."""
        return self.closing in self.results.replies

    def own_task(self, step: Step, text: str | None = None) -> str | None:
        """Return the task of the step itself, or of a part, if it has one that can be rendered from the results."""
        if (text := step.task if text is None else text) is None:
            return None
        try:
            return Template(text).render(self.variables(step))
        except ExpressionFailed:
            if self.closes_early(step):
                return None
            raise

    def closes_early(self, step: Step) -> bool:
        """Return whether this step closes the work, because the budget did not cover a step before it."""
        failures = self.results.failures.values()
        return step.id == self.closing and bool(failures) and all(map(is_unaffordable, failures))

    def visible_needs(self, step: Step) -> Sequence[str]:
        """Return the needs that the step sees: those with a result and, with `collect`, those that failed.

        A step that closes early sees the nearest results before it.
        """
        replies, failures = self.results.replies, self.results.failures
        if not failures:
            return [need for need in step.needs if need in replies]
        needs = self._nearest_results(step) if self.closes_early(step) else step.needs
        collects = self._policy.on_failure == "collect"
        return [need for need in needs if need in replies or (collects and need in failures)]

    def _nearest_results(self, step: Step) -> Iterator[str]:
        """Yield the needs with a result and, for each without one, the nearest results before it; each once."""
        seen, waiting = set[str](), deque(step.needs)
        while waiting:
            need = waiting.popleft()
            if need in seen:
                continue
            seen.add(need)
            if need in self.results.replies:
                yield need
            else:
                waiting.extend(self.graph.needs[need])

    def _joined_output(self, step: Step) -> str:
        """Return the results of the needed steps as a task: the text of the only one, or a JSON object of several."""
        replies, visible = self.results.replies, self.visible_needs(step)
        if len(step.needs) == 1 == len(visible):
            return self.message_of(visible[0]).content
        found = {need: result_of(replies[need]) if need in replies else None for need in visible}
        return to_json(found).decode()

    def variables(self, step: Step, *, full: bool = False) -> Mapping[str, JsonValue]:
        """Return the variables of templates; with `full`, those of conditions, which read replies in full."""
        replies = {need: self.results.replies[need] for need in step.needs if need in self.results.replies}
        if full:
            replies = {need: reply.full for need, reply in replies.items()}
        return {
            "task": self._task.text,
            "outputs": {need: reply.text for need, reply in replies.items()},
            "data": {need: reply.data for need, reply in replies.items() if reply.data is not None},
            "failed": [need for need in step.needs if need in self.results.failures],
            "variables": dict(self.variables_at.get(step.id, self.plan_variables)),
        }

    def task_text(self, step: Step) -> str | None:
        """Return the own task of a step as it is now, also where it can't be rendered; None if it has none."""
        try:
            return self.own_task(step)
        except ExpressionFailed:
            return step.task


def as_message(name: str, reply: Reply) -> Message:
    """Return a reply as a message under another name; one with an envelope stays one."""
    return Message(name=name, content=reply.text) if reply.whole is None else reply.messages[-1].changed(name=name)


NOTHING = f"If there is nothing to report, answer with exactly: {NOTHING_FOUND}."


class StepBoard:
    """The steps in plan order. `results` are their replies and failures."""

    def __init__(self, results: PartResults, options: PlanOptions, crew: Crew) -> None:
        self.results, self._options, self._crew = results, options, crew
        self.executions: dict[str, StepExecution] = {}
        self.warnings: list[str] = []
        """Failures that no other plan makes good: the settings of a member are wrong."""
        self._replaced: set[str] = set()
        self._machines: dict[str, StepMachine] = {}

    def keep(self, steps: Sequence[Step]) -> None:
        """Continue with the steps of this plan; steps that are no part of it any more and never began are forgotten."""
        ids = {step.id for step in steps} | self._replaced | self.executions.keys()
        self._machines = {id_: machine for id_, machine in self._machines.items() if id_ in ids}
        for step in steps:
            if step.id not in self._machines:
                self._machines[step.id] = machine = StepMachine()
                machine.move("planning")

    @property
    def lost(self) -> list[str]:
        """The steps that failed and wait for another plan, in plan order."""
        return [id_ for id_ in self._machines if id_ in self.executions and self.executions[id_].awaits == "plan"]

    def state(self, step: str) -> StepState:
        """Return the state of a step."""
        return self._machines[step].state

    async def work(self, assignment: StepAssignment, ctx: Context, agent: Agent, turn: Turn) -> Reply | Failure:
        """Let an agent work on a step; a failure that ends the team stops all others."""
        id_ = assignment.step.id
        execution = self.executions.get(id_)
        if execution is None:
            execution = self.executions[id_] = StepExecution(assignment, agent, self._machines[id_], self._crew)
        ending = await execution.run(assignment, agent, turn, ctx)
        if execution.aborts_team:
            self.results.is_over = True
        return ending

    async def replace_lost(self, ctx: Context) -> None:
        """End the steps that failed and are no part of the new plan: they are no loss."""
        for id_ in self.lost:
            failure = self.results.failures.pop(id_)
            if failure.error in FUTILE:
                text = f"{failure.member!r} failed at the step {id_!r} ({failure.error}: {failure.message})"
                self.warnings.append(f"{text}; the work was planned again")
            await self.executions[id_].replace(ctx)
            self._replaced.add(id_)

    async def give_up(self, id_: str, ctx: Context) -> Failure:
        """End a step that waits in vain, and return its failure."""
        execution = self.executions[id_]
        failure = self.results.failures[id_] = await execution.give_up(ctx)
        self.results.is_over |= execution.aborts_team
        return failure

    async def settle(self, ctx: Context, *, timed_out: bool) -> None:
        """Move steps that did not end to their final state, and record those that had begun."""
        stopped: FinalState = "timeout" if timed_out else "cancelled"
        for step, machine in self._machines.items():
            if machine.is_final:
                continue
            has_begun = machine.state != "planning"
            # A step fails while it is planned if its condition or its task can't be evaluated.
            state = "failed" if step in self.results.failures and not timed_out else stopped
            machine.move(state)
            if has_begun:
                member = self.executions[step].agent.name
                await ctx.emit(TeamStepCompleted(step=step, member=member, state=state))

    def with_status(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the state of the team, which follows from the states of its steps.

        Where the team continued without a step, or one agent finished the task, what failed is not the team's failure.
        """
        failure = outcome.failure
        if failure is not None:
            status = "timeout" if failure.error == "deadline" else "degraded" if failure.error == "budget" else "failed"
            reason = cast("StopReason", failure.error if failure.error in OWN_REASONS else "error")
            return outcome.changed(status=status, stop_reason=reason, data=self._report())
        states: list[StepState] = [one.state for step, one in self._machines.items() if step not in self._replaced]
        is_whole = outcome.stop_reason == "terminated" or not (outcome.warnings or team_state(states) == "degraded")
        return outcome.changed(status="completed" if is_whole else "degraded")

    def timeout_failure(self) -> Failure:
        """Return the failure of a team whose time is used up."""
        ended = sum(machine.state in ("completed", "degraded") for machine in self._machines.values())
        text = self._options.out_of_time(f", with {ended} of {len(self._machines)} steps done")
        return Failure(member="", error="deadline", message=text)

    def _report(self) -> JsonValue:
        """Return what became of each step, in plan order."""
        replies = self.results.replies
        return [
            {
                "step": step,
                "member": self.executions[step].agent.name if step in self.executions else None,
                "state": machine.state,
                "output": result_of(replies[step]) if step in replies else None,
            }
            for step, machine in self._machines.items()
        ]


def with_role(turn: Turn, assignment: StepAssignment) -> Turn:
    """Return the turn of a step with what its role says before the task, and the tools that the role allows."""
    preface = [
        text for text in (assignment.role.instructions, NOTHING if assignment.step.nothing_found else "") if text
    ]
    if not preface and assignment.role.tools is None:
        return turn
    return replace(turn, task="\n\n".join((*preface, turn.task)), tools=assignment.role.tools)
