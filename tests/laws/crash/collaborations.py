"""Collaborations of the crash matrix: a competition that stops early, a tied vote, a milestone, and a plan that fails.

The strategy is in an optional package; without it there are no such scenarios.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatRequest
from teamwright.values.specs.evaluation import Evaluate
from tests.kit.ladders import finishing
from tests.laws.crash.evaluations import CRITERIA, draft, judgement
from tests.laws.crash.http_members import FAILED, http_member, http_members

ARE_INSTALLED = find_spec("teamwright.experts") is not None


def competition(url: str) -> Team:
    """Two of three answers are enough; their votes are tied, and the winner revises its answer for the milestone."""
    milestone = Evaluate(
        evaluator="tests.laws.crash.evaluations:AskingEvaluator", criteria=CRITERIA, revisions=1, judge="judge"
    )
    race: JsonValue = {
        "id": "race",
        "parallel": "competitive_parallel",
        "agents": ["a", "b", "slow"],
        "merge": "vote",
        "enough": 2,
        "evaluate": milestone.model_dump(mode="json", exclude_unset=True),
    }
    return Team(
        "rivals",
        members=http_members(url, "a b slow z"),
        helpers=[http_member(url, "judge", calls=2), http_member(url, "lead")],
        strategy="collaborate",
        options={"lead": "lead", "proposals": 0, "steps": [race, {"id": "z", "needs": ["race"]}]},
    )


def fallback(url: str) -> Team:
    """A part fails, the lead gives it to another member, who fails too, and one agent finishes."""
    parts: list[JsonValue] = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "bad"}]
    steps: list[JsonValue] = [{"id": "draft", "parallel": "subtask_parallel", "parts": parts}, {"id": "c"}]
    options: dict[str, JsonValue] = {"lead": "lead", "on_failure": finishing("z"), "steps": steps}
    members = http_members(url, "a bad worse c z")
    return Team("crew", members=members, helpers=http_members(url, "lead"), strategy="collaborate", options=options)


def _told(request: ChatRequest) -> str:
    return str(request.body["prompt"])


def ballot_or_draft(request: ChatRequest, times: int) -> str:
    """Vote for the only answer of another, or write a draft that is revised once."""
    told = _told(request)
    if "Vote for the best one" not in told:
        return draft(request, times)
    return json.dumps({"winner": "answer-1" if "# answer-1:" in told else "answer-2", "reason": "the other"})


def abstention(request: ChatRequest, times: int) -> str:
    """Abstain, so that the votes are tied."""
    return "I can't decide." if "Vote for the best one" in _told(request) else f"done: {request.digest}"


def casting_vote(request: ChatRequest, times: int) -> str:
    """Break the tie, change the split of a phase that failed, or answer."""
    told = _told(request)
    if "Pick the best one" in told:
        return json.dumps({"winner": "answer-2", "reason": "it is better"})
    if "is tried once more" in told:
        parts = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "worse"}]
        return json.dumps({"put": [{"id": "draft", "parallel": "subtask_parallel", "parts": parts}]})
    return f"the lead says {request.digest}"


def refusal(request: ChatRequest, times: int) -> str:
    return f"{FAILED}refused"


COMPETITION = {
    "a": ballot_or_draft,
    "b": ballot_or_draft,
    "slow": abstention,
    "z": abstention,
    "lead": casting_vote,
    "judge": judgement,
}
FALLBACK = {"bad": refusal, "worse": refusal, "lead": casting_vote}
