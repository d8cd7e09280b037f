"""The options, and how invalid ones are refused."""

from __future__ import annotations

from typing import cast

import pytest

from teamwright.errors import UsageError
from teamwright.lab.evaluation.options import FIELDS, Options, inputs_of, settings_from
from teamwright.lab.topology.model import EvaluationSettings, Gates


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
