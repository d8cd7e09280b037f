"""Observes a replay from inside: what members are asked, and what their calls send. Nothing else looks there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent
    from teamwright.agents.contract.effect import Effect
    from teamwright.values.turns.turn import Turn


class ReplayObserver(Protocol):
    """Sees each open turn and each call of a replay first. One that does not return keeps it from happening."""

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Look at a turn before its member takes it."""
        ...

    async def call(self, key: str, effect: Effect, *, is_recorded: bool) -> None:
        """Look at a call before its recorded result is returned, or before it is made."""
        ...
