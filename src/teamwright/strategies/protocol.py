"""The contract of strategies.

A strategy is deterministic: it reaches members, time and chance only through the context, and awaits nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar, cast, overload, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.context import AgentLike, Context
from teamwright.agents.protocol import Agent
from teamwright.errors import UnknownName
from teamwright.strategies.diagram import Sketch, places
from teamwright.values.envelope import EnvelopeSettings
from teamwright.values.manifest import Share
from teamwright.values.messages import EMPTY, History
from teamwright.values.models import Value
from teamwright.values.results import Outcome
from teamwright.values.turns import Turn

V = TypeVar("V", bound=Value)

Outlook = Mapping[str, int]
"""The asks to come, by their keys or the first part of them, with the tokens that each is expected to take, or 0."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a team's declaration says to its strategy."""

    share: Share = "transcript"
    max_turns: int | None = None
    on_max_turns: Literal["stop", "fail"] = "stop"
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    handoff: EnvelopeSettings | None = None

    def read(self, model: type[V]) -> V:
        """The options as the strategy's own model; they were checked against it when the team was made."""
        return model.model_validate(self.options)


@dataclass(frozen=True, slots=True)
class Task:
    """What a team is asked to do."""

    text: str
    history: History = field(default=EMPTY)
    settings: Settings = field(default_factory=Settings)
    quotes: bool = True
    """Whether texts are quoted where they are put together; not in runs that began before they were."""


class Members(Sequence[Agent]):
    """The members of a team in order, and beside them the helpers that its strategy names in its options."""

    __slots__ = ("_by_name", "_members")

    def __init__(self, members: Iterable[AgentLike], helpers: Iterable[AgentLike] = ()) -> None:
        self._members = cast("tuple[Agent, ...]", tuple(members))
        self._by_name = {agent.name: agent for agent in (*cast("Iterable[Agent]", helpers), *self._members)}

    def named(self, name: str) -> Agent:
        """The member or helper of this name."""
        if name not in self._by_name:
            raise UnknownName("member", name, self._by_name)
        return self._by_name[name]

    @property
    def names(self) -> Collection[str]:
        """The names of all members and helpers."""
        return self._by_name.keys()

    @overload
    def __getitem__(self, index: int) -> Agent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Agent]: ...
    def __getitem__(self, index: int | slice) -> Agent | Sequence[Agent]:
        return self._members[index]

    def __len__(self) -> int:
        return len(self._members)


class Flaw(NamedTuple):
    """Something wrong with a team's settings; `at` is the path to it within the options, where it is there.

    A warning does not keep the team from running.
    """

    text: str
    at: tuple[str | int, ...] = ()
    is_warning: bool = False


class NoOptions(Value):
    """The options of a strategy that has none."""


@runtime_checkable
class StrategyLike(Protocol):
    """The least that a strategy needs. What else `Strategy` declares gets the default that stands there."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Bring the task to an outcome."""
        ...


class Strategy(Protocol):
    """One way for members to work together. Inherit it to get the defaults.

    `version` is recorded with a run, which resumes only on the version it started with: raise it when the order of asks
    changes. `options` is the class of what the strategy takes; without one it takes any options. A manifest that sets
    fields of a team that are `unused` is warned. `share` is how members share where a team does not say, and `peers`
    says that members also talk with each other, which a team that cuts back gives up.
    """

    name: str
    version: int
    options: type[Value] | None = None
    unused: Sequence[str] = ()
    share: Share = "transcript"
    peers: bool = False

    def problems(self, settings: Settings, members: Members) -> Sequence[Flaw | str]:
        """What is wrong with these settings for these members, in words; asked before anything runs.

        Members may be stand-ins here, of whom only name, kind, description and policy are known.
        """
        return ()

    def lead(self, settings: Settings, members: Members) -> str | None:
        """The name of the member or helper who leads the team, if there is one."""
        return None

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The picture of a team whose settings have no flaw: the members in order."""
        return Sketch(nodes=places(members))

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """The asks to come, with the tokens that each is expected to take; empty if that is not known."""
        return {}

    def example_reply(self, turn: Turn) -> JsonValue:
        """Data that a member could reply with, if `turn.output_schema` is a form of the strategy's own; else None."""
        return None

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Bring the task to an outcome."""
        ...
