"""Handoffs beside replies: requested, parsed from a reply, derived where there is none, and cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from teamwright.agents.prompt_notices import extract_note, note_instructions, schema_with_note, with_note_block
from teamwright.values.text.display import ELLIPSIS
from teamwright.values.turns.messages import Envelope, EnvelopeLimits, EnvelopeMessage, EnvelopeNote, History, Message
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Usage

POLICY = EnvelopeLimits()
SUMMARY = "All three paths were tried and hold."
FIELDS: dict[str, Any] = {
    "status": "blocked", "confidence": 0.91, "risk_level": "medium", "summary": SUMMARY, "needs": ["a review"],
    "next_action": "hand over",
}  # fmt: skip


LONG = "The answer, which is by far longer than what is said about it in the summary that stands below of it here."


def read(text: str, policy: EnvelopeLimits = POLICY, **more: object) -> tuple[str, EnvelopeNote]:
    """The text without its note, and the note."""
    reply = extract_note(Reply.of("a", text, **more), Turn("go", envelope_limits=policy))
    assert reply.envelope_note is not None
    return reply.text, reply.envelope_note


def fenced(label: str = "envelope", **changes: object) -> str:
    return f"```{label}\n{json.dumps(FIELDS | changes)}\n```"


AS_WRITTEN = EnvelopeNote(
    summary=SUMMARY, status="blocked", confidence=91, risk_level="medium", needs=("a review",), next_action="hand over"
)


@pytest.mark.parametrize(
    "text",
    [
        f"The answer.\n\n{fenced()}",
        f"The answer.\n{fenced()}\n\n",
        f"{fenced()}\nThe answer.",
        f"The answer.\n{fenced('json')}",
        f"The answer.\n{fenced('')}",
        f"The answer.\n```envelope\n{json.dumps(FIELDS, indent=2)}",
    ],
)
def test_the_block_of_an_author_is_read_and_taken_out_of_its_reply(text: str) -> None:  # Z-03
    assert read(text) == ("The answer.", AS_WRITTEN)


def test_what_is_written_is_read_again() -> None:
    assert read(with_note_block("The answer.", AS_WRITTEN)) == ("The answer.", AS_WRITTEN)


@pytest.mark.parametrize(
    "text",
    [
        'The answer.\n```json\n{"summary": "no status, so this belongs to the answer"}\n```',
        f"Like this:\n{fenced('json')}\nThat is all.",
        f"The answer.\n```json\n{json.dumps(FIELDS | {'price': 3})}\n```",
        "The answer.\n```python\nprint(1)\n```",
    ],
)
def test_what_may_be_part_of_the_answer_stays_there(text: str) -> None:
    content, handover = read(text)
    assert content == text
    assert not handover.own


def test_a_block_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    content, handover = read(f'The answer.\n```envelope\n{{"status": "blocked", "summary": "{SUMMARY}')
    assert (content, handover.status, handover.summary) == ("The answer.", "blocked", SUMMARY)
    content, handover = read("The answer, which is long enough.\n```envelope\nno JSON at all\n```")
    assert content == handover.summary == "The answer, which is long enough."


QUOTING = "Call ```run()``` once, see the ```envelope block of the manual, then stop."


@pytest.mark.parametrize("label", ["envelope", "json"])
@pytest.mark.parametrize("indent", [None, 2])
def test_fences_inside_of_a_block_do_not_cut_it_short(label: str, indent: int | None) -> None:  # Z-03
    fields = FIELDS | {"risk_level": "critical", "summary": QUOTING}
    content, handover = read(f"{LONG}\n```{label}\n{json.dumps(fields, indent=indent)}\n```\n")
    assert (content, handover) == (LONG, AS_WRITTEN.changed(risk_level="critical", summary=QUOTING))


def test_what_follows_a_block_with_fences_in_it_stays_in_the_answer() -> None:
    content, handover = read(f"One.\n{fenced(summary=QUOTING, risk_level='high')}\nTwo: ```x```")
    assert (content, handover.risk_level) == ("One.\nTwo: ```x```", "high")


def test_of_several_blocks_the_last_one_counts() -> None:
    content, handover = read(f"Like this: {fenced(summary=QUOTING)}\n{LONG}\n{fenced(risk_level='high')}")
    assert (content.endswith(LONG), handover.risk_level, handover.summary) == (True, "high", SUMMARY)


@pytest.mark.parametrize(
    ("inside", "risk"),
    [
        ("no JSON at all", "medium"),
        ("", "medium"),
        ("[1, 2]", "medium"),
        ('{"summary": "cut', "medium"),
        ('{"risk_level": "low", "summary": "cut', "medium"),
        ('{"risk_level": "critical", "summary": "Call ```run()``` and', "critical"),
        ('{"risk_level": "crit', "medium"),
        ("{'risk_level': 'High', 'summary': 'in other quotes'}\n```", "high"),
        ("risk_level: critical\n```", "critical"),
        ('{"summary": "a\nb", "risk_level": "high"}\n```', "high"),
        ('{"a": ' * 100_000, "medium"),
    ],
)
def test_a_block_that_cannot_be_read_whole_is_never_taken_for_harmless(inside: str, risk: str) -> None:  # Z-03
    content, handover = read(f"{LONG}\n```envelope\n{inside}")
    assert (content, handover.risk_level, handover.own) == (LONG, risk, True)


@pytest.mark.parametrize(
    ("field", "given", "taken"),
    [
        ("status", "finished", "done"),
        ("status", "FAILED", "failed"),
        ("confidence", 70, 70),
        ("confidence", 1.0, 1),
        ("confidence", 250, 100),
        ("confidence", -3, 0),
        ("confidence", "sure", 50),
        ("confidence", True, 50),
        ("risk_level", "High ", "high"),
        ("risk_level", "severe", "medium"),
        ("risk_level", None, "low"),
        ("needs", "one thing", ("one thing",)),
        ("needs", ["", 3, "two"], ("two",)),
        ("needs", None, ()),
        ("next_action", "  ", "continue"),
        ("artifacts", ["docs/plan.md"], ("docs/plan.md",)),
    ],
)
def test_each_field_is_read_for_itself(field: str, given: object, taken: object) -> None:
    block = fenced("envelope", **{field: given})
    _, handover = read(f"The answer.\n{block}")
    assert handover == AS_WRITTEN.changed(**{field: taken})


def test_a_reply_without_a_note_is_its_own_summary() -> None:  # Z-03
    text = "The tide turns at nine in the evening."
    assert read(text) == (text, EnvelopeNote(summary=text, own=False))
    assert read("x" * 400)[1].summary == "x" * 319 + ELLIPSIS
    assert read("42")[1].summary == "The whole answer: 42"


def test_a_summary_that_says_too_little_is_made_from_the_reply() -> None:  # Z-02
    content, handover = read(f"The whole story of the tides.\n{fenced(summary='done')}")
    assert handover.summary == content == "The whole story of the tides."
    assert (handover.own, handover.status) == (True, "blocked")


def test_an_answer_no_longer_than_its_summary_is_passed_whole() -> None:
    content, handover = read(f"It all holds, path by path.\n{fenced()}")
    assert handover.summary == content == "It all holds, path by path."
    assert handover.changed(summary=SUMMARY) == AS_WRITTEN


def test_an_author_that_writes_nothing_but_the_note_has_said_its_summary() -> None:
    assert read(fenced()) == (SUMMARY, AS_WRITTEN)


def test_a_note_in_data_is_taken_out_of_it() -> None:
    data = {"events": [], "envelope": FIELDS}
    reply = extract_note(Reply.of("a", json.dumps(data), data=data), Turn("go", envelope_limits=POLICY))
    assert (reply.data, json.loads(reply.text), reply.envelope_note) == ({"events": []}, {"events": []}, AS_WRITTEN)
    reply = extract_note(Reply.of("a", "In words.", data=data), Turn("go", envelope_limits=POLICY))
    assert (reply.data, reply.text) == ({"events": []}, "In words.")


def test_a_note_that_a_function_gives_is_held_against_the_policy_too() -> None:
    given = EnvelopeNote(summary="s" * 400, risk_level="High", needs=("n",) * 9, next_action="x" * 999)  # pyright: ignore[reportArgumentType]
    _, handover = read("The answer.", envelope_note=given)
    assert (len(handover.summary), len(handover.needs), len(handover.next_action)) == (320, 6, 320)
    assert handover.risk_level == "high"


def test_a_turn_that_asks_for_no_note_leaves_the_reply_alone() -> None:
    reply = Reply.of("a", f"The answer.\n{fenced()}")
    assert extract_note(reply, Turn("go")) is reply


@given(st.text(max_size=700), st.integers(16, 400), st.integers(1, 9))
def test_whatever_is_said_the_note_keeps_to_the_policy(text: str, most: int, needs: int) -> None:  # Z-02, Z-03
    policy = EnvelopeLimits(max_summary_chars=most, max_needs=needs)
    _, handover = read(text, policy)
    envelope = Envelope(
        run_id="r", task_id="t", sender="a", recipient="team", status=handover.status, confidence=handover.confidence,
        risk_level=handover.risk_level, summary=handover.summary, artifacts=handover.artifacts, needs=handover.needs,
        next_action=handover.next_action,
    )  # fmt: skip
    assert policy.check(envelope) == []


def test_what_went_into_envelopes_is_estimated_and_never_more_than_was_used() -> None:
    envelope = Envelope(
        run_id="r", task_id="t", sender="a", recipient="team", status="done", confidence=50, risk_level="low",
        summary="x" * 40, artifacts=(), needs=(), next_action="continue",
    )  # fmt: skip
    history = History.of([EnvelopeMessage.of(envelope, "a", ())])
    turn = Turn("go", history, envelope_limits=POLICY)
    usage = Usage(input_tokens=100, output_tokens=50)

    def tokens(text: str, used: Usage) -> int:
        reply = extract_note(Reply.of("b", text, usage=used), turn)
        return reply.envelope_note.tokens if reply.envelope_note else -1

    told, own = 8 + 10 + 2, 8 + 9 + 3 + 2
    assert tokens("Plain words.", usage) == told
    assert tokens(f"Words.\n{fenced()}", usage) == told + own
    assert tokens(f"Words.\n{fenced()}", Usage(input_tokens=5)) == 5


def test_a_model_receives_how_long_its_summary_may_be() -> None:
    assert "at most 320 characters" in note_instructions(POLICY)
    assert note_instructions(POLICY).endswith("```")
    wanted = schema_with_note({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, POLICY)
    assert wanted["required"] == ["n"]
    assert list(wanted["properties"]) == ["n", "envelope"]  # pyright: ignore[reportArgumentType]
    assert schema_with_note({"type": "array"}, POLICY) == {"type": "array"}


def test_only_envelopes_are_envelopes() -> None:
    assert Turn("go", History.of([Message(name="a", content="status: done")])).envelopes == ()
