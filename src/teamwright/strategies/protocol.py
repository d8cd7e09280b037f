"""The contract of strategies, with the diagram that each draws of its team, and the checks of what others bring.

A strategy is deterministic: it reaches members, time and randomness only through its context, and awaits nothing else.
Code that displays a diagram knows nodes and arrows, but no strategy by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast, get_args, overload

from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context, is_package_class
from teamwright.errors import UnknownName, UsageError, a
from teamwright.values.limits import ClosingAsk
from teamwright.values.people import TeamChange
from teamwright.values.specs.members import Share
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import EMPTY, EnvelopeSettings, History, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Turn
from teamwright.values.value import Record, Value, misfit_of, plain_json


class Node(Record, frozen=True):
    """A node of the diagram: an agent or, without one, an event, data or another source of work.

    Without a `label` it shows the name of its agent; `about` describes in a few words what happens there.
    """

    id: str
    agent: str = ""
    label: str = ""
    about: str = ""

    @property
    def title(self) -> str:
        return self.label or self.agent or self.id


class Arrow(Record, frozen=True):
    """An arrow between two nodes, by their ids; `label` gives its condition or purpose."""

    source: str
    to: str
    label: str = ""


class Diagram(Record, frozen=True):
    """The nodes in reading order, the arrows between them, and notes about the team."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[str, ...] = ()


def places(members: Sequence[Agent]) -> tuple[Node, ...]:
    """Return a node for each member; a member that is listed several times gets several."""
    seen: dict[str, int] = {}
    found: list[Node] = []
    for member in members:
        seen[member.name] = count = seen.get(member.name, 0) + 1
        found.append(Node(id=member.name if count == 1 else f"{member.name}#{count}", agent=member.name))
    return tuple(found)


def chain_arrows(nodes: Sequence[Node]) -> tuple[Arrow, ...]:
    """Return arrows from each node to the next."""
    return tuple(Arrow(source=before.id, to=after.id) for before, after in pairwise(nodes))


def condition_label(condition: str | None) -> str:
    """Return the label of an arrow with a condition."""
    return "" if condition is None else f"when {condition}"


def description_line(agent: Agent) -> str:
    """Return the description of an agent on one line; empty if it has none."""
    return " ".join(agent.description.split())


def introduction(agent: Agent) -> str:
    """Return the name of an agent, followed by its description if it has one."""
    about = description_line(agent)
    return f"{agent.name}: {about}" if about else agent.name


V = TypeVar("V", bound=Value)

ExpectedAsks = Mapping[str, int]
"""Expected asks by key, or by the first part of the key, with the tokens each should take; 0 if unknown."""


InterventionName = Literal[
    "say", "pause", "raise_budget", "edit_plan", "restore_plan", "stop_step", "add_member", "remove_member"
]  # fmt: skip
"""What a person can change while a run is going on, besides cancelling it."""
STEERABLE: tuple[InterventionName, ...] = ("say", "pause", "raise_budget")
"""The interventions that the engine carries out around the asks of any strategy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a team that its strategy reads."""

    share: Share = "transcript"
    max_turns: int | None = None
    on_max_turns: Literal["stop", "fail"] = "stop"
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    envelope: EnvelopeSettings | None = None
    _parsed: dict[type[Value], Value] = field(
        default_factory=dict[type[Value], Value], init=False, repr=False, compare=False
    )

    def read(self, model: type[V]) -> V:
        """Return the options as the model of the strategy. They were validated when the team was created.

        A frozen model is parsed once: a plan may have thousands of steps.
        """
        if not model.model_config.get("frozen"):
            return model.model_validate(self.options)
        if model not in self._parsed:
            self._parsed[model] = model.model_validate(self.options)
        return cast("V", self._parsed[model])


@dataclass(frozen=True, slots=True)
class Task:
    """What a team is asked to do."""

    text: str
    history: History = field(default=EMPTY)
    settings: Settings = field(default_factory=Settings)
    attachments: tuple[Artifact, ...] = ()
    """The files that go with the task: a turn that has its text has them too."""

    @property
    def message(self) -> Message:
        """The task as a message of the user, with its files, for members that have a task of their own."""
        return Message(name="user", content=self.text, role="user", attachments=self.attachments)


class Members(Sequence[Agent]):
    """The members of a team in order, and the helpers that the options of its strategy name."""

    __slots__ = ("_by_name", "_members")

    def __init__(self, members: Iterable[Agent], helpers: Iterable[Agent] = ()) -> None:
        self._members = tuple(members)
        self._by_name = {agent.name: agent for agent in (*helpers, *self._members)}

    def named(self, name: str) -> Agent:
        """Return the member or helper with this name; raise `UnknownName` if there is none."""
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

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._members)


class Issue(NamedTuple):
    """A problem in a team's settings; `at` is its path within the options, empty if it lies elsewhere.

    A warning does not prevent the team from running.
    """

    text: str
    at: tuple[str | int, ...] = ()
    is_warning: bool = False


class NoOptions(Value):
    """The options of a strategy that has none."""


TALKS = "has tools to talk with colleagues"
"""How a refusal begins of an agent whose requests no one would read."""


class Strategy(ABC):
    """A way for members to work together. Inherit from it to get the defaults.

    `version` is recorded with a run, and a run resumes only on the version it started with: raise it when the order of
    asks changes. `options` is the model of the strategy's options; without one, any options are accepted. `unused` are
    the team fields that the strategy ignores; a manifest that sets one gets a warning. `share` is the default for teams
    that set none. `peers` says that members also talk to each other; degradation switches that off first.
    `takes_handoffs` says that a member may name the next speaker. `interventions` are those that a person may send to a
    run of the team; a strategy that names others than those of `STEERABLE` carries them out, see
    `Context.changes`.
    """

    name: str
    version: int
    options: type[Value] | None = None
    unused: Sequence[str] = ()
    share: Share = "transcript"
    peers: bool = False
    takes_handoffs: bool = False
    interventions: Sequence[InterventionName] = STEERABLE

    if not TYPE_CHECKING:

        def __new__(cls, *args: object, **settings: object) -> Strategy:  # noqa: ARG004 - they are for __init__
            """Create an instance of a subclass; raises `UsageError` for this class itself."""
            if cls is Strategy:
                raise UsageError(
                    "Strategy is abstract and can't be instantiated: name a built-in strategy,"
                    " strategy='sequential', or create an instance of a class of your own that inherits Strategy."
                )
            return super().__new__(cls)

    def problems(self, settings: Settings, members: Members) -> Sequence[Issue | str]:
        """Return what is wrong with these settings for these members. Called before a run.

        Members may be placeholders that have only a name, kind, description and policy.
        """
        return ()

    def refusal(self, change: TeamChange) -> str | None:
        """Return why no run of a team can take a change that a person sends; None if one may.

        Called before the change is acknowledged. How far the run is, `check` of `Context.changes` knows.
        """
        return None

    def talk_problem(self, settings: Settings) -> str | None:
        """Return why the tools with which members talk to each other reach no one, and the remedy; None if they do."""
        return f"members of {a(self.name)} team don't talk; use  strategy: plan  with  plan: {{talk: all}}"

    def lead(self, settings: Settings, members: Members) -> str | None:
        """Return the name of the member or helper that leads the team, if there is one."""
        return None

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the diagram of a team with valid settings. Default: the members in order."""
        return Diagram(nodes=places(members))

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return the expected asks and the tokens each should take; empty if unknown."""
        return {}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the asks with which the team closes; `run` sets `closing` in their turns. Empty if there is none."""
        return ()

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return data that fits `turn.output_schema` if that schema is one of this strategy; otherwise None."""
        return None

    @abstractmethod
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the team on the task and return the outcome."""
        ...


def require_strategy(strategy: object) -> Strategy:
    """Return the object if it is a strategy; otherwise raise a `UsageError` that says what is wrong."""
    if not isinstance(strategy, Strategy):
        raise UsageError(_not_a_strategy(strategy))
    if not is_package_class(type(strategy)):  # for those of this package, the type checker suffices
        _check_attributes(strategy)
    return strategy


def _check_attributes(strategy: Strategy) -> None:
    """Raise `UsageError` for an attribute that is missing, or whose value a team can't use."""
    if missing := [one for one in ("name", "version") if not hasattr(strategy, one)]:
        raise UsageError(f"{_shown(strategy)} has no {' and no '.join(missing)}; set it in the class.")
    options, shares, taken = cast("object", strategy.options), get_args(Share), get_args(InterventionName)
    interventions: Collection[object] = strategy.interventions
    wrong = {
        "options": options is not None and not (isinstance(options, type) and issubclass(options, Value)),
        "share": strategy.share not in shares,
        "interventions": isinstance(interventions, str) or any(one not in taken for one in interventions),
    }
    expected = {
        "options": "a class that inherits Value, or None",
        "share": f"one of {', '.join(shares)}",
        "interventions": f"a tuple of {', '.join(taken)}",
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise UsageError(
                f"The strategy {strategy.name!r} has {name}={getattr(strategy, name)!r}; {name!r} of a strategy must be"
                f" {expected[name]}."
            )


async def run_strategy(strategy: Strategy, task: Task, members: Members, ctx: Context) -> Outcome:
    """Run a strategy and return its outcome; raises `UsageError` if it returns anything else."""
    outcome = await strategy.run(task, members, ctx)
    if not isinstance(outcome, Outcome):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
        raise UsageError(
            f"The run method of the strategy {strategy.name!r} returned a value of type {type(outcome).__name__!r};"
            " it must return an Outcome, for example  TeamConversation(task).ended('done')."
        )
    return outcome if is_package_class(type(strategy)) else _checked_outcome(strategy.name, outcome)


def _checked_outcome(strategy: str, outcome: Outcome) -> Outcome:
    """Return the outcome of a user's strategy, with its data as JSON; raises `UsageError` if it can't be recorded."""
    try:
        checked = outcome if outcome.data is None else outcome.changed(data=plain_json(outcome.data))
    except ValueError as error:
        raise UsageError(
            f"The strategy {strategy!r} returned an Outcome with data that is not JSON: {error}"
        ) from error
    if (wrong := misfit_of(checked.changed(messages=(), failure=None))) is not None:  # replies check their messages
        raise UsageError(f"The strategy {strategy!r} returned an Outcome that can't be recorded: {wrong}.")
    return checked


def _not_a_strategy(strategy: object) -> str:
    if isinstance(strategy, type):
        return f"{strategy!r} is a class; pass an instance:  strategy={strategy.__name__}()."
    return (
        f"{_shown(strategy)} is not a strategy: name a built-in one, or pass an instance of a class that inherits"
        " Strategy from teamwright.strategies."
    )


def _shown(strategy: object) -> str:
    plain = type(strategy).__repr__ is object.__repr__  # which would show an address
    return f"An object of the class {type(strategy).__name__!r}" if plain else repr(strategy)
