from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.values.people.approvals import Approve, approval_question, check_answer, review_question
from teamwright.values.people.questions import Answer, Question

REVIEW = review_question("What becomes of it?", "the work")
TEXT, ARGUMENTS = approval_question("May it?", "draft"), approval_question("May it?", "{}", form="json")


@pytest.mark.parametrize(
    ("tools", "named", "grouped", "other"),
    [(False, False, False, False), (True, True, True, True), (("deploy", "files"), True, True, False)],
)
def test_a_tool_needs_a_person_by_its_name_or_by_what_it_came_with(
    tools: bool | tuple[str, ...], named: bool, grouped: bool, other: bool
) -> None:  # P-12
    approve = Approve(tools=tools)
    assert approve.needed_for("deploy") == named
    assert approve.needed_for("read", "files") == grouped
    assert approve.needed_for("look") == other


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
