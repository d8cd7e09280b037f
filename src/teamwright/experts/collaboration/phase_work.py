"""One attempt at a phase: by one expert, in parts, or in competition; then its milestone. The plan stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import assert_never

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.review import pass_gate
from teamwright.errors import AgentTimeout, ExpressionFailed, NotOwned
from teamwright.experts.collaboration.competition import Competition
from teamwright.experts.collaboration.state import PhaseAttempt, Work
from teamwright.experts.collaboration.subtasks import Subtasks
from teamwright.strategies.parts import WORK
from teamwright.strategies.plan.step_options import step_evaluators
from teamwright.strategies.plan.step_runner import SCOPE
from teamwright.values.turns.turn import Failure, Reply, Turn


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """How an attempt at a phase ended."""

    phase: str
    attempt: int
    ending: Reply | Failure


async def attempt_phase(attempt: PhaseAttempt, ctx: Context) -> PhaseResult:
    """Work on a phase within its limits, and let its milestone decide whether the work counts."""
    phase, plan = attempt.phase, attempt.state.plan
    owns = phase.owns if plan is not None and any(one.owns for one in plan.steps) else None
    try:
        if phase.limits is None and owns is None:
            ending = await _attempt(attempt, ctx)
        else:
            async with ctx.scope(SCOPE, phase.limits, owns, phase.priority) as inner:
                ending = await _attempt(attempt, inner)
    except (AgentTimeout, NotOwned, ExpressionFailed) as error:
        ending = Failure(member=phase.experts[0] if phase.experts else phase.id, error=error.kind, message=str(error))
    return PhaseResult(phase.id, attempt.number, ending)


async def _attempt(attempt: PhaseAttempt, ctx: Context) -> Reply | Failure:
    state, phase = attempt.state, attempt.phase
    work = await _work(attempt, ctx)
    evaluator = step_evaluators((phase,), state.members).get(phase.id)
    if isinstance(work, Failure):
        return work
    if evaluator is None or state.has_ended:
        return work.reply
    again = partial(_ask_again, attempt, work.author, ctx)
    ending = await pass_gate(ctx, work.author, evaluator, work.turn, work.key, work.reply, again)
    if isinstance(ending, Reply):
        state.said[phase.id, attempt.number, work.place] = ending
    return ending


async def _ask_again(attempt: PhaseAttempt, author: Agent, ctx: Context, turn: Turn, key: str) -> Reply | Failure:
    return attempt.state.receive(await ctx.ask(author, turn, key=key), attempt.phase)


async def _work(attempt: PhaseAttempt, ctx: Context) -> Work | Failure:
    phase = attempt.phase
    match phase.parallel:
        case "serial":
            expert = attempt.state.members.named(phase.agent or phase.id)
            return await attempt.ask(expert, attempt.turn(expert.name), ctx, WORK, 1)
        case "subtask_parallel":
            return await Subtasks(attempt).run(ctx)
        case "competitive_parallel":
            return await Competition(attempt).run(ctx)
        case _:
            assert_never(phase.parallel)
