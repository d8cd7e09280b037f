"""The steps of a running team: who works on each, its state, and the state of the team at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace
from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.contract.retry import FUTILE
from teamwright.strategies.part_results import PartResults, result_of
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.steps.states import FinalState, StepMachine, StepState, team_state
from teamwright.strategies.plan.steps.step_work import NOTHING_FOUND, Crew, StepAssignment, StepExecution
from teamwright.strategies.team_conversation import OWN_REASONS
from teamwright.values.events.team import TeamStepCompleted
from teamwright.values.specs.plan import Step
from teamwright.values.turns.results import Outcome, StopReason
from teamwright.values.turns.turn import Failure, Reply, Turn

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

        Where the team continued without a step, or one agent finished the task, what failed is no failure of the team.
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
