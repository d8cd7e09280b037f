"""Heat maps: what is drawn where."""

from __future__ import annotations

import re

import pytest

from teamwright.errors import UsageError
from teamwright.lab import sweep
from teamwright.lab.evaluation.heatmap import MOST_FIELDS, colour


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_there_is_a_panel_for_each_topology_with_the_longest_dimensions() -> None:
    shown = texts(sweep(budgets="all", tasks="8:64:8", coordination_rounds="0:9").svg())
    assert shown[0] == "coordination_ratio"
    assert "mean over budget" in shown[1]
    assert [one for one in shown if one.endswith(("_team", "single", "subagent"))] == [
        "single", "lead_subagent", "star_team", "mesh_team",
    ]  # fmt: skip
    assert shown.index("coordination_rounds") > 0
    assert "tasks" in shown


def test_with_one_dimension_topologies_are_the_other() -> None:
    shown = texts(sweep(tasks="8:64:8").svg("total_tokens"))
    assert {"tasks", "topology", "8", "64", "mesh_team"} <= set(shown)


def test_the_dimensions_can_be_named() -> None:
    shown = texts(sweep(budgets="all", tasks="8:64:8", coordination_rounds="0:9").svg(x="budget", y="tasks"))
    assert {"low", "medium", "high", "64"} <= set(shown)


def test_the_dot_and_the_hatching_are_where_the_recommendation_and_the_failures_are() -> None:
    svg = sweep().svg()
    assert svg.count('fill="url(#fails)"') == 2 + 1, "single and mesh fail, and the legend shows it"
    assert svg.count("<circle") == 1 + 1


def test_long_dimensions_are_put_together() -> None:
    svg = sweep(tasks="1:4000", topologies="star").svg(y="topology")
    assert (
        len(re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="[\d.]+" height="[\d.]+" fill="#', svg)) == MOST_FIELDS + 60
    )


@pytest.mark.parametrize(
    ("value", "x", "y", "expected"),
    [
        ("topology", None, None, "'topology' can't be drawn as a heat map; use one of budget_headroom_tokens"),
        ("price", None, None, "'price' can't be drawn as a heat map"),
        (None, "colour", None, "There is no dimension 'colour', expected one of budget, workload"),
        (None, "tasks", "tasks", "both are 'tasks'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(value: str | None, x: str | None, y: str | None, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        sweep().svg(value, x, y)
    assert expected in str(refused.value)


def test_colours_go_from_light_to_dark() -> None:
    lightness = [sum(int(colour(step / 20)[at : at + 2], 16) for at in (1, 3, 5)) for step in range(21)]
    assert lightness == sorted(lightness, reverse=True)
    assert colour(-1) == colour(0)
    assert colour(2) == colour(1)
