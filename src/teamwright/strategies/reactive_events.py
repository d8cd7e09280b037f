"""Events of a reactive team: which member subscribes to which, and how a reply is parsed into new events.

The options are checked before a run: conditions, the goal and the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NamedTuple, cast

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import to_json

from teamwright.strategies.expressions import Condition
from teamwright.strategies.part_results import FailurePolicy
from teamwright.strategies.protocol import Arrow, Diagram, Issue, Node, condition_label
from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.tools import MemberName
from teamwright.values.turns.messages import History, digest
from teamwright.values.turns.turn import Reply
from teamwright.values.value import Value

STARTED = "workflow.started"
ERROR = "agent.error"
MOST_LINKS = 8
LONGEST_ID = 48

FORM = '{"events": [{"type": NAME, "data": ANYTHING}, …], "state": {NAME: ANYTHING, …}}'
"""The format of a reaction, as the prompt shows it."""

REACTION_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "events": {
            "type": "array",
            "items": {"type": "object", "properties": {"type": {"type": "string"}, "data": {}}, "required": ["type"]},
            "description": "what others may react to",
        },
        "state": {
            "type": "object",
            "description": "values that everybody shares from now on",
            "additionalProperties": True,  # explicit, because clients add false where it is missing
        },
    },
    "required": ["events"],
}


def _not_reserved(name: str) -> str:
    if name in (STARTED, ERROR):
        raise ValueError(f"{name!r} comes from the team itself and can't be emitted")
    return name


EventType = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
OwnEventType = Annotated[EventType, AfterValidator(_not_reserved)]


@dataclass(frozen=True, slots=True)
class TeamEvent:
    """An event in a team. Its id is derived from its cause, so it does not depend on other events."""

    id: str
    type: str
    by: str = ""
    data: JsonValue = None
    depth: int = 0
    cause: TeamEvent | None = None

    def caused_event(self, place: str, type_: str, by: str, data: JsonValue) -> TeamEvent:
        """Return an event caused by this one; `place` distinguishes it from the others."""
        path = f"{self.id}.{place}"
        # In a long chain a digest replaces the path: otherwise the keys of N events would take N² bytes.
        identity = path if len(path) <= LONGEST_ID else digest(path)[:16]
        return TeamEvent(identity, type_, by, data, self.depth + 1, self)

    @property
    def visible(self) -> dict[str, JsonValue]:
        """What a member sees of the event."""
        by: dict[str, JsonValue] = {"by": self.by} if self.by else {}
        return {"type": self.type, **by, "data": self.data}

    def chain(self) -> tuple[str, ...]:
        """Return the types of the events that led here, this one last; a loop is shown once."""
        types: list[str] = []
        event: TeamEvent | None = self
        while event is not None and len(types) < MOST_LINKS:
            types.append(event.type)
            event = event.cause
            if event is not None and event.type == self.type:
                types.append(event.type)
                break
        return tuple(reversed(types))


class ReactionInput(NamedTuple):
    """The input of a reaction: the event and the state, and unless `share: output` also the task and the history."""

    event: TeamEvent
    state: dict[str, JsonValue]
    history: History
    team_task: str | None = None
    wants_form: bool = True

    def task(self, problem: str = "") -> str:
        """Return the task of the turn; `problem` is why the last reply could not be parsed."""
        if self.team_task is None:
            alone: dict[str, JsonValue] = {"event": self.event.visible, "state": self.state}
            return as_json(alone | {"problem": problem} if problem else alone)
        known = {name: value for name, value in self.event.visible.items() if self.event.cause or name != "data"}
        parts = [
            f"An event has come: {as_json(known)}",
            f"The shared state: {as_json(self.state)}" if self.state else "",
            f"If something follows from your work, answer with one JSON object: {FORM}" if self.wants_form else "",
            f"Your last answer could not be used: {problem}. Answer again." if problem else "",
            f"The task:\n{self.team_task}",
        ]
        return "\n\n".join(part for part in parts if part)


class NewEvent(Value):
    """An event that a member emits; fields besides its type become its data."""

    model_config = ConfigDict(extra="ignore")

    type: OwnEventType
    data: JsonValue = None

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: object) -> object:
        if not isinstance(value, Mapping) or "data" in value:
            return cast("object", value)
        fields = dict(cast("Mapping[str, JsonValue]", value))
        kind = fields.pop("type", None)
        return {"type": kind, "data": fields or None}


class Reaction(Value):
    """The effect of an event: new events, and changes of the shared state."""

    model_config = ConfigDict(extra="ignore")

    events: tuple[NewEvent, ...] = ()
    state: Annotated[
        dict[str, JsonValue], Field(validation_alias=AliasChoices("state", "state_update", "stateUpdate"))
    ] = {}


KEYS = frozenset(("events", "state", "state_update", "stateUpdate"))


def read_reaction(reply: Reply) -> Reaction | ParseFailure:
    """Return the reaction in a reply. A reply in plain text, or with other data, causes no events."""
    found = [value for values in candidate_values(reply) for value in values]
    if not any(isinstance(value, dict) and KEYS & value.keys() for value in found):
        return Reaction()
    return read_answer(reply, _reaction())


def as_json(value: JsonValue) -> str:
    """Return a value as JSON for prompts."""
    return to_json(value).decode()


@cache
def _reaction() -> TypeAdapter[Reaction]:
    return TypeAdapter(Reaction)


OF_AN_EVENT = ("type", "by", "data", "depth", "state")
OF_A_REPLY = ("data", "text", "state")
OF_THE_GOAL = ("state", "emitted")


class Emission(Value):
    """An event that each reply causes, without the member naming it."""

    type: OwnEventType = Field(description="the type of the event; its data is the data of the reply, or else its text")
    when: str | None = Field(default=None, description="a condition over the reply: `data`, `text`, `state`")


class Subscription(Value):
    """What a member reacts to."""

    agent: MemberName = Field(description="who reacts")
    on: EventType = Field(description="the type of event")
    when: str | None = Field(
        default=None, description="a condition over the event: `type`, `by`, `data`, `depth`, `state`"
    )
    emits: tuple[Emission, ...] = Field(default=(), description="events that each of its replies causes")


class ReactiveOptions(FailurePolicy):
    """The subscriptions and limits. `on_failure` applies to failures that no member handles."""

    subscriptions: tuple[Subscription, ...] = Field(
        min_length=1, description="which member reacts to which event, in order"
    )
    state: dict[str, JsonValue] = Field(default={}, description="the shared state at the start")
    goal: str | None = Field(
        default=None,
        description="a condition over `state` and `emitted`, the types so far; the team ends when it holds",
    )
    max_parallel: int = Field(default=10, ge=1, description="how many members work at once")
    max_events: int = Field(default=100, ge=1, description="how many events are processed in total")
    max_depth: int = Field(default=20, ge=1, description="how long a chain of events may be")


def subscription_sketch(options: ReactiveOptions, start: str) -> Diagram:
    """Return the events and the members that react to them; events that members name themselves are not known yet."""
    events = dict.fromkeys((start, *(one.on for one in options.subscriptions)))
    events |= dict.fromkeys(emission.type for one in options.subscriptions for emission in one.emits)
    free = {one.agent for one in options.subscriptions if not one.emits}
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for event in events:
        nodes[f"on {event}"] = Node(id=f"on {event}", label=event)
        for one in options.subscriptions:
            if one.on == event:
                about = "names what follows" if one.agent in free else ""
                nodes.setdefault(one.agent, Node(id=one.agent, agent=one.agent, about=about))
                arrows.append(Arrow(source=f"on {event}", to=one.agent, label=condition_label(one.when)))
                arrows += [
                    Arrow(source=one.agent, to=f"on {it.type}", label=condition_label(it.when)) for it in one.emits
                ]
    notes = [f"at most {options.max_events} events, {options.max_depth} deep"]
    if options.goal is not None:
        notes.append(f"until {options.goal}")
    return Diagram(nodes=tuple(nodes.values()), arrows=tuple(dict.fromkeys(arrows)), notes=tuple(notes))


def condition_flaws(options: ReactiveOptions) -> Iterator[Issue]:
    """Yield a flaw for each condition that is invalid or reads an unknown variable."""
    for index, one in enumerate(options.subscriptions):
        yield from _flaws(one.when, OF_AN_EVENT, ("subscriptions", index, "when"))
        for number, emission in enumerate(one.emits):
            yield from _flaws(emission.when, OF_A_REPLY, ("subscriptions", index, "emits", number, "when"))
    yield from _flaws(options.goal, OF_THE_GOAL, ("goal",))


def _flaws(condition: str | None, known: tuple[str, ...], at: tuple[str | int, ...]) -> Iterator[Issue]:
    problem = None if condition is None else Condition(condition).problem(known)
    if problem is not None:
        yield Issue(problem, at)
