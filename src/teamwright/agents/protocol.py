"""The contract of agents: whatever answers.

An agent must reach clocks, randomness, models, tools, people and other members only through its context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from teamwright.values.turns import Reply, Turn

if TYPE_CHECKING:
    from teamwright.agents.context import Context


@runtime_checkable
class Agent(Protocol):
    """Anything that answers: a model, a function, a script, a person, a team.

    Where it has them, `one_call` says that its whole turn is one effect, `limits` bound each of its turns, `approve`
    says where a person has to agree, `can_terminate` that it may end a team, `optional` that a failure of it is skipped
    and `critical` that one pauses the run, `capabilities` are what it is found by, and from `spec` it is made again on
    a resume.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """What sort of agent it is: model, function, scripted, team …"""
        ...

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...
