"""The scenario in which people have to agree, in two branches at once, and what they say."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.values.people.approvals import Approve
from teamwright.values.people.questions import Answer, Question
from tests.laws.committee import Agenda
from tests.laws.crash.callers import caller


def approvals(url: str) -> Team:
    """Both are approved before and after; what they come to stands in their order, whoever was answered first."""
    agenda: list[JsonValue] = ["seq", ["all", ["ask", "a"], ["ask", "b"]], ["ask", "z"]]
    points = Approve(before=True, after=True)
    members = [caller(url, "a", approve=points), caller(url, "b", calls=2, approve=points), caller(url, "z")]
    return Team("agreed", members=members, strategy=Agenda(), options={"agenda": agenda})


def answer_to(key: str, question: Question) -> Answer:
    """The same to the same question: tasks are edited, replies approved, failures skipped, all else is agreed to."""
    if question.reason == "approval":
        return Answer.edit(f"{question.draft}, please") if "approve-before" in key else Answer.approve()
    return Answer(text="skip" if question.choices else "yes")
