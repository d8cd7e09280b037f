"""What a call needs before it leaves: what it may cost set aside in the budget, and its turn at the model.

Nobody ever waits for one of the two while holding the other. So whoever holds either is about to leave or is out, and
comes back by itself: no circle of waiting calls can arise, a call that waits for a model (which may rest for a minute)
keeps no part of a budget from others, and one that waits for its budget keeps no slot from other runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from teamwright.agents.protocol import Effect
from teamwright.budget.ledger import Account, Refusal, Reservation, Wanted, prompt_tokens
from teamwright.runtime.limiter import Limiter, Slot
from teamwright.values.events import BudgetRefused

if TYPE_CHECKING:
    from teamwright.runtime.context import RunContext


class Pass(NamedTuple):
    """What lets one attempt leave: its reservation where a budget holds, and its slot where it names a model."""

    reservation: Reservation | None
    slot: Slot | None

    @property
    def tokens(self) -> int:
        """How many tokens are set aside."""
        return self.reservation.tokens if self.reservation else 0

    def give_back(self) -> None:
        """The call never left."""
        if self.reservation is not None:
            self.reservation.give_back()
        if self.slot is not None:
            self.slot.give_back()


FREE = Pass(None, None)
"""For a call that no budget and no model bounds."""


class Admission:
    """One attempt that is to leave."""

    __slots__ = ("_context", "_effect", "_place")

    def __init__(self, context: RunContext, place: str, effect: Effect) -> None:
        self._context, self._place, self._effect = context, place, effect

    async def granted(self) -> Pass:
        """Wait for both, in turn, until both are there at once.

        When it has to begin anew, another call was out that had what was missing, so the run always goes on.
        """
        context, effect, run = self._context, self._effect, self._context.run
        limiter = run.limiters.of(effect) if effect.model else None
        while True:
            if run.pausing or run.closing:
                await run.left()
            reservation = await self._reserve(context.account) if context.account else None
            if limiter is None:
                return Pass(reservation, None)
            if slot := limiter.take(effect.prompt_bytes, effect.max_output):
                return Pass(reservation, slot)
            if reservation is not None:
                reservation.give_back()
            if (passed := await self._in_turn(limiter)) is not None:
                return passed

    async def _in_turn(self, limiter: Limiter) -> Pass | None:
        """Wait for the model; nothing if the budget has no room when its turn has come, or the run is being left."""
        context, effect, run = self._context, self._effect, self._context.run
        run.ledger.elsewhere += 1
        try:
            slot = await limiter.wait(context.lanes, effect.prompt_bytes, effect.max_output)
        finally:
            run.ledger.elsewhere -= 1
        passed: Pass | None = None
        try:
            if not run.pausing and not run.closing:
                passed = self._with(slot)
        finally:
            if passed is None:
                slot.give_back()
        return passed

    def _with(self, slot: Slot) -> Pass | None:
        """The slot and a reservation; nothing where that would have to wait."""
        account = self._context.account
        if account is None:
            return Pass(None, slot)
        try:
            reservation = self._context.run.ledger.reserve_now(self._wanted(account))
        except Refusal as refusal:
            self._note(refusal)
            raise
        return reservation and Pass(reservation, slot)

    async def _reserve(self, account: Account) -> Reservation:
        try:
            return await self._context.run.ledger.reserve(self._wanted(account))
        except Refusal as refusal:
            self._note(refusal)
            raise

    def _wanted(self, account: Account) -> Wanted:
        effect = self._effect
        if effect.kind != "model":
            return Wanted(account)
        return Wanted(account, prompt_tokens(effect.prompt_bytes, effect.messages), effect.max_output, model=True)

    def _note(self, refusal: Refusal) -> None:
        self._context.run.recorder.add(
            self._context.path,
            self._place,
            BudgetRefused(
                level=refusal.level, what=refusal.what, needed=refusal.needed, left=refusal.left, limit=refusal.limit
            ),
        )
