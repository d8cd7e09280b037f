"""The agent contract: what answers, its policy, and the context through which it reaches the outside world.

An agent must use clocks, randomness, models, tools, people and other members only through its context. The engine reads
its policy, never changes it, and reads no other optional attribute. An agent that checks its configuration before a run
makes no request for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    cast,
    runtime_checkable,
)

from pydantic import ConfigDict, Field, JsonValue, SkipValidation, model_validator

from teamwright.agents.effect import Effect, Returned
from teamwright.errors import UsageError
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.events.event import Fact
from teamwright.values.limits import ClosingAsk, Cutback, Limits
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question, TeamChange, Tell
from teamwright.values.retries import DEFAULT_RETRY, Recovery
from teamwright.values.specs.members import AgentSettings, ExpertProfile, FallbackModel
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.artifacts import Artifact, SharedValue
from teamwright.values.turns.turn import Failure, Reply, Tier, Turn

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.agents.attachments import Attachment
    from teamwright.agents.clients.client_pool import Models
    from teamwright.values.specs.evaluation import Evaluate
    from teamwright.values.specs.manifest import AgentSpec, TeamSpec

PACKAGE = "teamwright."
NEVER_IGNORED = ("limits", "confirm", "recovery")
"""Settings that belong in the policy: an agent without the bound or approval that its author meant would do harm."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Agent(ABC):
    """Anything that answers: a model, a function, a script, a person, a team.

    Inherit it, and set `name` and `kind`, which is the sort of agent: model, function, scripted, team … The engine
    applies `policy` when it asks the agent, and registries search by `capabilities`. `tool_agents` are the agents among
    its tools, and one that `uses_tree` works on the files of its team itself, in `ctx.tree`.
    """

    name: str
    kind: str
    policy: Policy
    description: str = ""
    capabilities: tuple[str, ...] = ()
    tool_agents: tuple[Agent, ...] = ()
    uses_tree: bool = False

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


@runtime_checkable
class Preflight(Protocol):
    """An agent that can report configuration problems before a run. Agents without it are assumed to be ready."""

    async def preflight(self, models: Models) -> Sequence[str]:
        """Return configuration problems (a missing extra, key or model) without a request; `models` opens clients."""
        ...


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
    check_ignored(agent)


def check_ignored(agent: Agent) -> None:
    """Raise `UsageError` for an attribute that was meant as a setting of the policy."""
    for name in NEVER_IGNORED:
        if getattr(agent, name, None) is not None:
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


def is_package_class(cls: type) -> bool:
    """Whether a class is defined in this package."""
    return cls.__module__.startswith(PACKAGE)


@cache
def _declaration() -> type[AgentSpec]:
    """The class of declarations, which is large: loaded at its first use, and found once for thousands of agents."""
    from teamwright.values.specs.manifest import AgentSpec

    return AgentSpec


def agent_spec_of(agent: Agent) -> AgentSpec:
    """Return the declaration of an agent, empty if it has none."""
    spec, form = agent.spec, _declaration()
    return spec if isinstance(spec, form) else form()


class Policy(AgentSettings):
    """How the engine treats an agent: limits, approvals, retries, fallback and more. Every field has a default."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fallback: SkipValidation[Agent | None] = Field(default=None, description="the agent that is asked instead")
    evaluate: SkipValidation[Agent | None] = Field(
        default=None, description="the evaluator whose verdict decides whether its work counts"
    )
    expert: ExpertProfile | None = Field(default=None, description="who it is in a team of experts")
    recovery: Recovery | None = Field(default=None, description="of a team: how failures of its members are handled")
    can_terminate: bool = Field(default=False, description="whether it may end its team")
    talks: bool = Field(default=False, description="whether its tools reach the other members of its team")
    one_call: bool = Field(default=False, description="whether each of its turns is one effect and nothing else")

    def model_at(self, tier: Tier) -> AnyModel | None:
        """Return the model that replaces the regular one at this tier, if there is one."""
        return self.economy if tier == "economy" else self.stronger if tier == "stronger" else None

    @property
    def reply_bytes(self) -> int:
        return self.max_bytes or MAX_BYTES

    @model_validator(mode="after")
    def _fallback_is_an_agent(self) -> Self:
        check_fallback("The fallback", self.fallback)
        return self

    @model_validator(mode="after")
    def _evaluate_is_an_evaluator(self) -> Self:
        if self.evaluate is not None:
            declaration_of(self.evaluate)
        return self

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        check_not_both("The policy", optional=self.optional, critical=self.critical)
        return self

    def changed(self, **settings: object) -> Self:
        """Return a copy with these fields replaced, validated; raises `UsageError`."""
        return type(self)(**{**dict(self), **settings})  # pyright: ignore[reportArgumentType]

    def declared(self, name: str) -> dict[str, object]:
        """Return the fields of an `AgentSpec` that differ from their defaults, for the agent of this name."""
        if self is UNSET or self is ONE_CALL:
            return {}
        given = {
            field: value for field, value in self if field in declared_fields() and value and value is not DEFAULT_RETRY
        }
        if self.fallback is not None and (fallback := fallback_spec(name, self.fallback)) is not None:
            given["fallback"] = fallback
        if self.evaluate is not None:
            given["evaluate"] = declaration_of(self.evaluate)
        if self.expert is not None:
            given["expert"] = self.expert
        return given


@cache
def declared_fields() -> frozenset[str]:
    """The fields that a policy has in common with the declaration of an agent."""
    return frozenset(AgentSettings.model_fields)


def check_not_both(who: str, *, optional: object, critical: object) -> None:
    """Reject a member that is both optional and critical."""
    if optional and critical:
        raise UsageError(
            f"{who} is optional and critical: a failure can't be both skipped and a reason to pause; keep one."
        )


def check_fallback(who: str, fallback: object) -> None:
    """Reject a fallback that is not an agent."""
    if fallback is None:
        return
    try:
        require_agent(fallback)
    except UsageError as error:
        raise UsageError(f"{who} can't be used. {error}") from error


def fallback_spec(name: str, fallback: Agent) -> str | FallbackModel | None:
    """Return a fallback as a declaration: the name of another agent, or the other model of the same agent."""
    if fallback.name != name:
        return fallback.name
    model = agent_spec_of(fallback).model
    return FallbackModel(model=model) if model is not None else None


def declaration_of(evaluator: Agent) -> Evaluate:
    """Return the declaration of an evaluator; raises `UsageError` if it has none."""
    from teamwright.values.specs.evaluation import Evaluate

    declared: object = getattr(evaluator, "declaration", None)
    if not isinstance(declared, Evaluate):
        raise UsageError(f"evaluate must be an evaluator such as Rubric(Evaluate(…)), not {evaluator!r:.100}.")
    return declared


UNSET = Policy.model_construct(retry=DEFAULT_RETRY)
"""The policy of an agent that sets nothing."""
ONE_CALL = UNSET.model_copy(update={"one_call": True})
"""The policy of a function that sets nothing, shared by all of them: a team may have thousands."""
Agent.policy = UNSET  # here, since a policy may name another agent


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


class MemberTree(Protocol):
    """The files of one turn. What a call changes in them is recorded with its result, and otherwise undone."""

    def work(self) -> AbstractAsyncContextManager[Path]:
        """Hold the folder, with its files as they are recorded; other calls of the turn wait."""
        ...

    async def changes(self) -> tuple[Attachment, ...]:
        """Return all changes of the turn so far, if the call that holds the folder has changed anything."""
        ...

    def note(self, artifacts: Sequence[Artifact]) -> None:
        """Take over the changes in a recorded result."""
        ...

    def restore(self) -> None:
        """Undo what is not recorded, because a call has failed."""
        ...


class Context(Protocol):
    """The operations that an agent or a strategy may perform."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def tree(self) -> MemberTree | None:
        """The files that this turn works on; `None` where the team has no workspace of files."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether a decision ends this turn for good, such as a deadline or the end of the run by a person.

        A cancellation without one interrupts the process, and the turn goes on in another. It is false in a replay.
        """
        ...

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Ask a member and return its reply, or a `Failure` if it fails."""
        ...

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Make one call to the outside world; the call and its result are recorded, and replays use the record."""
        ...

    async def merge(self, member: Agent, turn: Turn, reply: Reply | Failure, *, key: str) -> Reply | Failure:
        """Apply the changes of a reply to the team's branch; `turn` was asked with `merges=False` at this key.

        Refused changes are given back to their author, so it may return another reply, or a failure.
        """
        ...

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person and wait for the answer, however long it takes and across processes."""
        ...

    async def message(self, text: str, *, key: str, summary: str = "") -> None:
        """Tell all other members of the team something: they read the summary, and can open the whole text.

        For agents, in a team whose members talk. It is delivered when the turn has ended. Raises `UsageError` in a turn
        in which no one would hear it.
        """
        ...

    async def ask_member(self, name: str, question: str, *, key: str, hand_over: bool = False) -> None:
        """Ask another member of the team for help, or hand the step over to it; end the turn after that.

        For agents, in a team whose members talk. The answer is in the next turn. Raises `UsageError` in a turn in which
        no one would hear it.
        """
        ...

    async def changes(
        self,
        *,
        before: str,
        apply: ApplyChange,
        messages: bool = False,
        check: CheckChange | None = None,
        at_once: ApplyChange | None = None,
    ) -> Sequence[AppliedChange]:
        """Let `apply` carry out what people want changed before the next of this scope: an ask, or a fact about the
        plan of the team, with the key `before`. Returns what was carried out.

        A change for which it returns a reason is refused, and must not have changed anything. With `messages` it also
        gets each message to all members or to the lead, once, so that a lead can plan again; members read it anyway.
        Only the outermost team of a run is changed, and only as the `interventions` of its strategy allow. Call this
        once for each key. A replay carries out the same changes at the same key.

        From now on, a change for which `check` returns a reason is refused when it arrives, and `at_once` carries out
        those that wait for no key: steps that are stopped. It is called while every branch waits.
        """
        ...

    @property
    def cutback(self) -> Cutback:
        """What the team cuts back now because its budget is tight. Read it where you need it: it changes in a run."""
        ...

    @property
    def owned(self) -> Owned:
        """The keys that the enclosing steps own: `owned.may_write(path)` says whether a tool may write there."""
        ...

    def scope(
        self,
        name: str,
        limits: Limits | None = None,
        owns: Collection[str] | None = None,
        priority: int = 0,
        *,
        working: bool = False,
    ) -> AbstractAsyncContextManager[Context]:
        """Open a named part of the work with limits of its own; raises `AgentTimeout` when its time is used up.

        Time in which everything inside waits for people does not count; with `working`, neither does time in which it
        waits for providers: for a rate limit, or before a retry.

        A scope with `owns` waits until no other scope of the run owns an overlapping key, and holds all its keys until
        it ends; among waiting scopes, the highest priority goes first. With an empty `owns` it may write nothing.
        Within another owning scope it may own only keys of that scope: raises `NotOwned` otherwise.
        """
        ...

    def keep_back(self, closing: Sequence[ClosingAsk], *, closes: bool = False) -> AbstractContextManager[None]:
        """Keep a part of the budget back for these asks, which close the work inside; their turns have `closing` set.

        They get it before other asks inside. With `closes`, all of it together is what the team closes with.
        """
        ...

    def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[Branches]:
        """Run named branches concurrently, at most `limit` at once.

        `until` is called whenever a branch has ended; once it returns true, the unfinished branches are cancelled.
        """
        ...

    async def emit(self, fact: Fact, *, key: str | None = None) -> None:
        """Record a fact. Facts of concurrent work need a `key`, since their order may change on a replay."""
        ...


class AppliedChange(NamedTuple):
    """A change that takes effect now; `agent` is a member that joins."""

    change: TeamChange | Tell
    agent: Agent | None = None


ApplyChange = Callable[[AppliedChange], str | None]
"""Carries out a change, or returns why that is impossible now."""
CheckChange = Callable[[TeamChange, Sequence[AppliedChange]], str | None]
"""Returns why a change is impossible after those that wait, before it is acknowledged; None if it is possible."""


class Clock(Protocol):
    """Time and randomness that a resumed run repeats exactly."""

    def now(self) -> float:
        """Seconds since the epoch, as of the last event that the run received."""
        ...

    def random(self) -> float:
        """A random number from 0 up to, but not including, 1."""
        ...

    def new_id(self) -> str:
        """An id that is unique within the run."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep; after a crash, a resumed run sleeps only the remaining time."""
        ...


class Workspace(Protocol):
    """The data that a run shares: versioned values, results, and artifacts that are stored once.

    A strategy sees every write so far; an agent sees a snapshot from the start of its turn, and its own writes.
    """

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    @property
    def task(self) -> str:
        """The task of the run."""
        ...

    def names(self) -> list[str]: ...

    def get(self, name: str) -> SharedValue | None:
        """Return a value with its version, or `None`."""
        ...

    def result(self, key: str) -> Reply | Failure | None:
        """Return the result of an earlier ask of this team, by its key."""
        ...

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is the current one."""
        ...

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store content once as an artifact, and return a pointer to it."""
        ...

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """Return the content of an artifact, by a pointer or by one from an envelope; for agents only."""
        ...


class Branches(Protocol):
    """Named branches of one scope. Leaving the block waits for all of them."""

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> Branch[T]:
        """Start a branch with its own context; it begins when the limit allows."""
        ...

    def finished(self) -> AsyncIterator[Branch[object]]:
        """Yield branches as they finish, in an order that a resumed run repeats."""
        ...

    def cancel(self, name: str | None = None) -> None:
        """Cancel every unfinished branch; or the one of this name, which `finished` then yields as cancelled."""
        ...


class Branch(Protocol[T_co]):
    """One branch, and its result once it has finished."""

    @property
    def name(self) -> str: ...

    @property
    def cancelled(self) -> bool: ...

    def result(self) -> T_co:
        """Return the result of the branch; raises its exception, or `LookupError` if it did not finish."""
        ...
