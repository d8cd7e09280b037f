"""An attempt at a phase: the turns of its experts and of the lead, and the work that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.experts.collaboration.plan import Phase, phase_text
from teamwright.experts.collaboration.state import LAST, CollaborationState, Work
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Turn


@dataclass(frozen=True, slots=True)
class PhaseAttempt:
    """The `number`th attempt at a phase; `position` is that of the phase in the plan.

    `may_retry` is false where an attempt before it has used up the retries of an expert.
    """

    state: CollaborationState
    phase: Phase
    number: int
    position: int
    may_retry: bool = True

    def turn(self, expert: str, task: str | None = None) -> Turn:
        """Return the turn of an expert, with the task of the phase or another one."""
        return self.state.expert_turn(self.phase, expert, task, self.position)

    async def ask(self, expert: Agent, turn: Turn, ctx: Context, key: str, place: int, at: str = "") -> Work | Failure:
        """Ask an expert for work; `at` is the branch of the phase in which the context is."""
        if not self.may_retry:
            turn = replace(turn, may_retry=False)
        reply = self.state.receive(await ctx.ask(expert, turn, key=key), self.phase)
        if isinstance(reply, Failure):
            return reply
        self.state.said[self.phase.id, self.number, place] = reply
        return Work(expert, turn, f"{at}/{key}" if at else key, reply, place)

    async def ask_lead(self, text: str, results: Sequence[Message], ctx: Context, key: str) -> Work | Failure:
        """Let the lead make one result of several."""
        history = [*self.state.inputs_of(self.phase), *results]
        turn = self.state.lead_turn(f"{text}\n\n{self.about}", history)
        return await self.ask(self.state.lead, turn, ctx, key, LAST)

    @property
    def about(self) -> str:
        """The phase, as the lead reads it."""
        return phase_text(self.phase, self.state.task_of(self.phase))

    @property
    def stopped(self) -> Failure:
        """What an attempt returns that ended with its team."""
        return self.state.unpaid or Failure(member=self.phase.id, error="stopped", message="the team has ended")
