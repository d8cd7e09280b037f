"""The turn that a child run answers, as its first event records it, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from msgspec import convert, structs
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.history.record.run_record import RunRecord
from teamwright.runtime.driver.recorder import Recorder
from teamwright.runtime.driver.run_input import PlacedInput
from teamwright.runtime.ordering.path_locks import Holding
from teamwright.runtime.scope import Scope
from teamwright.values.call_limits import Compact, Recovery
from teamwright.values.events.agent import Body, WorkspaceWritten
from teamwright.values.events.run import PlacedTurn
from teamwright.values.limits import Amounts
from teamwright.values.owned_paths import Owned
from teamwright.values.turns.artifacts import POINTER, Artifact, SharedValue
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, EnvelopeMessage
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import HandoffTarget, Turn

GIVEN: Final = "given-"
"""The place of a value of the parent's workspace in the child begins with this."""
RECOVERY, OWNED, NOTES_TEAM = "recovery", "owned", "notes_team"
"""What is recorded with the fields of the turn: what the member has of the teams and steps around it."""
_POINTED = re.compile(re.escape(POINTER) + r"([0-9a-f]{40})")
_PLAIN = ("number", "purpose", "max_output", "tier", "quotes_task", "since", "aside", "closing")
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
    if turn.envelope_limits is not None:
        fields["envelope_limits"] = EnvelopeLimits.model_validate(
            dict(turn.envelope_limits), extra="ignore"
        ).model_dump(mode="json")
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


def turn_from(said: Mapping[str, Any], task: str, history: History, attachments: tuple[Artifact, ...]) -> Turn:
    """Rebuild a turn from its recorded parts."""
    read: dict[str, object] = {name: said[name] for name in _PLAIN if name in said}
    if "tools" in said:
        read["tools"] = tuple(said["tools"])
    if "output_schema" in said:
        read["output_schema"] = said["output_schema"]
    if "left" in said:
        read["left"] = convert(said["left"], Amounts)
    if "envelope_limits" in said:
        read["envelope_limits"] = EnvelopeLimits.model_validate(said["envelope_limits"])
    if "compact" in said:
        read["compact"] = Compact.model_validate(said["compact"])
    if "handoffs" in said:
        read["handoffs"] = tuple(HandoffTarget(*one) for one in said["handoffs"])
    if "envelopes" in said:
        history = History.of(_with_envelopes(history, said["envelopes"]))
    return structs.replace(Turn(task, history, attachments=attachments), **read)


def _with_envelopes(history: History, envelopes: Mapping[str, JsonValue]) -> Iterator[Message]:
    for index, one in enumerate(history):
        envelope = envelopes.get(str(index))
        yield (
            one
            if envelope is None
            else EnvelopeMessage(
                name=one.name,
                content=one.content,
                role=one.role,
                attachments=one.attachments,
                envelope=Envelope.model_validate(envelope),
                whole=(),
            )
        )


def recorded_turn(record: RunRecord, task: str, history: History) -> Turn:
    """Rebuild the turn that a run answers from its first event, with its task and history."""
    return turn_from(_said(record), task, history, record.start.attachments)


def inherit(scope: Scope, turn: Turn, record: RunRecord) -> None:
    """Let the outermost scope of a child run have what its member would have in the parent."""
    said = _said(record)
    scope.compact = turn.compact
    if RECOVERY in said:
        scope.recovery = Recovery.model_validate(said[RECOVERY])
    if OWNED in said:
        scope.holding = Holding(Owned(tuple(map(tuple, said[OWNED]))))


def notes_team_of(record: RunRecord) -> str:
    """Return the team that the notes of agents in a child run belong to; empty for any other run."""
    return _said(record).get(NOTES_TEAM, "")


def _said(record: RunRecord) -> Mapping[str, Any]:
    if record.started is None or record.started.placed is None:
        return {}
    return cast("Mapping[str, Any]", record.bodies.value(record.started.placed.turn))


def placed_fact(recorder: Recorder, given: PlacedInput) -> PlacedTurn:
    """Return what a child run records of its turn."""
    fields = {**turn_fields(given.turn), NOTES_TEAM: given.notes_team}
    if given.recovery is not None:  # its fallback stands in for the child, in the parent
        fields[RECOVERY] = given.recovery.model_dump(mode="json", exclude={"fallback"})
    if given.owned.levels:
        fields[OWNED] = [list(level) for level in given.owned.levels]
    return PlacedTurn(turn=recorder.store(fields), artifacts=given.artifacts, depth=given.depth)


def record_values(recorder: Recorder, given: PlacedInput) -> None:
    """Record the values of the parent's workspace that the child run begins with."""
    for name, held in given.values.items():
        fact = WorkspaceWritten(name=name, revision=1, body=recorder.store(held.value), by=held.by)
        recorder.add("", GIVEN + name, fact)


def pointed_artifacts(turn: Turn, values: Mapping[str, SharedValue]) -> set[Body]:
    """Return the artifacts that the texts of a turn, and the values of the workspace, point to."""
    shared = to_json([held.value for held in values.values()]).decode()
    texts = (turn.task, *(one.content for one in turn.history), shared)
    return {found for text in texts for found in _POINTED.findall(text)}
