"""An ask of a member as the budget of its team counts it: while it runs, and with what it was charged.

Only teams that hold back or cut back need it; every other ask goes without.
"""

from __future__ import annotations

from functools import partial

from teamwright.budget.holdback import Holdback
from teamwright.runtime.context.question import ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.key import join_key
from teamwright.values.limits import CHARACTERS_PER_TOKEN
from teamwright.values.turns.turn import Failure, Reply, Turn

ENVELOPE_CHARACTERS = 512
"""The size of an envelope besides its summary, about."""


class BudgetedAsk:
    """One ask in a team with a holdback or a ladder. An ask that was stopped has no `ending`."""

    __slots__ = ("_charged", "_holdback", "_is_counted", "_ladder", "_place", "_scope", "_turn", "ending")

    def __init__(self, scope: Scope, turn: Turn, place: str) -> None:
        self._scope, self._turn, self._place = scope, turn, place
        self._holdback = None if scope.in_agent else scope.holdback
        self._ladder = scope.degradation if scope.decides_degradation else None
        self._charged = scope.charged
        self._is_counted = False
        self.ending: Reply | Failure | None = None
        if self._holdback is not None:
            self._holdback.ask_begins(closing=turn.closing)

    async def begin(self) -> None:
        """Let the team cut back before the ask if its budget is tight, and count the ask from now on."""
        scope, ladder = self._scope, self._ladder
        if ladder is not None:
            ask_person = partial(ask_person_at, scope)
            await ladder.consider(scope, self._place, ask_person, closing=self._turn.closing)
            ladder.ask_begins()
            self._is_counted = True

    def end(self) -> None:
        """Count the ask as done."""
        scope, (tokens, usd) = self._scope, self._charged
        key, charged = join_key(scope.path, self._place), (scope.charged[0] - tokens, scope.charged[1] - usd)
        if self._ladder is not None:
            if self._is_counted:
                self._ladder.ask_ended(key, charged)
        elif self._holdback is not None and self._holdback.forecast is not None:
            self._holdback.forecast.ask_ended(key, charged)
        if self._holdback is not None:
            _report_ending(self._holdback, self.ending, self._turn)


def _report_ending(holdback: Holdback, ending: Reply | Failure | None, turn: Turn) -> None:
    """Tell the holdback of the team what the turn used, and how much of the reply others read."""
    usage = ending.usage if isinstance(ending, Reply) else None
    read = None
    if turn.envelope_limits is not None:  # others read an envelope
        read = (turn.envelope_limits.max_summary_chars + ENVELOPE_CHARACTERS) // CHARACTERS_PER_TOKEN
    holdback.ask_ended(usage, closing=turn.closing, read=read)
