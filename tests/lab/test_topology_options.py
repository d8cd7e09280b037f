"""The options, the dimensions of a sweep, and how invalid ones are refused."""

from __future__ import annotations

from typing import cast

import pytest

from teamwright.errors import UsageError
from teamwright.lab.topology_model import EvaluationSettings, Gates
from teamwright.lab.topology_options import AXES, FIELDS, Dimensions, Options, axes_from, inputs_of, settings_from


def test_options_and_inputs_have_the_same_names() -> None:
    assert list(inputs_of(EvaluationSettings())) == list(FIELDS)
    assert set(Options.__annotations__) == set(FIELDS)


def test_inputs_lead_back_to_the_settings() -> None:
    settings = EvaluationSettings(
        tasks=7,
        average_tokens=9,
        rounds=2,
        budget="low",
        topologies=("star_team", "single"),
        recommendation="cost",
        gates=Gates(max_coordination_ratio=0.5, min_pass_rate=0.1, max_p95_latency_s=3.5),
    )
    assert settings_from(cast("Options", inputs_of(settings))) == settings


def test_what_is_not_set_is_as_usual() -> None:
    assert settings_from({}) == EvaluationSettings()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tasks": 0}, "tasks is 0, expected a whole number from 1 to 10 000 000."),
        ({"tasks": "many"}, "tasks is 'many', expected a whole number from 1 to 10 000 000."),
        ({"avg_task_tokens": 0}, "avg_task_tokens is 0, expected a whole number from 1 to 100 000 000."),
        ({"coordination_rounds": -1}, "coordination_rounds is -1, expected a whole number from 0 to 1 000 000."),
        ({"min_pass_rate": 1.01}, "min_pass_rate is 1.01, expected a number above 0 and below 1."),
        ({"max_coordination_ratio": -0.1}, "max_coordination_ratio is -0.1, expected a number above 0 and below 1."),
        ({"max_p95_latency": float("inf")}, "max_p95_latency is inf, expected a number above 0."),
        ({"max_p95_latency": float("nan")}, "max_p95_latency is nan, expected a number above 0."),
        ({"budget": "hihg"}, "budget is 'hihg', expected low, medium or high; did you mean 'high'?"),
        ({"workload": "x"}, "workload is 'x', expected implementation, debugging, research or mixed."),
        ({"recommend": "speed"}, "recommend is 'speed', expected balanced, cost or quality."),
        (
            {"topologies": []},
            "topologies is [], expected single, lead_subagent, star_team or mesh_team (or lead, star, mesh).",
        ),
        ({"colour": "red"}, f"There is no option 'colour' of the lab; known are {', '.join(FIELDS)}."),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected(options: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings_from(cast("Options", options))
    assert str(refused.value) == expected


def test_every_mistake_is_reported_once() -> None:
    with pytest.raises(UsageError) as refused:
        settings_from(cast("Options", {"tasks": 0, "topologies": ["ring", "star", "bus"], "min_pass_rate": 2}))
    assert [line.split(",")[0] for line in str(refused.value).splitlines()] == [
        "tasks is 0",
        "min_pass_rate is 2",
        "topologies is 'ring'",
        "topologies is 'bus'",
    ]


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
def test_a_dimension_that_does_not_fit_is_refused_with_what_was_expected(
    dimensions: dict[str, object], expected: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read(**dimensions)
    assert expected in str(refused.value)
