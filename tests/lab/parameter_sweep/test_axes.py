"""How the dimensions of a sweep are written."""

from __future__ import annotations

from typing import cast

import pytest

from teamwright.errors import UsageError
from teamwright.lab.parameter_sweep.axes import AXES, Dimensions, axes_from


class Whole(int):
    """A whole number of another type, as libraries for arrays have."""


def read(**dimensions: object) -> dict[str, tuple[str | int, ...]]:
    axes = axes_from(cast("Dimensions", dimensions))
    return {name: axes.values(name) for name in AXES}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("8:64:8", tuple(range(8, 65, 8))),
        ("8:20:8", (8, 16)),
        ("3:5", (3, 4, 5)),
        ("7", (7,)),
        ("9, 1:3 ,2", (9, 1, 2, 3)),
        (5, (5,)),
        (range(1, 4), (1, 2, 3)),
        (map(Whole, range(1, 4)), (1, 2, 3)),
    ],
)
def test_numbers_are_lists_or_ranges_with_their_end_in_them(given: object, expected: tuple[int, ...]) -> None:
    found = read(tasks=given)["tasks"]
    assert found == expected
    assert all(type(value) is int for value in found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("all", ("low", "medium", "high")),
        ("high,low", ("high", "low")),
        (["low", "low"], ("low",)),
        ("medium", ("medium",)),
    ],
)
def test_words_are_lists_or_all(given: object, expected: tuple[str, ...]) -> None:
    assert read(budgets=given)["budget"] == expected


def test_topologies_have_short_names() -> None:
    assert read(topologies="mesh,single,star-team")["topology"] == ("mesh_team", "single", "star_team")
    with pytest.raises(UsageError, match="topologies is 'my-ring', expected single"):
        read(topologies="mesh,my-ring")


def test_what_is_not_named_has_its_usual_value() -> None:
    assert read() == {
        "budget": ("medium",),
        "workload": ("mixed",),
        "protocol": ("a2a_lite",),
        "degradation": ("none",),
        "tasks": (24,),
        "avg_task_tokens": (1400,),
        "coordination_rounds": (4,),
        "topology": ("single", "lead_subagent", "star_team", "mesh_team"),
    }


@pytest.mark.parametrize(
    ("dimensions", "expected"),
    [
        ({"tasks": "8:a"}, "tasks is '8:a', expected a whole number from 1 to 10 000 000, several as in 8,16,32, or a"),
        ({"tasks": "9:8"}, "or a range as in 8:64:8"),
        ({"tasks": "1:9:0"}, "or a range as in 8:64:8"),
        ({"tasks": "0:8"}, "tasks is '0:8', expected a whole number from 1 to 10 000 000"),
        ({"tasks": "-3"}, "tasks is -3, expected a whole number from 1 to 10 000 000"),
        ({"tasks": True}, "tasks is True, expected a whole number"),
        ({"tasks": [2.5]}, "tasks is 2.5, expected a whole number"),
        ({"tasks": []}, "tasks is [], expected a whole number"),
        ({"coordination_rounds": [1, -1]}, "coordination_rounds is -1, expected a whole number from 0 to 1 000 000"),
        ({"budgets": "lo"}, "budget is 'lo', expected low, medium or high; did you mean 'low'?"),
        ({"budgets": ""}, "budget is '', expected low, medium or high"),
        ({"topologies": "ring"}, "topologies is 'ring', expected single, lead_subagent, star_team or mesh_team"),
        ({"colours": "red"}, "There is no dimension 'colours'; known are budgets, workloads"),
        ({"tasks": "1:1000", "avg_task_tokens": "1:2000"}, "A sweep of 8 000 000 cells is too large, expected at most"),
        ({"avg_task_tokens": "1:99999999"}, "has 99 999 999 values, expected at most 200 000"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected(dimensions: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(**dimensions)
    assert expected in str(refused.value)
