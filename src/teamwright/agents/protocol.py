"""The contract of agents: whatever answers.

An agent must reach clocks, randomness, models, tools, people and other members only through its context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from teamwright.agents.context import Context
from teamwright.agents.policy import UNSET, Policy
from teamwright.errors import UsageError
from teamwright.values.turns.turn import Reply, Turn

if TYPE_CHECKING:
    from teamwright.values.specs.manifest import AgentSpec, TeamSpec


@runtime_checkable
class Agent(Protocol):
    """Anything that answers: a model, a function, a script, a person, a team.

    Inherit it to get the defaults. `kind` says what sort of agent it is: model, function, scripted, team … `policy` is
    what the engine keeps to when it asks the agent, and `capabilities` are what the agent is found by.
    """

    name: str
    kind: str
    policy: Policy = UNSET
    description: str = ""
    capabilities: tuple[str, ...] = ()

    if TYPE_CHECKING:

        @property
        def spec(self) -> AgentSpec | TeamSpec | None:
            """The declaration from which the agent is made again on a resume."""
            return None

    else:
        spec = None  # a property could not be set as a plain attribute by who inherits it

        def __new__(cls, *args: object, **settings: object) -> Agent:  # noqa: ARG004 - they are for __init__
            """Make an agent of a class that inherits this one; refuse to make one of this class itself."""
            if cls is Agent:
                raise UsageError(
                    "Agent is what all agents have in common, and can't be made itself: make a ModelAgent("
                    "'helper', model='openai:gpt-5-mini', instructions='…'), a FunctionAgent or a ScriptedAgent, or a"
                    " class of your own that inherits Agent."
                )
            return super().__new__(cls)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...
