"""A phase in parts: each expert works on its own, side by side, and the lead puts the results together.

A part that is done stays done: another attempt at the phase asks only for parts that are new or failed.
"""

from __future__ import annotations

from functools import partial

from teamwright.agents.contract.agent import Context
from teamwright.experts.collaboration.state import PhaseAttempt, Work, as_message
from teamwright.strategies.parts import WORK
from teamwright.values.specs.plan import Part
from teamwright.values.turns.turn import Failure

ASSEMBLE = (
    "Your team worked on a phase of its plan in parts; the results of the parts are above. Put them together to one"
    " result of the phase."
)


class Subtasks:
    """The parts of one attempt, and what came of them."""

    def __init__(self, attempt: PhaseAttempt) -> None:
        self._attempt, self._state, self._phase = attempt, attempt.state, attempt.phase
        self._done: dict[str, Work] = {}
        self._failed: dict[str, Failure] = {}

    async def run(self, ctx: Context) -> Work | Failure:
        """Let all parts be done that are not yet, and the lead put the results together."""
        state, parts = self._state, self._phase.parts
        async with ctx.branches(state.options.max_parallel, until=lambda: state.has_ended) as branches:
            for place, part in enumerate(parts, start=1):
                kept = state.done_parts.get((self._phase.id, part))
                if kept is None:
                    branches.start(f"part-{place}", partial(self._work, part, place))
                else:
                    self._done[part.id] = kept
        if state.has_ended:
            return self._attempt.stopped
        if fatal := [name for name, failure in self._failed.items() if not failure.optional]:
            return self._failure(fatal)
        state.warn(text for failure in self._failed.values() for text in failure.skipped)
        done = [self._done[part.id] for part in parts if part.id in self._done]
        if not done:
            return self._failure(list(self._failed))
        if len(parts) == 1:
            return done[0]
        results = [as_message(part.id, self._done[part.id].reply) for part in parts if part.id in self._done]
        return await self._attempt.ask_lead(ASSEMBLE, results, ctx, "assemble")

    async def _work(self, part: Part, place: int, ctx: Context) -> None:
        expert = self._state.members.named(part.agent)
        turn = self._attempt.turn(expert.name, part.task)
        work = await self._attempt.ask(expert, turn, ctx, WORK, place, f"part-{place}")
        if isinstance(work, Failure):
            self._failed[part.id] = work
        else:
            self._done[part.id] = self._state.done_parts[self._phase.id, part] = work

    def _failure(self, parts: list[str]) -> Failure:
        """Return the failure of the first of these parts, in the order of the plan, with the names of all."""
        names = [part.id for part in self._phase.parts if part.id in parts]
        first = self._failed[names[0]]
        return first.changed(message=f"{first.message} (parts: {', '.join(names)})", optional=False)
