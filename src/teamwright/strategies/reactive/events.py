"""Events within a reactive team, and how what follows from one is read out of a member's reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NamedTuple, cast

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import to_json

from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.values.models import Value
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.messages import History, digest
from teamwright.values.turns.turn import Reply

STARTED = "workflow.started"
ERROR = "agent.error"
MOST_LINKS = 8
LONGEST_ID = 48

FORM = '{"events": [{"type": NAME, "data": ANYTHING}, …], "state": {NAME: ANYTHING, …}}'
"""How a member says what follows, for the member."""

WANTED: JsonSchema = {
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
            "additionalProperties": True,  # said aloud, since clients add the contrary where it is left out
        },
    },
    "required": ["events"],
}


def _not_ours(name: str) -> str:
    if name in (STARTED, ERROR):
        raise ValueError(f"{name!r} comes from the team itself and can't be emitted")
    return name


EventType = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
OwnEventType = Annotated[EventType, AfterValidator(_not_ours)]


@dataclass(frozen=True, slots=True)
class TeamEvent:
    """Something that happened in a team. Its id says what it follows from, whatever happened meanwhile."""

    id: str
    type: str
    by: str = ""
    data: JsonValue = None
    depth: int = 0
    cause: TeamEvent | None = None

    def follower(self, place: str, type_: str, by: str, data: JsonValue) -> TeamEvent:
        """An event that follows from this one; `place` tells it from the others that do."""
        path = f"{self.id}.{place}"
        # Further down a long chain its beginning goes by a digest: else the keys of N events would take N² bytes.
        identity = path if len(path) <= LONGEST_ID else digest(path)[:16]
        return TeamEvent(identity, type_, by, data, self.depth + 1, self)

    @property
    def told(self) -> dict[str, JsonValue]:
        """What a member is told of it."""
        by: dict[str, JsonValue] = {"by": self.by} if self.by else {}
        return {"type": self.type, **by, "data": self.data}

    def chain(self) -> tuple[str, ...]:
        """The types of the nearest events that led here, this one last; of a loop, one turn."""
        types: list[str] = []
        event: TeamEvent | None = self
        while event is not None and len(types) < MOST_LINKS:
            types.append(event.type)
            event = event.cause
            if event is not None and event.type == self.type:
                types.append(event.type)
                break
        return tuple(reversed(types))


class Told(NamedTuple):
    """What a member is told when it reacts: the team's task and history too, or the event and the state alone."""

    event: TeamEvent
    state: dict[str, JsonValue]
    history: History
    team_task: str | None = None
    wants_form: bool = True

    def task(self, problem: str = "") -> str:
        """The task of its turn; `problem` is why its last answer could not be used."""
        if self.team_task is None:
            alone: dict[str, JsonValue] = {"event": self.event.told, "state": self.state}
            return written(alone | {"problem": problem} if problem else alone)
        known = {name: value for name, value in self.event.told.items() if self.event.cause or name != "data"}
        parts = [
            f"An event has come: {written(known)}",
            f"The shared state: {written(self.state)}" if self.state else "",
            f"If something follows from your work, answer with one JSON object: {FORM}" if self.wants_form else "",
            f"Your last answer could not be used: {problem}. Answer again." if problem else "",
            f"The task:\n{self.team_task}",
        ]
        return "\n\n".join(part for part in parts if part)


class NewEvent(Value):
    """An event that a member emits; fields beside its type are its data."""

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
    """What follows from an event: further events, and changes of the shared state."""

    model_config = ConfigDict(extra="ignore")

    events: tuple[NewEvent, ...] = ()
    state: Annotated[
        dict[str, JsonValue], Field(validation_alias=AliasChoices("state", "state_update", "stateUpdate"))
    ] = {}


KEYS = frozenset(("events", "state", "state_update", "stateUpdate"))


def read_reaction(reply: Reply) -> Reaction | ParseFailure:
    """What follows from a reply. One in plain words, or with data of its own, says nothing about that."""
    held = [value for values in candidate_values(reply) for value in values]
    if not any(isinstance(value, dict) and KEYS & value.keys() for value in held):
        return Reaction()
    return read_answer(reply, _reaction())


def written(value: JsonValue) -> str:
    """A value as the JSON that members are told."""
    return to_json(value).decode()


@cache
def _reaction() -> TypeAdapter[Reaction]:
    return TypeAdapter(Reaction)
