"""The scenario in which people steer: what they send waits in the inbox when the run starts."""

from __future__ import annotations

from teamwright.teams.team import Team
from teamwright.values.limits.limits import Limits
from teamwright.values.people.interventions import STEERING_VERSION, PauseMember, RaiseBudget, Tell
from tests.laws.crash.http_members import http_member, http_members

SENT = (
    Tell(text="Be brief.", version=STEERING_VERSION),
    PauseMember(member="c", version=STEERING_VERSION),
    RaiseBudget(calls=60, version=STEERING_VERSION),
    Tell(text="Cite your source.", to="d", version=STEERING_VERSION),
    Tell(text="Hurry.", to="nobody", version=STEERING_VERSION),
)
"""Two messages, a pause, a raised budget, and a message that is refused."""


def steered(url: str) -> Team:
    """A pipeline with a nested team, whose budget would not last."""
    inner = Team("inner", members=http_members(url, "b c"))
    return Team("outer", members=[http_member(url, "a"), inner, http_member(url, "d")], limits=Limits(calls=2))
