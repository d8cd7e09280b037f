"""The least that a team needs of a member. It stands apart from `Agent` because a policy refers to other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from teamwright.values.turns import Reply, Turn

if TYPE_CHECKING:
    from teamwright.agents.context import Context


@runtime_checkable
class AgentLike(Protocol):
    """The least that a member of a team needs. What else `Agent` declares gets the default that stands there."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...
