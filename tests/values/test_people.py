"""Approvals, confirmations and interventions."""

from __future__ import annotations

import pytest
from msgspec import ValidationError, convert, json
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.values.people import (
    CONFIRM_CHOICES,
    Answer,
    Answered,
    Cancel,
    Confirm,
    Intervention,
    Pause,
    Question,
    approval_question,
    check_answer,
    is_confirmation,
    read_ceiling,
    review_question,
)

REVIEW = review_question("What becomes of it?", "the work")
TEXT, ARGUMENTS = approval_question("May it?", "draft"), approval_question("May it?", "{}", form="json")


@pytest.mark.parametrize(
    ("tools", "named", "grouped", "other"),
    [(False, False, False, False), (True, True, True, True), (("deploy", "files"), True, True, False)],
)
def test_a_tool_needs_a_person_by_its_name_or_by_what_it_came_with(
    tools: bool | tuple[str, ...], named: bool, grouped: bool, other: bool
) -> None:  # P-12
    confirm = Confirm(tools=tools)
    assert confirm.needed_for("deploy") == named
    assert confirm.needed_for("read", "files") == grouped
    assert confirm.needed_for("look") == other


def test_an_approval_is_a_question_with_three_answers() -> None:
    assert (TEXT.choices, TEXT.reason, TEXT.draft) == (("approve", "edit", "reject"), "approval", "draft")


@pytest.mark.parametrize(
    ("question", "given", "taken"),
    [
        (TEXT, Answer.approve(by="Ada"), Answer(text="approve", by="Ada")),
        (TEXT, Answer.reject("no"), Answer(text="reject", data="no")),
        (TEXT, Answer.reject(), Answer(text="reject")),
        (TEXT, Answer.edit(""), Answer(text="edit", data="")),
        (ARGUMENTS, Answer.edit('{"n": [1]}'), Answer(text="edit", data={"n": [1]})),
        (ARGUMENTS, Answer.edit({"n": 1}), Answer(text="edit", data={"n": 1})),
        (REVIEW, Answer(text="accept"), Answer(text="accept")),
        (REVIEW, Answer(text="revise", data="shorter"), Answer(text="revise", data="shorter")),
        (REVIEW, Answer(text="revise"), Answer(text="revise")),
        (Question(text="?"), Answer(text="anything", data=1), Answer(text="anything", data=1)),
    ],
)
def test_an_answer_is_taken_as_the_question_needs_it(question: Question, given: Answer, taken: Answer) -> None:
    assert check_answer(question, "k", given) == taken


@pytest.mark.parametrize(
    ("question", "data"), [(TEXT, None), (TEXT, {}), (ARGUMENTS, "{"), (ARGUMENTS, [1]), (ARGUMENTS, 1)]
)
def test_an_edit_of_another_form_is_refused(question: Question, data: JsonValue) -> None:
    with pytest.raises(UsageError, match="'k'"):
        check_answer(question, "k", Answer.edit(data))


@pytest.mark.parametrize(
    "given", [Answer.approve(), Answer(text="accept", data="a note"), Answer(text="revise", data=["a", "list"])]
)
def test_a_decision_about_a_review_is_one_of_three_and_only_a_revision_has_a_note(given: Answer) -> None:
    with pytest.raises(UsageError, match="'k'"):
        check_answer(REVIEW, "k", given)


def test_a_note_that_is_not_a_text_is_refused_as_such() -> None:
    with pytest.raises(UsageError, match="The note of the answer 'revise' to 'k' must be a text, not 3"):
        check_answer(REVIEW, "k", Answer(text="revise", data=3))


QUESTION = Question(text="May it begin?", choices=CONFIRM_CHOICES, reason="approval", draft="$1")


def test_a_confirmation_is_told_from_other_approvals() -> None:
    assert is_confirmation(QUESTION)
    assert not is_confirmation(approval_question("May it begin?", "the draft"))


@pytest.mark.parametrize(
    ("written", "ceiling"),
    [
        ("0.50 usd", {"usd": 0.5}),
        ("$2", {"usd": 2.0}),
        ("2 $", {"usd": 2.0}),
        ("20000 tokens", {"tokens": 20000}),
        ("20 000 Tokens", {"tokens": 20000}),
        ("1,000 tokens", {"tokens": 1000}),
        ("5", None),
        ("five dollars", None),
        ("1.2.3 usd", None),
        ("1.5 tokens", None),
    ],
)
def test_a_ceiling_is_written_as_an_amount_and_its_unit(written: str, ceiling: dict[str, float] | None) -> None:
    assert read_ceiling(written) == ceiling


@pytest.mark.parametrize(
    ("given", "data"), [({"usd": 1}, {"usd": 1.0}), ("300 tokens", {"tokens": 300}), ({"tokens": 3, "usd": 1.5}, None)]
)
def test_a_smaller_run_has_a_ceiling(given: JsonValue, data: JsonValue) -> None:
    assert check_answer(QUESTION, "t/confirm", Answer(text="smaller", data=given)).data == (data or given)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(text="smaller"), "needs its ceiling:  --max-usd X"),
        (Answer(text="smaller", data={"euro": 1}), "needs its ceiling"),
        (Answer(text="smaller", data="less"), "needs its ceiling"),
        (Answer(text="smaller", data={"usd": 0}), "must be a number above 0"),
        (Answer(text="smaller", data={"usd": True}), "must be a number above 0"),
        (Answer(text="smaller", data={"tokens": 0.5}), "must be at least 1"),
        (Answer(text="maybe"), "choose one of yes, smaller, no"),
    ],
)
def test_an_answer_that_can_not_be_used_is_refused_with_what_it_needs(answer: Answer, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_answer(QUESTION, "t/confirm", answer)


@pytest.mark.parametrize(
    "sent", [Answered(key="t/q", answer=Answer(text="yes", data={"n": 1}, by="me")), Cancel(reason="late"), Pause()]
)
def test_an_intervention_is_identified_by_its_kind(sent: Intervention) -> None:
    assert json.decode(json.encode(sent), type=Intervention) == sent
    assert sent.to_json()["kind"] == sent.kind


def test_an_intervention_of_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        convert({"kind": "dance"}, Intervention)
