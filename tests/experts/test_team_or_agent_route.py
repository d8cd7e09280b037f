from __future__ import annotations

import pytest

from teamwright.experts.team_or_agent import (
    AskRequest,
    Complexity,
    Route,
    Signal,
    route_by_default,
    route_by_score,
    route_by_signals,
)

MIDDLE = Complexity(0.5, (Signal("fields", 3, 0.5),))


def by_signals(score: float, *, wants_team: bool = False, names: tuple[str, ...] = ()) -> Route | None:
    return route_by_signals(AskRequest("t", wants_team=wants_team, names=names), Complexity(score))


def test_a_team_that_was_asked_for_is_formed_whatever_the_complexity() -> None:
    route = by_signals(0.0, wants_team=True, names=("analyst",))
    assert route is not None
    assert (route.mode, route.decided_by, route.reason) == ("team", "request", "a team of analyst was asked for")


def test_signals_decide_at_both_ends_and_say_so_with_numbers() -> None:
    low, high = by_signals(0.2), by_signals(0.8)
    assert low is not None
    assert high is not None
    assert (low.mode, low.suggests_team, low.reason) == (
        "agent",
        False,
        "one agent is enough: complexity 0.20 is at most 0.35",
    )
    assert (high.mode, high.suggests_team, high.reason) == (
        "agent",
        True,
        "a team is suggested: complexity 0.80 is above 0.7",
    )


@pytest.mark.parametrize("score", [0.36, 0.5, 0.7])
def test_between_them_a_model_has_to_be_asked(score: float) -> None:
    assert by_signals(score) is None


@pytest.mark.parametrize(("score", "team"), [(0.7, False), (0.71, True), (0.1, False)])
def test_the_threshold_for_a_model_is_the_same_and_strict(score: float, team: bool) -> None:
    route = route_by_score(score, "several fields", MIDDLE)
    assert (route.suggests_team, route.decided_by, route.judged) == (team, "model", score)
    assert f"signals give 0.50 (fields 3 (+0.50)), and a model judged {score:.2f}" in route.reason
    assert route.reason.endswith("; several fields")


def test_what_nobody_decides_goes_to_one_agent() -> None:
    route = route_by_default(MIDDLE, "the model failed")
    assert (route.mode, route.suggests_team, route.decided_by) == ("agent", False, "default")
    assert route.reason.endswith("decides nothing, and the model failed")


def test_a_route_as_json_has_the_number_that_decided() -> None:
    assert route_by_score(0.9, "", MIDDLE).to_json() == {
        "mode": "agent",
        "decided_by": "model",
        "reason": "a team is suggested: signals give 0.50 (fields 3 (+0.50)), and a model judged 0.90,"
        " which is above 0.7",
        "complexity": 0.9,
        "threshold": 0.7,
        "suggests_team": True,
        "signals": [{"name": "fields", "count": 3, "adds": 0.5}],
    }
