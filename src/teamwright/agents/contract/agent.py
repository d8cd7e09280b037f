"""The agent protocol.

An agent must use clocks, randomness, models, tools, people and other members only through its context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from teamwright.agents.contract.context import Context
from teamwright.agents.contract.policy import UNSET, Policy
from teamwright.errors import UsageError
from teamwright.values.turns.turn import Reply, Turn

if TYPE_CHECKING:
    from teamwright.values.specs.manifest import AgentSpec, TeamSpec


@runtime_checkable
class Agent(Protocol):
    """Anything that answers: a model, a function, a script, a person, a team.

    Inherit it to get the defaults. `kind` is the sort of agent: model, function, scripted, team … The engine applies
    `policy` when it asks the agent, and registries search by `capabilities`.
    """

    name: str
    kind: str
    policy: Policy = UNSET
    description: str = ""
    capabilities: tuple[str, ...] = ()

    if TYPE_CHECKING:

        @property
        def spec(self) -> AgentSpec | TeamSpec | None:
            """The declaration from which a resume rebuilds the agent."""
            return None

    else:
        spec = None  # a subclass could not set a property as a plain attribute

        def __new__(cls, *args: object, **settings: object) -> Agent:  # noqa: ARG004 - they are for __init__
            """Create an instance of a subclass; raises `UsageError` for this class itself."""
            if cls is Agent:
                raise UsageError(
                    "Agent is a protocol and can't be instantiated: create a ModelAgent("
                    "'helper', model='openai:gpt-5-mini', instructions='…'), a FunctionAgent or a ScriptedAgent, or a"
                    " class of your own that inherits Agent."
                )
            return super().__new__(cls)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...
