"""The turn that a child run answers, as its first event records it, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import convert, structs
from pydantic import JsonValue

from teamwright.history.record.recorded_reply import RecordedBodies
from teamwright.runtime.driver.recorder import Recorder
from teamwright.runtime.driver.run_input import PlacedInput
from teamwright.values.events.body import Body
from teamwright.values.events.run import PlacedTurn, RunStarted
from teamwright.values.events.workspace import WorkspaceWritten
from teamwright.values.limits.compact import Compact
from teamwright.values.limits.usage import Amounts
from teamwright.values.turns.artifacts import POINTER, Artifact
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, EnvelopeMessage
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import HandoffTarget, Turn

GIVEN: Final = "given-"
"""The place of a value of the parent's workspace in the child begins with this."""
_POINTED = re.compile(re.escape(POINTER) + r"([0-9a-f]{40})")
_PLAIN = ("number", "purpose", "max_output", "tier", "quoting", "since", "aside", "closing", "prompts")
_DEFAULTS = Turn("")


def turn_fields(turn: Turn) -> dict[str, JsonValue]:
    """Return what a turn says besides its task, history and files, without defaults."""
    fields: dict[str, JsonValue] = {
        name: value for name in _PLAIN if (value := getattr(turn, name)) != getattr(_DEFAULTS, name)
    }
    if turn.tools is not None:
        fields["tools"] = list(turn.tools)
    if turn.output_schema is not None:
        fields["output_schema"] = dict(turn.output_schema)
    if turn.left is not None:
        fields["left"] = turn.left.to_json()
    if turn.handoff is not None:
        fields["handoff"] = EnvelopeLimits.model_validate(dict(turn.handoff), extra="ignore").model_dump(mode="json")
    if turn.compact is not None:
        fields["compact"] = turn.compact.model_dump(mode="json")
    if turn.handoffs:
        fields["handoffs"] = [list(one) for one in turn.handoffs]
    envelopes: dict[str, JsonValue] = {
        str(index): one.envelope.model_dump(mode="json")
        for index, one in enumerate(turn.history)
        if isinstance(one, EnvelopeMessage)
    }
    if envelopes:
        fields["envelopes"] = envelopes
    return fields


def turn_from(
    fields: Mapping[str, JsonValue], task: str, history: tuple[Message, ...], attachments: tuple[Artifact, ...]
) -> Turn:
    """Rebuild a turn from its recorded parts."""
    said = cast("Mapping[str, Any]", fields)
    read: dict[str, object] = {name: said[name] for name in _PLAIN if name in said}
    if "tools" in said:
        read["tools"] = tuple(said["tools"])
    if "output_schema" in said:
        read["output_schema"] = said["output_schema"]
    if "left" in said:
        read["left"] = convert(said["left"], Amounts)
    if "handoff" in said:
        read["handoff"] = EnvelopeLimits.model_validate(said["handoff"])
    if "compact" in said:
        read["compact"] = Compact.model_validate(said["compact"])
    if "handoffs" in said:
        read["handoffs"] = tuple(HandoffTarget(*one) for one in said["handoffs"])
    messages = list(history)
    for index, envelope in said.get("envelopes", {}).items():
        one = messages[int(index)]
        messages[int(index)] = EnvelopeMessage(
            name=one.name,
            content=one.content,
            role=one.role,
            attachments=one.attachments,
            envelope=Envelope.model_validate(envelope),
            whole=(),
        )
    return structs.replace(Turn(task, History.of(messages), attachments=attachments), **read)


def recorded_turn(started: RunStarted, bodies: RecordedBodies) -> Turn:
    """Rebuild the turn that a child run answers from its first event."""
    assert started.placed is not None
    fields = cast("dict[str, JsonValue]", bodies.value(started.placed.turn))
    history = bodies.messages(started.history)
    return turn_from(fields, str(bodies.value(started.task)), history, started.attachments)


def placed_fact(recorder: Recorder, given: PlacedInput) -> PlacedTurn:
    """Return what a child run records of its turn."""
    return PlacedTurn(turn=recorder.store(turn_fields(given.turn)), artifacts=given.artifacts, depth=given.depth)


def record_values(recorder: Recorder, given: PlacedInput) -> None:
    """Record the values of the parent's workspace that the child run begins with."""
    for name, held in given.values.items():
        fact = WorkspaceWritten(name=name, revision=1, body=recorder.store(held.value), by=held.by)
        recorder.add("", GIVEN + name, fact)


def pointed_artifacts(turn: Turn) -> set[Body]:
    """Return the artifacts that the texts of a turn point to."""
    return {found for text in (turn.task, *(one.content for one in turn.history)) for found in _POINTED.findall(text)}
