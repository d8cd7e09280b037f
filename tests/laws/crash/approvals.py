"""The scenario with approvals in two concurrent branches, and the answers of people in all scenarios."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.values.people import Answer, Confirm, Question
from tests.laws.crash.http_members import http_member
from tests.laws.people_teams import AskTree


def approvals(url: str) -> Team:
    """Two members with approval before and after; the result keeps their order, however they are answered."""
    asks: list[JsonValue] = ["seq", ["all", ["ask", "a"], ["ask", "b"]], ["ask", "z"]]
    points = Confirm(before=True, after=True)
    members = [
        http_member(url, "a", confirm=points),
        http_member(url, "b", calls=2, confirm=points),
        http_member(url, "z"),
    ]
    return Team("agreed", members=members, strategy=AskTree(), options={"asks": asks})


def answer_to(key: str, question: Question) -> Answer:
    """The same answer to the same question: edit tasks, approve replies, skip failures, say yes to the rest."""
    if question.reason == "approval":
        return Answer.edit(f"{question.draft}, please") if "confirm-before" in key else Answer.approve()
    if question.reason == "pause":
        return Answer(text="resume")
    return Answer(text="skip" if question.choices else "yes")
