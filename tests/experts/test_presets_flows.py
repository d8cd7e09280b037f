"""Collaborations end to end: from a manifest, through the command line, to the record that tells the story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from teamwright.events import TeamMerged, TeamPlanChanged, TeamPlanStatus, TeamStepAssigned, TeamStepCompleted
from teamwright.experts.team_or_agent import Router, parse_request
from teamwright.history import RunHistory
from teamwright.runtime.engine import Engine
from teamwright.teams.team_loader import load_team, team_from_source

MEMBERS = ("lead", "ann", "ben", "cem")
SPLIT, RACE = "subtask_parallel", "competitive_parallel"
Rules = list[dict[str, Any]]


async def flow(folder: Path, options: dict[str, Any], rules: Rules) -> tuple[Any, RunHistory]:
    """Write a manifest and its script, run it, and return the result and the history."""
    (folder / "replies.yaml").write_text(json.dumps({"rules": rules}), encoding="utf-8")
    agents = {name: {"model": "scripted:replies.yaml"} for name in MEMBERS}
    team = {"members": list(MEMBERS), "strategy": "collaborate", "collaborate": options}
    (folder / "team.yaml").write_text(json.dumps({"agents": agents, "teams": {"crew": team}}), encoding="utf-8")
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder / "team.yaml"), "Write a report.", run_id="r")
        return result, await engine.runs.history("r")


def facts(history: RunHistory, kind: type[Any]) -> list[Any]:
    return [event.fact for event in history.events if isinstance(event.fact, kind)]


async def test_a_manual_team_works_in_parts(tmp_path: Path) -> None:
    parts = [
        {"id": "north", "agent": "ann", "task": "The north."},
        {"id": "south", "agent": "ben", "task": "The south."},
    ]
    rules: Rules = [
        {"agent": "ann", "reply": "It is cold."},
        {"agent": "ben", "reply": "It is warm."},
        {"agent": "lead", "match": "# north:", "reply": "Cold in the north, warm in the south."},
        {"agent": "lead", "match": "# survey:", "reply": "The report: cold in the north, warm in the south."},
    ]
    result, history = await flow(tmp_path, {"steps": [{"id": "survey", "parallel": SPLIT, "parts": parts}]}, rules)
    assert (result.status, result.output) == ("completed", "The report: cold in the north, warm in the south.")
    assert [one.state for one in facts(history, TeamStepCompleted)] == ["completed", "completed"]


async def test_an_automatic_team_is_formed_from_templates_and_competes(tmp_path: Path) -> None:
    roles = [
        {"name": "editor", "template": "editor"},
        {"name": "writer", "template": "writer"},
        {"name": "strategist", "template": "strategist"},
        {"name": "mapmaker", "description": "Draws maps.", "instructions": "Draw.", "reason": "no template draws"},
    ]
    plan = {
        "steps": [
            {"id": "map", "agent": "mapmaker", "task": "Draw."},
            {"id": "title", "parallel": RACE, "agents": ["writer", "strategist"], "needs": ["map"], "task": "A title."},
        ]
    }
    passed = {"id": "task", "passed": True, "reason": "It is so."}
    rules: Rules = [
        {"agent": "ask-roles", "json": {"lead": "editor", "roles": roles}},
        {"agent": "judge", "json": {"criteria": [passed, {**passed, "id": "grounded"}]}},
        {"agent": "editor", "match": "You plan the work of a team", "json": plan},
        {"agent": "editor", "match": "Pick the best one", "json": {"winner": "answer-2", "reason": "It is exact."}},
        {"agent": "editor", "match": "# title:", "reply": "North by sea, with a map."},
        {"agent": "mapmaker", "reply": "A map."},
        {"agent": "writer", "reply": "Up there"},
        {"agent": "strategist", "match": "# map:", "reply": "North by sea"},
    ]
    (tmp_path / "replies.yaml").write_text(json.dumps({"rules": rules}), encoding="utf-8")
    async with Engine("memory") as engine:
        router = Router(engine, "scripted:replies.yaml", tmp_path, strategy="collaborate")
        request = parse_request("@team Write a guide to the north with a map.")
        assert (await router.route(request)).mode == "team"
        source = router.team(await router.draft(request))
        result = await engine.run(team_from_source(source, engine.models), request.task, run_id="r")
        history = await engine.runs.history("r")
    assert (result.status, result.output) == ("completed", "North by sea, with a map.")
    formation = source.formation
    assert formation is not None
    assert [(role.name, role.origin) for role in formation.roles] == [
        ("editor", "template"), ("writer", "template"), ("strategist", "template"), ("mapmaker", "written"),
    ]  # fmt: skip
    (merged,) = facts(history, TeamMerged)
    assert (merged.winner, merged.by, set(merged.entries.values())) == ("answer-2", "editor", {"writer", "strategist"})
    assert [one.lead for one in facts(history, TeamPlanChanged)] == ["editor"]


async def test_an_automatic_plan_has_a_competition(tmp_path: Path) -> None:
    plan = {
        "steps": [
            {"id": "facts", "agent": "cem", "task": "Find facts."},
            {"id": "title", "parallel": RACE, "agents": ["ann", "ben"], "needs": ["facts"], "task": "Find a title."},
        ]
    }
    rules: Rules = [
        {"agent": "lead", "match": "You plan the work of a team", "json": plan},
        {"agent": "lead", "match": "Pick the best one", "json": {"winner": "answer-2", "reason": "It is exact."}},
        {"agent": "lead", "match": "# title:\nRain on 200 days", "reply": "Rain on 200 days. It rains."},
        {"agent": "cem", "reply": "It rains."},
        {"agent": "ann", "reply": "Rain"},
        {"agent": "ben", "reply": "Rain on 200 days"},
    ]
    result, history = await flow(tmp_path, {}, rules)
    assert (result.status, result.output) == ("completed", "Rain on 200 days. It rains.")
    assert facts(history, TeamPlanChanged)[0].by == "lead"
    (merged,) = facts(history, TeamMerged)
    assert (merged.entries[merged.winner], merged.by, merged.reason) == ("ben", "lead", "It is exact.")


async def test_a_competition_is_decided_by_votes_and_a_tie_by_the_lead(tmp_path: Path) -> None:
    votes = {"lead": "answer-1", "ann": "answer-2", "ben": "answer-1", "cem": "answer-2"}
    rules: Rules = [
        {"agent": "lead", "match": "votes of your team are tied", "json": {"winner": "answer-1", "reason": "Shorter."}},
        *({"agent": name, "match": "Vote for", "json": {"winner": vote}} for name, vote in votes.items()),
        {"agent": "ann", "reply": "Short."},
        {"agent": "ben", "reply": "Not so short."},
        {"agent": "lead", "match": "# title:\nShort.", "reply": "Short. The end."},
    ]
    title = {"id": "title", "parallel": RACE, "agents": ["ann", "ben"], "merge": "vote"}
    result, history = await flow(tmp_path, {"steps": [title]}, rules)
    assert (result.status, result.output) == ("completed", "Short. The end.")
    (merged,) = facts(history, TeamMerged)
    assert (merged.votes, merged.tied, merged.by) == (votes, ("answer-1", "answer-2"), "lead")


async def test_a_plan_is_retried_and_then_one_agent_finishes(tmp_path: Path) -> None:
    other = {"put": [{"id": "draft", "agent": "ben", "needs": ["facts"]}], "reason": "ann is ill"}
    rules: Rules = [
        {"agent": "cem", "reply": "It rains."},
        {"agent": "ann", "error": "refused"},
        {"agent": "ben", "error": "refused"},
        {"agent": "lead", "match": "is tried once more", "json": other},
        {"agent": "lead", "match": "# facts:\nIt rains.\n\n# plan:\nThe team could not", "reply": "Alone: it rains."},
    ]
    steps = [{"id": "facts", "agent": "cem"}, {"id": "draft", "agent": "ann", "needs": ["facts"]}]
    result, history = await flow(tmp_path, {"steps": steps}, rules)
    assert (result.status, result.output) == ("degraded", "Alone: it rains.")
    assert [one.status for one in facts(history, TeamPlanStatus)] == ["executing", "fallback"]
    draft = [one.attempt for one in facts(history, TeamStepAssigned) if one.step == "draft"]
    assert draft == [1, 2]
    assert [one.plan_version for one in facts(history, TeamPlanChanged)] == [1, 2]
