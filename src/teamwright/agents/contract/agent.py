"""The agent contract: what answers, with the defaults of its optional parts.

An agent must use clocks, randomness, models, tools, people and other members only through its context. One that checks
its configuration before a run makes no request for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar, cast, overload, runtime_checkable

from teamwright.agents.contract.policy import ONE_CALL, UNSET, Policy
from teamwright.errors import UsageError
from teamwright.values.call_limits import Compact, Recovery, RetryPolicy, TooLong
from teamwright.values.limits import Limits
from teamwright.values.people import Approve
from teamwright.values.specs.expert import ExpertProfile
from teamwright.values.specs.manifest import AgentSpec, AnyModel

if TYPE_CHECKING:
    from teamwright.agents.clients.models import Models
    from teamwright.agents.contract.context import Context
    from teamwright.values.specs.manifest import TeamSpec
    from teamwright.values.turns.turn import Reply, Turn


PACKAGE = "teamwright."
NEVER_IGNORED = ("limits", "approve", "recovery")
"""Settings that belong in the policy: an agent without the bound or approval that its author meant would do harm."""

T = TypeVar("T")


class Agent(ABC):
    """Anything that answers: a model, a function, a script, a person, a team.

    Inherit it, and set `name` and `kind`, which is the sort of agent: model, function, scripted, team … The engine
    applies `policy` when it asks the agent, and registries search by `capabilities`. `tool_agents` are the agents among
    its tools.
    """

    name: str
    kind: str
    policy: Policy = UNSET
    description: str = ""
    capabilities: tuple[str, ...] = ()
    tool_agents: tuple[Agent, ...] = ()

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
                    "Agent is abstract and can't be instantiated: create a ModelAgent("
                    "'helper', model='openai:gpt-5-mini', instructions='…'), a FunctionAgent or a ScriptedAgent, or a"
                    " class of your own that inherits Agent."
                )
            return super().__new__(cls)

    @abstractmethod
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...


class FromPolicy(Generic[T]):
    """A descriptor that reads a field of an agent's policy; setting it replaces the policy."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, agent: None, owner: type) -> Self: ...
    @overload
    def __get__(self, agent: Agent, owner: type | None = None) -> T: ...
    def __get__(self, agent: Agent | None, owner: type | None = None) -> Self | T:
        return self if agent is None else cast("T", getattr(agent.policy, self._name))

    def __set__(self, agent: Agent, value: T) -> None:
        agent.policy = agent.policy.changed(**{self._name: value})


class PolicyAttributes(Agent):
    """An agent that exposes the fields of its policy as attributes: `agent.limits`, `agent.optional` …"""

    limits = FromPolicy[Limits | None]()
    approve = FromPolicy[Approve | None]()
    optional = FromPolicy[bool]()
    critical = FromPolicy[bool]()
    economy = FromPolicy[AnyModel | None]()
    priority = FromPolicy[int]()
    retry = FromPolicy[RetryPolicy]()
    too_long = FromPolicy[TooLong | None]()
    compact = FromPolicy[Compact | None]()
    fallback = FromPolicy[Agent | None]()
    evaluate = FromPolicy[Agent | None]()
    expert = FromPolicy[ExpertProfile | None]()
    recovery = FromPolicy[Recovery | None]()
    can_terminate = FromPolicy[bool]()
    one_call = FromPolicy[bool]()
    handoffs = FromPolicy[tuple[str, ...] | bool]()

    @property
    def max_bytes(self) -> int:
        """The size cap of a reply and of a tool's result."""
        return self.policy.reply_bytes


def has_policy(agent: Agent) -> bool:
    """Whether an agent has a policy of its own, and so perhaps a fallback or an evaluator."""
    return agent.policy is not ONE_CALL and agent.policy is not UNSET


def same_name_fallbacks(agent: Agent) -> Sequence[Agent]:
    """Return the fallbacks under an agent's own name, which are other models of it and no agents of their team."""
    found = [agent]
    while (other := found[-1].policy.fallback) is not None and other.name == agent.name:
        if any(other is one for one in found):  # a cycle, which a start refuses
            break
        found.append(other)
    return found[1:]


def judges_of(agent: Agent) -> tuple[Agent, ...]:
    """Return the agents that judge the work of an agent."""
    return getattr(agent.policy.evaluate, "judges", ())


def agent_spec_of(agent: Agent) -> AgentSpec:
    """Return the declaration of an agent, empty if it has none."""
    spec = agent.spec
    return spec if isinstance(spec, AgentSpec) else AgentSpec()


def is_package_class(cls: type) -> bool:
    """Whether a class is defined in this package."""
    return cls.__module__.startswith(PACKAGE)


def require_agent(agent: object) -> Agent:
    """Return the object if it is an agent; raises `UsageError` with the reason if not.

    Called once, when an agent is added to a team or a registry.
    """
    if not isinstance(agent, Agent):
        raise UsageError(_not_an_agent(agent))
    if not is_package_class(type(agent)):  # for those of this package, the type checker suffices
        _check_attributes(agent)
    return agent


def _check_attributes(agent: Agent) -> None:
    """Raise `UsageError` for an attribute that is missing or of the wrong type."""
    if missing := [one for one in ("name", "kind") if not hasattr(agent, one)]:
        raise UsageError(f"{agent!r} has no {' and no '.join(missing)}; set it in the class or in __init__.")
    kind, policy = cast("object", agent.kind), cast("object", agent.policy)
    if not isinstance(kind, str):
        raise UsageError(f"The kind of the agent {agent.name!r} must be a text, and is {kind!r:.100}.")
    if not isinstance(policy, Policy):
        raise UsageError(f"The policy of the agent {agent.name!r} must be a Policy, not {policy!r}.")
    for name in NEVER_IGNORED:
        if not isinstance(agent, PolicyAttributes) and getattr(agent, name, None) is not None:
            raise UsageError(
                f"The agent {agent.name!r} has an attribute {name!r}, which has no effect;"
                f" set  policy=Policy({name}=…)."
            )


def _not_an_agent(agent: object) -> str:
    if isinstance(agent, type) and issubclass(cast("type[object]", agent), Agent):
        return f"{agent!r} is a class; create an instance, for example  {agent.__name__}(…)."
    if hasattr(agent, "respond"):
        return f"{agent!r} is not an agent: let its class inherit Agent from teamwright.agents."
    return f"{agent!r} is neither a team nor an agent."


@runtime_checkable
class Preflight(Protocol):
    """An agent that can report configuration problems before a run. Agents without it are assumed to be ready."""

    async def preflight(self, models: Models) -> Sequence[str]:
        """Return configuration problems (a missing extra, key or model) without a request; `models` opens clients."""
        ...
