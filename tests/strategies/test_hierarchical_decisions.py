"""The decisions of an orchestrator, and how leniently they are parsed."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from teamwright.strategies.hierarchical import (
    Clarify,
    Decision,
    Delegate,
    Delegation,
    Synthesize,
    decision_schema,
    read_decision,
)
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.turns.turn import Reply

KNOWN = ["security", "style"]


def read(value: object) -> Decision | ParseFailure:
    text = value if isinstance(value, str) else json.dumps(value)
    return read_decision(Reply.of("lead", text), KNOWN, 3)


def work(*pairs: tuple[str, str]) -> Delegate:
    return Delegate(action="delegate", delegations=tuple(Delegation(specialist=who, task=what) for who, what in pairs))


@pytest.mark.parametrize(
    "written",
    [
        {"action": "delegate", "delegations": [{"specialist": "style", "task": "look"}]},
        {"action": "delegate", "delegations": {"specialist": "style", "task": "look"}},
        {"action": "delegate", "specialist": "style", "task": "look"},
        {"action": "delegate", "specialistId": "style", "subtask": "look"},
        {"action": " Delegate ", "specialist_id": "Style ", "task": "look", "why": "it is wild"},
    ],
)
def test_a_delegation_is_read_in_each_of_its_spellings(written: object) -> None:  # P-06
    assert read(written) == work(("style", "look"))


def test_several_may_be_asked_at_once_and_one_twice() -> None:  # P-06
    pairs = [("style", "names"), ("security", "input"), ("style", "comments")]
    asked = [{"specialist": who, "task": what} for who, what in pairs]
    assert read({"action": "delegate", "delegations": asked}) == work(*pairs)


def test_a_task_may_be_an_object_for_specialists_that_accept_one() -> None:
    decision = read({"action": "delegate", "specialist": "style", "task": {"file": "a.py"}})
    assert decision == work(("style", '{"file":"a.py"}'))


def test_the_answer_may_be_data() -> None:
    decision = read({"action": "synthesize", "synthesis": {"approved": True}})
    assert isinstance(decision, Synthesize)
    assert (decision.synthesis, decision.text) == ({"approved": True}, '{"approved":true}')


def test_a_question_may_offer_choices() -> None:
    decision = read({"action": "clarify", "question": "Which?", "choices": ["this", "that"]})
    assert decision == Clarify(action="clarify", question="Which?", choices=("this", "that"))


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"action": "delegate", "specialist": "stile", "task": "x"}, "no specialist 'stile'; did you mean 'style'?"),
        ({"action": "delegate", "specialist": "cook", "task": "x"}, "no specialist 'cook'; known are security, style"),
        ({"action": "delegate", "delegations": []}, "at 'delegate/delegations'"),
        ({"action": "delegate", "delegations": [{"specialist": "style"}]}, "at 'delegate/delegations/0/task'"),
        ({"action": "delegate", "specialist": "style", "task": ""}, "at 'delegate/delegations/0/task'"),
        ({"action": "delegate"}, "at 'delegate/delegations/0/specialist'"),
        ({"action": "dance"}, "'dance'"),
        ({"specialist": "style"}, "'action'"),
        ({"action": "synthesize"}, "at 'synthesize/synthesis': Field required"),
        ({"action": "clarify", "question": None}, "at 'clarify/question'"),
        ("Let style have a look.", "it holds no JSON"),
        ([1, 2], "object"),
    ],
)
def test_a_decision_that_cannot_be_used_says_why(written: object, problem: str) -> None:  # P-06
    found = read(written)
    assert isinstance(found, ParseFailure)
    assert problem in found.problem


def test_one_decision_hands_out_only_so_many_tasks() -> None:
    found = read({"action": "delegate", "delegations": [{"specialist": "style", "task": "x"}] * 4})
    assert found == ParseFailure("it delegates 4 tasks at once, and at most 3 are allowed")


def test_letters_that_fit_two_specialists_mean_neither() -> None:
    reply = Reply.of("lead", json.dumps({"action": "delegate", "specialist": "ANN", "task": "x"}))
    assert isinstance(read_decision(reply, ["Ann", "ann"], 3), ParseFailure)


def test_the_schema_takes_each_decision_and_no_other_specialist() -> None:
    schema = decision_schema(KNOWN)
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert schema["type"] == "object"
    for fitting in (
        {"action": "delegate", "delegations": [{"specialist": "style", "task": "x"}]},
        {"action": "synthesize", "synthesis": "x"},
        {"action": "clarify", "question": "x"},
    ):
        assert check.is_valid(fitting)
    assert not check.is_valid({"action": "delegate", "delegations": [{"specialist": "cook", "task": "x"}]})
