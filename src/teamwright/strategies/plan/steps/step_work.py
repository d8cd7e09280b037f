"""The work on one step: asks under the failure ladder, reviews under the risk profile, and its states up to the last.

Every rung of the ladder is recorded. The text of a failure never reaches a member. Attempts add up and never multiply:
once the retry policy of an agent is used up in a step, each further rung makes one attempt. A final state has no exits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

from msgspec.structs import replace

from teamwright.agents.agent import Agent, Context, declaration_of
from teamwright.agents.evaluators import Evaluator, dependence_of
from teamwright.agents.review import REVIEW_EXCEEDED, EvaluationRounds
from teamwright.errors import AgentTimeout, IllegalMove
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.options import FailureLadder
from teamwright.strategies.plan.steps.step_options import LAST_RUNGS, TIERS, Climb, Helpers
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import FailureRung, TeamHandoff, TeamStepAssigned, TeamStepCompleted, TeamStepFailed
from teamwright.values.limits import ClosingAsk
from teamwright.values.retries import FUTILE, RETRYABLE
from teamwright.values.specs.plan import Role, Step
from teamwright.values.text.display import LONGEST_ERROR, cut
from teamwright.values.turns.turn import EvaluationVerdict, Failure, Reply, Turn, VerdictOutcome

StepState = Literal[
    "idle", "planning", "generating", "evaluating", "completed", "degraded", "failed", "timeout", "cancelled"
]
FinalState = Literal["completed", "degraded", "failed", "timeout", "cancelled"]

STATES: Final[tuple[StepState, ...]] = get_args(StepState)
FINAL_STATES: Final[tuple[FinalState, ...]] = get_args(FinalState)
STOPPED: Final[frozenset[StepState]] = frozenset(("timeout", "cancelled"))
"""The final states that every working state can move to."""

MOVES: Final[Mapping[StepState, frozenset[StepState]]] = {
    "idle": frozenset(("planning",)),
    "planning": STOPPED.union(("generating", "failed")),
    "generating": STOPPED.union(("evaluating", "degraded", "failed")),
    "evaluating": STOPPED.union(("generating", "completed", "degraded", "failed")),
    **dict.fromkeys(FINAL_STATES, frozenset[StepState]()),
}
"""The states that can follow each state."""


class StepMachine:
    """The state of one step; every move is checked."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: StepState = "idle"

    def move(self, to: StepState) -> None:
        """Move to another state; raises `IllegalMove` if it can't follow this one."""
        if to not in MOVES[self.state]:
            raise IllegalMove(self.state, to)
        self.state = to

    @property
    def is_final(self) -> bool:
        """Whether no state can follow."""
        return not MOVES[self.state]


def team_state(steps: Collection[StepState], *, has_result: bool = True) -> StepState:
    """Return the state of a team from the states of its steps.

    While a step is working, it is the busiest of their states. When all have ended, it is the worst of their endings; a
    team without any result has failed, and one whose steps were all called off was cancelled.
    """
    if not steps:
        return "idle"
    for state in ("generating", "evaluating", "planning"):
        if state in steps:
            return state
    if all(state == "idle" for state in steps):
        return "idle"
    for state in ("timeout", "failed", "degraded", "completed"):
        if state in steps:
            return state if has_result or state == "timeout" else "failed"
    return "cancelled"


NOTHING_FOUND = "NOTHING FOUND"
LIMITS_OF_ROLE, LIMITS_OF_STEP = "role-limits", "step-limits"


@dataclass(frozen=True, slots=True)
class StepAssignment:
    """A step with all that is decided about it at plan time; work without an `evaluator` is not reviewed.

    `fails_at_once` says that a failure of the team does not wait for the steps that run beside it.
    """

    step: Step
    role_name: str
    role: Role
    evaluator: Evaluator | None
    ladder: FailureLadder
    fails_at_once: bool = True
    members: tuple[str, ...] = ()
    """Those who work on it side by side, if there are several."""
    decider: str = ""
    """Who decides between what was proposed, if someone does."""

    def may_write(self, agent: Agent) -> bool:
        """Whether an agent may take the step over: neither a judge of it, nor the one who decides in the end."""
        if agent.name == self.decider:
            return False
        if self.evaluator is None or not self.evaluator.declaration.asks_judges:
            return True
        declared = self.evaluator.declaration
        return not any(dependence_of(judge, agent, declared) for judge in self.evaluator.judges)


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work: who did it, with which turn, and under which key of the step's branch."""

    author: Agent
    turn: Turn
    key: str
    reply: Reply


class Crew(Helpers, Protocol):
    """Those who work on the steps of a team."""

    async def produce(
        self, assignment: StepAssignment, agent: Agent, turn: Turn, key: str, ctx: Context, *, alone: bool
    ) -> Work | Failure:
        """Let the agent, or all who work on the step unless it revises alone, do it once."""
        ...


def states_nothing_found(reply: Reply) -> bool:
    """Return whether a reply says that nothing was found, and nothing else."""
    return reply.full.text.strip().strip(".!\"'*`").strip().casefold() == NOTHING_FOUND.casefold()


class StepExecution:
    """One execution of a step. `aborts_team` says that its failure ends the team at once, `abandons_plan` that one
    agent finishes the task instead.

    `awaits` is what the step waits for after a failure: a change of the step by the lead, or another plan.
    """

    def __init__(self, assignment: StepAssignment, agent: Agent, machine: StepMachine, crew: Crew) -> None:
        self._assigned, self.step, self._ladder = assignment, assignment.step, Climb(assignment.ladder, crew)
        self.agent, self._machine, self._crew = agent, machine, crew
        self._attempts = 0
        self._nothing_found = False
        self._may_retry = True
        self._warnings: list[str] = []
        self._earlier_failure: Failure | None = None
        """The last failure of the regular model, where another model took over."""
        self._key = WORK
        self._verdict: EvaluationVerdict | None = None
        self._outcome: VerdictOutcome | None = None
        self.failure: Failure | None = None
        """The failure after which the step waits."""
        self.awaits: Literal["", "adjustment", "plan"] = ""
        self.aborts_team = self.abandons_plan = False

    async def run(self, assignment: StepAssignment, agent: Agent, turn: Turn, ctx: Context) -> Reply | Failure:
        """Work on the step until it has an answer that counts, fails, or waits; record its assignment and its end.

        People may have changed the step before it is tried again.
        """
        self._assigned, self.step, self.agent = assignment, assignment.step, agent
        if self._machine.state != "generating":
            self._machine.move("generating")
        await ctx.emit(self._assignment_fact())
        self._outcome, self.failure, self.awaits = None, None, ""
        try:
            async with AsyncExitStack() as stack:
                ending = await _merged(self, turn, await _limited(ctx, self._assigned, turn, stack))
            if isinstance(ending, Reply) and self._warnings:  # a failure names its message already
                ending = ending.changed(warnings=(*ending.warnings, *self._warnings))
        except AgentTimeout as error:
            failure = Failure(member=self.agent.name, error=error.kind, message=str(error))
            ending = await self._give_up(failure, ctx, ("retry", *TIERS))
        if isinstance(ending, Failure) and self.awaits:
            self.failure = ending
        else:
            await self._settle(ending, ctx)
        return ending

    def adjusted(self, assignment: StepAssignment, agent: Agent) -> bool:
        """Take over the step as the lead has changed it; return whether another attempt may help.

        Where the settings of a member are wrong, only another member may help.
        """
        before, failure = self.agent, self.failure
        self._assigned, self.step, self.agent = assignment, assignment.step, agent
        self._ladder.retries += 1
        if failure is None or failure.error not in FUTILE:
            return True
        return failure.asked not in assignment.members if assignment.members else agent is not before

    async def give_up(self, ctx: Context) -> Failure:
        """End a step that waits in vain: the team continues without it, one agent finishes, or the team fails."""
        assert self.failure is not None
        passed_over: FailureRung = "retry" if self.awaits == "adjustment" else "replan"
        failure = await self._give_up(self.failure, ctx, (passed_over,), last=True)
        self.awaits = ""
        await self._settle(failure, ctx)
        return failure

    @property
    def members(self) -> tuple[str, ...]:
        """Those who work on it side by side, if there are several."""
        return self._assigned.members

    async def cancel(self, ctx: Context) -> None:
        """End a step that a person has stopped, or that is left out; one that has ended stays as it is."""
        self.awaits = ""
        if self._machine.is_final:
            return
        self._machine.move("cancelled")
        fact = TeamStepCompleted(
            step=self.step.id, member=self.agent.name, state="cancelled", attempts=max(1, self._attempts)
        )
        await ctx.emit(fact)

    async def replace(self, ctx: Context) -> None:
        """End a step that is not in the new plan."""
        assert self.failure is not None
        self.awaits = ""
        await self._settle(self.failure, ctx)

    def _assignment_fact(self) -> TeamStepAssigned:
        role, members, attempt = self._assigned.role_name, self._assigned.members, self._attempts + 1
        return TeamStepAssigned(step=self.step.id, member=self.agent.name, role=role, attempt=attempt, members=members)

    async def work(self, turn: Turn, ctx: Context) -> Reply | Failure:
        """Ask, and review in rounds."""
        work = await self._climb(turn, WORK, ctx, alone=False)
        evaluator = self._assigned.evaluator
        if isinstance(work, Failure):
            return work
        if isinstance(work, Reply) or evaluator is None:  # not reviewed here; its state moves on all the same
            self._machine.move("evaluating")
            return work if isinstance(work, Reply) else work.reply
        rounds = EvaluationRounds(ctx, work.author, evaluator, work.turn, work.key, closing=True)
        while isinstance(work, Work):
            self._machine.move("evaluating")
            self._nothing_found = self.step.nothing_found and states_nothing_found(work.reply)
            if self._nothing_found or (work.reply.signal == "terminate" and not evaluator.declaration.reviews):
                return work.reply
            rounds.work, rounds.author = work.key, work.author
            await rounds.evaluate(work.reply)
            if not (is_upgraded := self._may_upgrade_after(rounds)):
                settled = await rounds.settle(work.reply)
                self._verdict, self._outcome = rounds.verdicts[-1], rounds.verdicts[-1].outcome
                if settled is not None:
                    return await self._settle_review(settled, ctx)
            self._outcome = "revise"
            self._machine.move("generating")
            turn = rounds.revision_turn(work.reply)
            if is_upgraded:
                rounds.work = await self._upgrade(work, rounds.work, ctx)
            work = await self._revise(work, turn, rounds.work, ctx)
        return work

    def _may_upgrade_after(self, rounds: EvaluationRounds) -> bool:
        """Return whether a stronger model revises work that did not pass in any of its rounds."""
        return rounds.verdicts[-1].outcome == "revise" and rounds.are_over and self._ladder.may_upgrade(self.agent)

    def _may_upgrade_own(self, failure: Failure) -> bool:
        """Return whether a stronger model tries work that failed the member's own evaluation, unless a person did."""
        own = self.agent.policy.evaluate
        is_own = own is not None and failure.member == self.agent.name and declaration_of(own).on_failure != "ask"
        return is_own and self._ladder.may_upgrade(self.agent)

    async def _upgrade(self, work: Work, key: str, ctx: Context) -> str:
        """Let the author continue with its stronger model; return the key of its next attempt."""
        self.agent, self._key = work.author, work.key
        exceeded = Failure(member=work.author.name, error=REVIEW_EXCEEDED, message="")
        await ctx.emit(self._failed(exceeded, "upgrade_model", ()))
        return f"{self._ladder.change_model('upgrade_model')}/{key}"

    async def _revise(self, work: Work, turn: Turn, key: str, ctx: Context) -> Work | Failure:
        """Ask the author of work that did not pass."""
        self.agent = work.author
        ending = await self._climb(turn, key, ctx, alone=True)
        return ending if isinstance(ending, Work | Failure) else Work(work.author, turn, key, ending)

    async def _climb(self, turn: Turn, key: str, ctx: Context, *, alone: bool) -> Work | Reply | Failure:
        """Do the work; after a failure, climb the ladder. `alone` means that its author is asked, not all of them."""
        ending = await self._attempt(turn, key, ctx, alone=alone)
        while isinstance(ending, Failure):
            if ending.error == REVIEW_EXCEEDED:  # the member's own evaluation
                if not self._may_upgrade_own(ending):
                    return await self._exceed_own(ending, ctx)
                await ctx.emit(self._failed(ending, "upgrade_model", ()))
                ending = await self._change_model("upgrade_model", ending, turn, key, ctx, alone=alone)
                continue
            successor = self._ladder.successor(ending, self.agent, self.step)
            rung, passed_over = self._next_rung(ending, successor)
            if rung in LAST_RUNGS:
                return await self._give_up(ending, ctx, passed_over)
            await ctx.emit(self._failed(ending, rung, passed_over))
            if rung == "retry" and self._ladder.adjusts_next and not alone:
                self.awaits = "adjustment"
                return ending
            if successor is not None:
                ending = await self._retry(successor, ending, turn, key, ctx, alone=alone)
            else:
                ending = await self._change_model(rung, ending, turn, key, ctx, alone=alone)
        return ending

    async def _retry(
        self, agent: Agent, failure: Failure, turn: Turn, key: str, ctx: Context, *, alone: bool
    ) -> Work | Failure:
        """Try the step again, with another member where the team exchanges it."""
        self._ladder.retries += 1
        before, self.agent = self.agent, agent
        if self.agent is not before:
            if failure.error in FUTILE:
                self._warn(failure, f"{self.agent.name!r} took over")
            await ctx.emit(self._assignment_fact())
        return await self._attempt(turn, f"retry-{self._ladder.retries}/{key}", ctx, alone=alone)

    async def _change_model(
        self, rung: FailureRung, failure: Failure, turn: Turn, key: str, ctx: Context, *, alone: bool
    ) -> Work | Failure:
        """Try the step once with another model of the member."""
        tier = self._ladder.change_model(rung)
        self._earlier_failure = self._earlier_failure or failure
        if tier == "economy":
            self._warn(failure, f"its {tier} model took over")
        return await self._attempt(turn, f"{tier}/{key}", ctx, alone=alone)

    def _warn(self, failure: Failure, then: str) -> None:
        text = f"{failure.member!r} failed at the step {self.step.id!r} ({failure.error}: {failure.message})"
        self._warnings.append(f"{text}; {then}")

    async def _attempt(self, turn: Turn, key: str, ctx: Context, *, alone: bool) -> Work | Failure:
        self._attempts, self._key = self._attempts + 1, key
        if self._ladder.tier != "primary":
            turn = replace(turn, tier=self._ladder.tier)
        if not self._may_retry:
            turn = replace(turn, may_retry=False)
        done = await self._crew.produce(self._assigned, self.agent, turn, key, ctx, alone=alone)
        if isinstance(done, Failure):
            if done.error in RETRYABLE:
                self._may_retry = False
        else:
            self._key = done.key
            self.agent = done.author
        return done

    def _next_rung(self, failure: Failure, successor: Agent | None) -> tuple[FailureRung, tuple[FailureRung, ...]]:
        """Return the next rung that applies, and those before it that do not."""
        if successor is not None:
            return "retry", ()
        return self._ladder.next_rung(failure, self.agent, self.step, is_shared=bool(self._assigned.members))

    async def _give_up(
        self, failure: Failure, ctx: Context, passed_over: tuple[FailureRung, ...], *, last: bool = False
    ) -> Failure:
        rung = self._ladder.last_rung(failure, self.step, last=last)
        if self._earlier_failure is not None and self._earlier_failure is not failure:
            text = f"{self._earlier_failure.message}; its {self._ladder.tried_models} failed too: {failure.message}"
            failure = failure.changed(message=cut(text, LONGEST_ERROR))
        await ctx.emit(self._failed(failure, rung, passed_over))
        self.aborts_team = rung == "abort_team" and self._assigned.fails_at_once
        self.abandons_plan = rung == "finish"
        self.awaits = "plan" if rung == "replan" else ""
        # A step that the budget did not cover is no optional one: the step that closes the team still runs.
        return failure.changed(optional=rung == "skip_step" and failure.error != BUDGET)

    def _failed(self, failure: Failure, rung: FailureRung, passed_over: tuple[FailureRung, ...]) -> TeamStepFailed:
        return TeamStepFailed(
            step=self.step.id,
            member=failure.asked or self.agent.name,
            attempt=max(1, self._attempts),
            error=failure.error,
            rung=rung,
            passed_over=passed_over,
            work=self._key,
        )

    async def _settle_review(self, ending: Reply | Failure, ctx: Context) -> Reply | Failure:
        """Return work that counts, perhaps with a warning; work that does not is tried again, finished, or fails."""
        if self._outcome == "revise":  # in the last round
            self._outcome = REVIEW_EXCEEDED
        if isinstance(ending, Reply):
            return ending
        if (
            self._verdict is not None and self._verdict.broke_off_unpaid
        ):  # the team goes on without what it can't afford
            return await self._give_up(ending.changed(error=BUDGET), ctx, ())
        return await self._exceed(ending, ctx)

    async def _exceed_own(self, failure: Failure, ctx: Context) -> Reply | Failure:
        """Treat work that failed the member's own evaluation as that says, or else as the risk of the team does.

        What a person stopped never counts, and what a nested team fails for is decided there.
        """
        self._outcome = REVIEW_EXCEEDED
        own, evaluator = self.agent.policy.evaluate, self._assigned.evaluator
        is_decided = failure.member != self.agent.name or own is None or declaration_of(own).on_failure is not None
        if is_decided or evaluator is None or not evaluator.declaration.counts_with_warning:
            return await self._exceed(failure, ctx)
        return Reply(messages=failure.messages, data=failure.data, warnings=(*failure.warnings, failure.message))

    async def _exceed(self, failure: Failure, ctx: Context) -> Failure:
        """Let the lead change a step whose work did not pass, or one agent finish; else record that a person is needed.

        Without such a rung it fails the team.
        """
        self._outcome = REVIEW_EXCEEDED
        if self._ladder.seek_adjustment():
            await ctx.emit(self._failed(failure, "retry", ()))
            self.awaits = "adjustment"
            return failure.changed(optional=False)
        if self._ladder.ladder.finish:
            await ctx.emit(self._failed(failure, "finish", ()))
            self.abandons_plan = True
            return failure.changed(optional=False)
        self.aborts_team = self._assigned.fails_at_once
        await ctx.emit(TeamHandoff(source=self.agent.name, to="", reason=failure.message))
        return failure.changed(optional=False)

    async def _settle(self, ending: Reply | Failure, ctx: Context) -> None:
        """Move to the final state and record it."""
        state = _final_state(ending)
        self._machine.move(state)
        fact = TeamStepCompleted(
            step=self.step.id,
            member=self.agent.name,
            state=state,
            attempts=max(1, self._attempts),
            verdict=self._outcome,
            score=None if self._verdict is None else self._verdict.score,
            nothing_found=self._nothing_found,
        )
        await ctx.emit(fact)


async def _merged(execution: StepExecution, turn: Turn, ctx: Context) -> Reply | Failure:
    """Work on a step; the changes of one that is reviewed, or that several compete in, count once the step does."""
    ending = await execution.work(turn, ctx)
    if turn.merges and not execution.step.is_competition:
        return ending
    return await ctx.merge(execution.agent, turn, ending, key=WORK)


async def _limited(ctx: Context, assigned: StepAssignment, turn: Turn, stack: AsyncExitStack) -> Context:
    """Return the context of a step within its limits and those of its role.

    A part of the budget is kept back for its judges: work that none reviewed is lost.
    """
    for name, limits in ((LIMITS_OF_ROLE, assigned.role.limits), (LIMITS_OF_STEP, assigned.step.limits)):
        if limits is not None:
            ctx = await stack.enter_async_context(ctx.scope(name, limits))
    declared = None if assigned.evaluator is None else assigned.evaluator.declaration
    if declared is not None and declared.asks_judges:
        asks = [ClosingAsk(name, 1) for name in declared.judges for _ in range(declared.times)]
        stack.enter_context(ctx.keep_back(asks, closes=turn.closing))
    return ctx


def _final_state(ending: Reply | Failure) -> FinalState:
    if isinstance(ending, Reply):
        return "degraded" if ending.lasting_warnings else "completed"
    return "degraded" if ending.optional or ending.error == BUDGET else "failed"
