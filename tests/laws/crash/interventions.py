"""The scenario in which people steer: what they send waits in the inbox when the run starts."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    StopStep,
    Tell,
)
from tests.laws.crash.http_members import http_member, http_members, talking_member

SENT = (
    Tell(text="Be brief."),
    PauseMember(member="c"),
    RaiseBudget(calls=60),
    Tell(text="Cite your source.", to="d"),
    Tell(text="Hurry.", to="nobody"),
)
"""Two messages, a pause, a raised budget, and a message that is refused."""


SAID = (SENT[0], Tell(text="Hurry.", to="a"), SENT[4])
"""A message to all, one to a member, and one that is refused."""
EDITS = (
    EditPlan(
        plan={"steps": [{"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "d", "needs": ["b"]}]},
    ),
    SENT[0],
    EditPlan(plan={"steps": [{"id": "b", "agent": "z"}]}),
    EditPlan(plan={"put": [{"id": "e", "agent": "d", "needs": ["b"]}]}),
    RestorePlan(plan_version=2),
)
"""A phase is added to a plan, the direction changes, an edit is refused, another is made and undone."""
CHANGES = (
    AddMember(member="e", spec={"function": "tests.laws.crash.interventions:joined"}),
    EditPlan(
        plan={"steps": [{"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "e", "needs": ["b"]}]},
    ),
    RemoveMember(member="a"),
    Tell(text="Be brief."),
    RemoveMember(member="d"),
    StopStep(step="c", reason="Enough."),
)
"""A member joins, the plan is edited, the lead leaves, the direction changes, another leaves, and a step is stopped."""


STAFF = (CHANGES[0], RemoveMember(member="b"))
"""A member joins, and another leaves."""


def joined(task: str) -> str:
    """Answer as the member that joins."""
    return "e is here"


STEPS: list[JsonValue] = [{"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "d", "needs": ["c"]}]


def live(url: str) -> Team:
    """A live team of a lead and three members, whose plan is in its options."""
    return Team("live", members=http_members(url, "a b c d"), strategy="live", options={"steps": STEPS})


def crew(url: str) -> Team:
    """The same team, which collaborates."""
    options: dict[str, JsonValue] = {"steps": STEPS, "proposals": 0}
    return Team("crew", members=http_members(url, "a b c d"), strategy="collaborate", options=options)


def talking(url: str) -> Team:
    """A live team whose members tell all something, ask one for help, hand over, and go on until the lead decides."""
    tell: dict[str, JsonValue] = {"type": "message", "text": "Wood is short."}
    ask: dict[str, JsonValue] = {"type": "assist", "to": "c", "text": "Which wood?"}
    hand_over: dict[str, JsonValue] = {"type": "hand_over", "to": "d", "text": "You do it."}
    steps: list[JsonValue] = [{"id": "b"}, {"id": "c", "needs": ["b"], "evaluate": {"revisions": 1}}, {"id": "d"}]
    members = [
        http_member(url, "a"),
        talking_member(url, "b", ask, hand_over),
        talking_member(url, "c", tell, tell),
        talking_member(url, "d", *([ask] * 9)),
    ]
    return Team("talking", members=members, strategy="live", options={"rounds_of_talk": 2, "steps": steps})


def collaborating(url: str) -> Team:
    """A collaboration whose plan a person edits, and whose direction another one changes."""
    steps: list[JsonValue] = [{"id": "b"}, {"id": "c", "needs": ["b"]}]
    return Team("crew", members=http_members(url, "a b c d"), strategy="collaborate", options={"steps": steps})


def steered(url: str) -> Team:
    """A pipeline with a nested team, whose budget would not last."""
    inner = Team("inner", members=http_members(url, "b c"))
    return Team("outer", members=[http_member(url, "a"), inner, http_member(url, "d")], limits=Limits(calls=2))
