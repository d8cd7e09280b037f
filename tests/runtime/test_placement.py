"""A turn that a child run answers is the turn that the parent asked with."""

from __future__ import annotations

import json

import pytest
from pydantic_core import to_json

from teamwright.runtime.placement import pointed_artifacts, turn_fields, turn_from
from teamwright.values.call_limits import Compact
from teamwright.values.limits import Amounts
from teamwright.values.turns.artifacts import POINTER, Artifact, SharedValue
from teamwright.values.turns.messages import Envelope, EnvelopeLimits, EnvelopeMessage, History, Message
from teamwright.values.turns.turn import HandoffTarget, Turn

ENVELOPE = Envelope(
    run_id="one", task_id="step", sender="a", recipient="b", status="done", confidence=80, risk_level="low",
    summary="It is done.", artifacts=(), needs=(), next_action="continue",
)  # fmt: skip
FULL = Turn(
    "the task",
    History.of([Message(name="a", content="Hi", role="user"), EnvelopeMessage.of(ENVELOPE, "b", ())]),
    number=4,
    tools=("search",),
    max_output=300,
    output_schema={"type": "object"},
    left=Amounts(tokens=50),
    tier="economy",
    envelope_limits=EnvelopeLimits(max_needs=2),
    quotes_task=False,
    since=1,
    aside=True,
    closing=True,
    compact=Compact(keep=3),
    attachments=(Artifact(hash="0" * 40, name="file", media_type="text/plain", size=3),),
    handoffs=(HandoffTarget("b", "writes"),),
)


@pytest.mark.parametrize("turn", [Turn("plain"), FULL])
def test_a_turn_is_rebuilt_from_its_recorded_parts(turn: Turn) -> None:
    fields = json.loads(to_json(turn_fields(turn)))
    recorded = [Message(name=one.name, content=one.content, role=one.role) for one in turn.history]
    rebuilt = turn_from(fields, turn.task, History.of(recorded), turn.attachments)
    assert rebuilt.digest == turn.digest
    for name in turn.__struct_fields__:
        if name not in ("history", "envelope_limits"):
            assert getattr(rebuilt, name) == getattr(turn, name)
    assert list(rebuilt.history) == list(turn.history)
    assert rebuilt.envelopes == turn.envelopes
    assert (rebuilt.envelope_limits is None) == (turn.envelope_limits is None)
    if turn.envelope_limits is not None and rebuilt.envelope_limits is not None:
        assert rebuilt.envelope_limits.max_needs == turn.envelope_limits.max_needs


def test_only_artifacts_that_a_turn_or_a_shared_value_points_to_go_with_it() -> None:
    turn = Turn(f"Read {POINTER}{'a' * 40}.", History.of([Message(name="a", content=f"{POINTER}{'b' * 40}")]))
    values = {"drafts": SharedValue(value=[{"first": f"{POINTER}{'c' * 40}"}], version=1, by="a")}
    assert pointed_artifacts(turn, values) == {"a" * 40, "b" * 40, "c" * 40}
