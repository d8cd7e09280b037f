"""Events and interventions as text: what is decoded is what was encoded, and damage is reported as such."""

from __future__ import annotations

import json

import pytest

from teamwright.events import AgentAsked, AgentReturned, Event
from teamwright.journal import (
    JournalCorrupt,
    JournalTooNew,
    body_references,
    decode_event,
    decode_intervention,
    encode_event,
    encode_intervention,
)
from teamwright.people import Answer, Answered, Cancel, Intervention, Mark, Pause
from teamwright.testing import a_fact_of_each_kind
from teamwright.values.turns.messages import digest


def test_an_event_of_each_kind_is_decoded_as_it_was() -> None:
    for number, fact in enumerate(a_fact_of_each_kind()):
        event = Event("run", number, 1_700_000_000.25, "team/a", f"place-{number}", fact)
        text = encode_event(event)
        assert "\n" not in text
        assert decode_event("run", text) == event


@pytest.mark.parametrize(
    "sent", [Pause(by="ada"), Cancel(reason="x"), Mark(name="m"), Answered(key="a/b", answer=Answer(text="yes"))]
)
def test_an_intervention_is_decoded_as_it_was(sent: Intervention) -> None:
    assert decode_intervention("run", 1, encode_intervention(sent)) == sent


ROW = json.loads(encode_event(Event("run", 3, 1.5, "a", "b", a_fact_of_each_kind()[0])))


@pytest.mark.parametrize(
    "text", ["", "no JSON", "{}", "[]", json.dumps(ROW[:6]), json.dumps(["3", *ROW[1:]]), json.dumps([-1, *ROW[1:]]),
             json.dumps([*ROW[:4], "no.kind", *ROW[5:]]), json.dumps([*ROW[:5], "no JSON", ROW[6]])]
)  # fmt: skip
def test_a_damaged_event_is_reported(text: str) -> None:
    with pytest.raises(JournalCorrupt, match="run 'run' is damaged"):
        decode_event("run", text)


def test_an_event_of_a_later_version_is_reported_as_such() -> None:
    with pytest.raises(JournalTooNew, match="newer version"):
        decode_event("run", json.dumps([*ROW[:6], 999]))


def test_the_bodies_of_an_event_are_found() -> None:
    body = digest("text")
    assert body_references(Event("run", 1, 1.0, "", "", AgentReturned(body=body))) == {body}


def test_the_digest_of_a_turn_is_no_body() -> None:
    task, turn = digest("task"), digest("turn")
    asked = AgentAsked(member="a", member_kind="function", turn=1, task=task, length=0, digest=turn)
    assert body_references(Event("run", 1, 1.0, "", "", asked)) == {task}
