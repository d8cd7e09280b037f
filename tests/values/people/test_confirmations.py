from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.values.people.approvals import approval_question, check_answer
from teamwright.values.people.confirmations import CONFIRM_CHOICES, is_confirmation, read_ceiling
from teamwright.values.people.questions import Answer, Question

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
