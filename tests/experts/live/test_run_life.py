"""The states of a team, against all pairs."""

from __future__ import annotations

from typing import get_args

import pytest

from teamwright.experts.live.run import NEXT, TeamLifeCycle
from teamwright.values.events.team import LifeState

STATES: tuple[LifeState, ...] = get_args(LifeState)
ALLOWED = {
    ("forming", "planning"), ("forming", "completed"),
    ("planning", "executing"), ("planning", "completed"),
    ("executing", "executing"), ("executing", "synthesizing"), ("executing", "completed"),
    ("synthesizing", "executing"), ("synthesizing", "completed"),
    ("completed", "dissolved"),
}  # fmt: skip


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_only_these_states_follow_each_other(before: LifeState, after: LifeState) -> None:
    life = TeamLifeCycle()
    life.state = before
    if (before, after) in ALLOWED:
        life.enter(after)
        assert life.state == after
    else:
        with pytest.raises(ValueError, match=f"a team that is {before} can't become {after}"):
            life.enter(after)


def test_a_dissolved_team_never_comes_back() -> None:
    assert NEXT["dissolved"] == ()
