"""The work on one step: asks under the failure ladder, evaluations under the risk profile, and its final state.

Every rung of the ladder is recorded. The text of a failure never reaches a member. Attempts add up and never multiply:
once the retry policy of an agent is used up in a step, each further rung makes one attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from msgspec.structs import replace

from teamwright.agents.approval import REJECTED
from teamwright.agents.contract.agent import Agent, Context, declaration_of
from teamwright.agents.contract.retry import FUTILE, RETRYABLE
from teamwright.agents.evaluators import Evaluator
from teamwright.agents.review import REVIEW_EXCEEDED, EvaluationRounds
from teamwright.errors import AgentTimeout
from teamwright.experts.coordination.options import FailureLadder
from teamwright.experts.coordination.states import FinalState, StepMachine
from teamwright.strategies.parts import WORK
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import FailureRung, TeamHandoff, TeamStepAssigned, TeamStepCompleted, TeamStepFailed
from teamwright.values.specs.evaluation import EvaluationVerdict, VerdictOutcome
from teamwright.values.specs.plan import Role, Step
from teamwright.values.text.display import LONGEST_ERROR, cut
from teamwright.values.turns.turn import Failure, Reply, Turn

NOTHING_FOUND = "NOTHING FOUND"
LIMITS_OF_ROLE, LIMITS_OF_STEP = "role-limits", "step-limits"

NextAgent = Callable[[Agent], Agent]
"""Returns who is asked after this member has failed: the same one, or another."""


@dataclass(frozen=True, slots=True)
class StepAssignment:
    """A step with all that is decided about it at plan time."""

    step: Step
    role_name: str
    role: Role
    evaluator: Evaluator
    ladder: FailureLadder


def states_nothing_found(reply: Reply) -> bool:
    """Return whether a reply says that nothing was found, and nothing else."""
    return reply.full.text.strip().strip(".!\"'*`").strip().casefold() == NOTHING_FOUND.casefold()


class StepExecution:
    """One execution of a step. `aborts_team` says that its failure ends the team at once.

    With `can_replan`, the planner may plan again instead. Then `awaits_plan`, until the step is replaced or given up.
    """

    def __init__(
        self,
        assignment: StepAssignment,
        agent: Agent,
        machine: StepMachine,
        next_agent: NextAgent,
        *,
        can_replan: bool = False,
    ) -> None:
        self._assigned, self._step, self._ladder = assignment, assignment.step, assignment.ladder
        self._agent, self._machine, self._next_agent = agent, machine, next_agent
        self._attempts = self._retries = 0
        self._is_downgraded = self._nothing_found = False
        self._may_retry = True
        self._warnings: list[str] = []
        self._regular_failure: Failure | None = None
        """The last failure of the regular model, where the economy model took over."""
        self._key = WORK
        self._verdict: EvaluationVerdict | None = None
        self._outcome: VerdictOutcome | None = None
        self._can_replan = can_replan
        self.aborts_team = self.awaits_plan = False

    async def run(self, turn: Turn, ctx: Context) -> Reply | Failure:
        """Work on the step until it has an answer that counts, or fails; record its assignment and its end."""
        self._machine.move("generating")
        await ctx.emit(self._assignment_fact())
        try:
            async with AsyncExitStack() as stack:
                inner = ctx
                for name, limits in ((LIMITS_OF_ROLE, self._assigned.role.limits), (LIMITS_OF_STEP, self._step.limits)):
                    if limits is not None:
                        inner = await stack.enter_async_context(inner.scope(name, limits))
                ending = self._with_warnings(await self._work(turn, inner))
        except AgentTimeout as error:
            failure = Failure(member=self._agent.name, error=error.kind, message=str(error))
            ending = await self._give_up(failure, ctx, ("retry", "downgrade_model"))
        if not self.awaits_plan:
            await self._settle(ending, ctx)
        return ending

    async def give_up(self, failure: Failure, ctx: Context) -> Failure:
        """End a step for which no other plan was made: the team continues without it, or fails."""
        self._can_replan = False
        failure = await self._give_up(failure, ctx, ("replan",))
        await self._settle(failure, ctx)
        return failure

    async def replace(self, failure: Failure, ctx: Context) -> None:
        """End a step that is no part of the new plan."""
        await self._settle(failure, ctx)

    def _assignment_fact(self) -> TeamStepAssigned:
        role = self._assigned.role_name
        attempt = self._attempts + 1
        return TeamStepAssigned(step=self._step.id, member=self._agent.name, role=role, attempt=attempt)

    async def _work(self, turn: Turn, ctx: Context) -> Reply | Failure:
        """Ask and evaluate in rounds."""
        rounds = EvaluationRounds(ctx, self._agent, self._assigned.evaluator, turn, WORK)
        ending = await self._generate(turn, WORK, ctx)
        while isinstance(ending, Reply) and self._outcome != REVIEW_EXCEEDED:
            self._machine.move("evaluating")
            self._nothing_found = self._step.nothing_found and states_nothing_found(ending)
            if self._nothing_found or ending.signal == "terminate":
                return ending
            rounds.work, rounds.author = self._key, self._agent
            await rounds.evaluate(ending)
            settled = await rounds.settle(ending)
            self._verdict, self._outcome = rounds.verdicts[-1], rounds.verdicts[-1].outcome
            if settled is not None:
                return await self._settle_review(settled, ctx)
            self._outcome = "revise"
            self._machine.move("generating")
            ending = await self._generate(rounds.revision_turn(ending), rounds.work, ctx)
        return ending

    async def _generate(self, turn: Turn, key: str, ctx: Context) -> Reply | Failure:
        """Ask the member; after a failure, climb the ladder."""
        ending = await self._ask(turn, key, ctx)
        while isinstance(ending, Failure):
            if ending.error == REVIEW_EXCEEDED:  # the member's own evaluation
                return await self._exceed_own(ending, ctx)
            successor = self._reassign(ending)
            rung, passed_over = self._next_rung(ending, successor)
            if rung in ("replan", "skip_step", "abort_team"):
                return await self._give_up(ending, ctx, passed_over)
            await ctx.emit(self._failed(ending, rung, passed_over))
            if successor is not None:
                ending = await self._retry(successor, ending, turn, key, ctx)
            else:
                self._is_downgraded, self._regular_failure = True, ending
                self._warn(ending, "its economy model took over")
                ending = await self._ask(turn, f"economy/{key}", ctx)
        return ending

    async def _retry(self, agent: Agent, failure: Failure, turn: Turn, key: str, ctx: Context) -> Reply | Failure:
        """Try the step again, with another member where the team exchanges it."""
        self._retries += 1
        before, self._agent = self._agent, agent
        if self._agent is not before:
            if failure.error in FUTILE:
                self._warn(failure, f"{self._agent.name!r} took over")
            await ctx.emit(self._assignment_fact())
        return await self._ask(turn, f"retry-{self._retries}/{key}", ctx)

    def _warn(self, failure: Failure, then: str) -> None:
        text = f"{failure.member!r} failed at the step {self._step.id!r} ({failure.error}: {failure.message})"
        self._warnings.append(f"{text}; {then}")

    def _with_warnings(self, ending: Reply | Failure) -> Reply | Failure:
        """Return the result of the step with the warnings of its rungs; a failure names its message already."""
        if isinstance(ending, Failure) or not self._warnings:
            return ending
        return ending.changed(warnings=(*ending.warnings, *self._warnings))

    async def _ask(self, turn: Turn, key: str, ctx: Context) -> Reply | Failure:
        self._attempts, self._key = self._attempts + 1, key
        if self._is_downgraded:
            turn = replace(turn, tier="economy")
        if not self._may_retry:
            turn = replace(turn, may_retry=False)
        ending = await ctx.ask(self._agent, turn, key=key)
        if isinstance(ending, Failure) and ending.error in RETRYABLE:
            self._may_retry = False
        return ending

    def _reassign(self, failure: Failure) -> Agent | None:
        """Assign the step for another attempt, if one is left and may help, and return to whom.

        Where the settings or the input of a member are wrong, only another member may help.
        """
        if failure.error in (BUDGET, REJECTED) or self._retries >= self._ladder.retry:
            return None
        agent = self._next_agent(self._agent)
        return None if failure.error in FUTILE and agent is self._agent else agent

    def _next_rung(self, failure: Failure, successor: Agent | None) -> tuple[FailureRung, tuple[FailureRung, ...]]:
        """Return the next rung that applies, and those before it that do not."""
        if successor is not None:
            return "retry", ()
        passed_over: list[FailureRung] = []
        if self._retries < self._ladder.retry or failure.error == BUDGET:
            passed_over.append("retry")
        if self._ladder.downgrade_model and not self._is_downgraded:
            if self._agent.policy.economy is not None and failure.error not in (*FUTILE, REJECTED):
                return "downgrade_model", tuple(passed_over)
            passed_over.append("downgrade_model")
        return self._last_rung(failure), tuple(passed_over)

    def _last_rung(self, failure: Failure) -> FailureRung:
        """Return what follows when there is no further attempt. A used-up budget skips what it does not cover."""
        if self._can_replan and not failure.optional and failure.error != BUDGET:
            return "replan"
        can_skip = (self._ladder.skip_step and not self._step.required) or failure.optional or failure.error == BUDGET
        return "skip_step" if can_skip else "abort_team"

    async def _give_up(self, failure: Failure, ctx: Context, passed_over: tuple[FailureRung, ...]) -> Failure:
        rung = self._last_rung(failure)
        if self._regular_failure is not None:
            text = f"{self._regular_failure.message}; its economy model failed too: {failure.message}"
            failure = failure.changed(message=cut(text, LONGEST_ERROR))
        await ctx.emit(self._failed(failure, rung, passed_over))
        self.aborts_team, self.awaits_plan = rung == "abort_team", rung == "replan"
        # A step that the budget did not cover is no optional one: the step that closes the team still runs.
        return failure.changed(optional=rung == "skip_step" and failure.error != BUDGET)

    def _failed(self, failure: Failure, rung: FailureRung, passed_over: tuple[FailureRung, ...]) -> TeamStepFailed:
        return TeamStepFailed(
            step=self._step.id,
            member=self._agent.name,
            attempt=max(1, self._attempts),
            error=failure.error,
            rung=rung,
            passed_over=passed_over,
            work=self._key,
        )

    async def _settle_review(self, ending: Reply | Failure, ctx: Context) -> Reply | Failure:
        """Return work that counts, perhaps with a warning; work that does not fails the team."""
        if self._outcome == "revise":  # in the last round
            self._outcome = REVIEW_EXCEEDED
        return await self._hand_off(ending, ctx) if isinstance(ending, Failure) else ending

    async def _exceed_own(self, failure: Failure, ctx: Context) -> Reply | Failure:
        """Treat work that failed the member's own evaluation as that says, or else as the risk of the team does.

        What a person stopped never counts, and what a nested team fails for is decided there.
        """
        self._outcome = REVIEW_EXCEEDED
        own = self._agent.policy.evaluate
        is_decided = failure.member != self._agent.name or own is None or declaration_of(own).on_exceeded is not None
        if is_decided or not self._assigned.evaluator.declaration.counts_with_warning:
            return await self._hand_off(failure, ctx)
        return Reply(messages=failure.messages, data=failure.data, warnings=(*failure.warnings, failure.message))

    async def _hand_off(self, failure: Failure, ctx: Context) -> Failure:
        """Record that a person is needed, and fail the team."""
        self._outcome, self.aborts_team = REVIEW_EXCEEDED, True
        await ctx.emit(TeamHandoff(source=self._agent.name, to="", reason=failure.message))
        return failure.changed(optional=False)

    async def _settle(self, ending: Reply | Failure, ctx: Context) -> None:
        """Move to the final state and record it."""
        state = self._final_state(ending)
        self._machine.move(state)
        await ctx.emit(
            TeamStepCompleted(
                step=self._step.id,
                member=self._agent.name,
                state=state,
                attempts=max(1, self._attempts),
                verdict=self._outcome,
                score=None if self._verdict is None else self._verdict.score,
                nothing_found=self._nothing_found,
            )
        )

    def _final_state(self, ending: Reply | Failure) -> FinalState:
        if isinstance(ending, Reply):
            return "degraded" if ending.lasting_warnings else "completed"
        return "degraded" if ending.optional or ending.error == BUDGET else "failed"
