"""The difference of two versions says what a person has to judge, and nothing else."""

from __future__ import annotations

from teamwright.strategies.plan.changes.difference import plan_difference
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


def test_without_a_plan_before_all_of_it_is_new() -> None:
    assert plan_difference(None, ONE).steps == ("a", "b", "c")
