"""The contract of strategies, and the conversation that they are made of.

A strategy is deterministic: it reaches members, time and chance only through the context, and awaits nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar, overload

from pydantic import JsonValue

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.errors import UnknownName
from teamwright.values.envelope import Handoff
from teamwright.values.manifest import Share
from teamwright.values.messages import EMPTY, History
from teamwright.values.models import Value
from teamwright.values.results import Outcome
from teamwright.values.turns import Turn

V = TypeVar("V", bound=Value)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a team's declaration says to its strategy."""

    share: Share = "transcript"
    max_turns: int | None = None
    on_max_turns: Literal["stop", "fail"] = "stop"
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    handoff: Handoff | None = None

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

    def __init__(self, members: Iterable[Agent], helpers: Iterable[Agent] = ()) -> None:
        self._members = tuple(members)
        self._by_name = {agent.name: agent for agent in (*helpers, *self._members)}

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


class Strategy(Protocol):
    """One way for members to work together.

    A strategy that takes options has the class of them as `options`, a `Value`; without one it takes any. Where it
    lists fields of a team as `unused`, a manifest that sets them is warned that they change nothing. One that has a
    `sketch` says how its team is drawn, and `lead(settings, members)` is the name of the member or helper who leads it,
    if any. `share` is how its members share where a team does not say. A strategy that reads replies of a form of its
    own has `example_reply(turn)`, which returns data of that form, so that the lab can simulate it.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Recorded with a run, which resumes only on the version it started with: raise it when the order changes."""
        ...

    def problems(self, settings: Settings, members: Members) -> Sequence[Flaw | str]:
        """What is wrong with these settings for these members, in words; asked before anything runs.

        Members may be stand-ins here, of whom only name, kind, description and `can_terminate` are known.
        """
        ...

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Bring the task to an outcome."""
        ...


def options_of(strategy: Strategy) -> type[Value] | None:
    """The class of a strategy's options, if it has one."""
    return getattr(strategy, "options", None)


def share_of(strategy: Strategy) -> Share:
    """How members share where their team does not say."""
    return getattr(strategy, "share", "transcript")


def lead_of(strategy: Strategy, settings: Settings, members: Members) -> str | None:
    """The member or helper who leads a team, by name, if anybody does."""
    lead: Callable[[Settings, Members], str | None] | None = getattr(strategy, "lead", None)
    return lead(settings, members) if lead else None


def example_of(strategy: Strategy, turn: Turn) -> JsonValue:
    """Data that a member could reply with, if `turn.output_schema` is a form of the strategy's own; otherwise None."""
    example: Callable[[Turn], JsonValue] | None = getattr(strategy, "example_reply", None)
    return example(turn) if example else None
