"""The scenario in which people steer: what they send waits in the inbox when the run starts."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.values.limits.limits import Limits
from teamwright.values.people.interventions import (
    STEERING_VERSION,
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    Tell,
)
from tests.laws.crash.http_members import http_member, http_members

SENT = (
    Tell(text="Be brief.", version=STEERING_VERSION),
    PauseMember(member="c", version=STEERING_VERSION),
    RaiseBudget(calls=60, version=STEERING_VERSION),
    Tell(text="Cite your source.", to="d", version=STEERING_VERSION),
    Tell(text="Hurry.", to="nobody", version=STEERING_VERSION),
)
"""Two messages, a pause, a raised budget, and a message that is refused."""


CHANGES = (
    AddMember(member="e", spec={"function": "tests.laws.crash.interventions:joined"}, version=STEERING_VERSION),
    EditPlan(
        plan={"steps": [{"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "e", "needs": ["b"]}]},
        version=STEERING_VERSION,
    ),
    RemoveMember(member="a", version=STEERING_VERSION),
    Tell(text="Be brief.", version=STEERING_VERSION),
    RemoveMember(member="d", version=STEERING_VERSION),
)
"""A member joins, the plan is edited, the lead leaves, the direction changes, and another member leaves."""


def joined(task: str) -> str:
    """Answer as the member that joins."""
    return "e is here"


def live(url: str) -> Team:
    """A live team of a lead and three members, whose plan is in its options."""
    steps: list[JsonValue] = [{"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "d", "needs": ["c"]}]
    return Team("live", members=http_members(url, "a b c d"), strategy="live", options={"steps": steps})


def steered(url: str) -> Team:
    """A pipeline with a nested team, whose budget would not last."""
    inner = Team("inner", members=http_members(url, "b c"))
    return Team("outer", members=[http_member(url, "a"), inner, http_member(url, "d")], limits=Limits(calls=2))
