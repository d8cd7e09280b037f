"""The difference of two versions says what a person has to judge, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.strategies.expressions import literal_template
from teamwright.strategies.plan.plan_change import plan_after, plan_difference, plan_text
from teamwright.values.specs.plan import Pins, Plan, Step

ONE = Plan(steps=(Step(id="a", task="Look."), Step(id="b", needs=("a",)), Step(id="c")), variables={"n": 1, "m": 2})


def test_equal_plans_do_not_differ_whatever_a_run_keeps() -> None:
    same = ONE.with_status("a", "completed").model_copy(update={"version": 7, "status": "executing", "pins": Pins()})
    assert not plan_difference(ONE, same)


def test_a_difference_is_readable() -> None:
    other = Plan(
        steps=(
            Step(id="a", task="Look again."),
            Step(id="b", needs=("a",)),
            Step(id="d", parallel="competitive_parallel", merge="vote", agents=("x", "y"), needs=("a",), task="Say."),
        ),
        variables={"n": 3},
    )
    found = plan_difference(ONE, other)
    assert found.steps == ("d", "c", "a")
    assert str(found).splitlines() == [
        "+ d (x, y, competitive_parallel, vote, after a): Say.",
        "- c (c)",
        '~ a: task: "Look." → "Look again."',
        "~ variables.n: 1 → 3",
        "~ variables.m: 2 → nothing",
    ]


@pytest.mark.parametrize("text", ["Use {{ name }} and {% raw %}.", "{#1", '{{ "a" }}'])
def test_text_that_is_no_template_is_shown_as_it_was_written(text: str) -> None:
    literal, parts = literal_template(text), [{"id": "p", "agent": "a", "task": literal_template(text)}]
    before = Plan(steps=(Step(id="a", task=literal), Step(id="b")))
    assert plan_difference(None, before).lines == (f"+ a (a): {text}", "+ b (b)")
    split = Step.model_validate({"id": "b", "parallel": "subtask_parallel", "parts": parts})
    after = Plan(steps=(Step(id="a", task=f"{literal} Go."), split))
    lines = plan_difference(before, after).lines
    assert f"~ a: task: {json.dumps(text)} → {json.dumps(f'{text} Go.')}" in lines
    assert any(json.dumps(text) in line for line in lines if line.startswith("~ b: parts"))


def test_a_change_of_what_is_escaped_alone_is_shown_as_it_is() -> None:
    before = Plan(steps=(Step(id="a", task=literal_template("{{ task }}")),))
    lines = plan_difference(before, Plan(steps=(Step(id="a", task="{{ task }}"),))).lines
    assert lines == (r'~ a: task: "{{ \"{{\" }} task }}" → "{{ task }}"',)


def test_without_a_plan_before_all_of_it_is_new() -> None:
    assert plan_difference(None, ONE).steps == ("a", "b", "c")


BEFORE: JsonValue = {
    "steps": [{"id": "a", "agent": "x", "task": "Look."}, {"id": "b", "needs": ["a"]}],
    "variables": {"n": 1, "m": 2},
    "version": 3,
}


def test_steps_in_another_order_make_no_difference_and_new_ones_come_last() -> None:
    edited: JsonValue = {
        "steps": [{"id": "c"}, {"id": "b", "needs": ["a"]}, {"id": "a", "agent": "x", "task": "Look."}]
    }
    after: Any = plan_after(BEFORE, edited)
    assert [step["id"] for step in after["steps"]] == ["a", "b", "c"]


def test_no_plan_is_no_text() -> None:
    assert plan_text(None) == ""
    assert plan_text({"steps": []}) == '{\n  "steps": []\n}'


def test_keys_in_another_order_make_no_difference() -> None:
    edited: JsonValue = {
        "version": 3,
        "variables": {"m": 2, "n": 1},
        "steps": [{"task": "Look.", "id": "a", "agent": "x"}, {"needs": ["a"], "id": "b"}],
    }
    assert json.dumps(plan_after(BEFORE, edited)) == json.dumps(BEFORE)


def test_a_new_field_comes_after_those_that_were_there() -> None:
    after: Any = plan_after(BEFORE, {"steps": [{"priority": 2, "task": "Look.", "id": "a"}], "variables": {}})
    assert list(after) == ["steps", "variables", "version"]
    assert list(after["steps"][0].items()) == [("id", "a"), ("task", "Look."), ("priority", 2)]


def test_a_plan_of_tasks_is_shown_as_one_of_steps() -> None:
    before: Any = BEFORE
    edited: JsonValue = {"tasks": before["steps"], "variables": {"n": 2}}
    assert plan_after(BEFORE, edited) == {"steps": before["steps"], "variables": {"n": 2}, "version": 3}


def test_what_a_run_keeps_is_no_difference_where_an_edit_leaves_it_out() -> None:
    before: JsonValue = {"steps": [{"id": "a", "status": "completed"}], "status": "executing", "version": 2, "pins": {}}
    assert json.dumps(plan_after(before, {"steps": [{"id": "a"}]})) == json.dumps(before)


def test_a_change_is_shown_as_the_plan_after_it() -> None:
    change: JsonValue = {
        "put": [{"task": "Look up.", "id": "a"}, {"id": "c"}],
        "remove": ["b"],
        "variables": {"n": None},
    }
    assert plan_after(BEFORE, change) == {
        "steps": [{"id": "a", "task": "Look up."}, {"id": "c"}],
        "variables": {"m": 2},
        "version": 3,
    }


@pytest.mark.parametrize("edit", [None, "text", [], 3, {}, {"steps": None}, {"steps": [None, 3]}])
def test_what_is_no_plan_stands_for_itself(edit: JsonValue) -> None:
    assert plan_after(BEFORE, edit) == edit
    assert plan_after(None, edit) == edit


@pytest.mark.parametrize("change", [{"put": None}, {"put": [3, None]}, {"remove": "b"}, {"remove": [{}]}])
def test_a_change_that_is_wrong_can_be_shown(change: JsonValue) -> None:
    assert isinstance(plan_after(BEFORE, change), dict)
