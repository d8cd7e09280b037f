"""The lab over HTTP."""

from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from tests.kit.server import serving
from tests.kit.terminal import write_team


async def test_topologies_are_compared_and_swept(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        client.timeout = 60  # the first request starts a process
        report = (
            await client.post("/api/lab/evaluate", json={"tasks": 12, "topologies": ["single", "star_team"]})
        ).json()
        assert {row["topology"] for row in report["results"]} == {"single", "star_team"}
        assert report["recommendation"]
        grid = (
            await client.post(
                "/api/lab/sweep", json={"tasks": [6, 12], "budgets": ["low", "high"], "workloads": ["mixed"]}
            )
        ).json()
        assert grid["cells"] == len(grid["results"]) == 2 * 2 * 4
        many = {"avg_task_tokens": list(range(100, 5100, 100)), "coordination_rounds": list(range(1, 21))}
        large = await client.post("/api/lab/sweep", json={"tasks": list(range(1, 51)), **many})
        assert large.status_code == 400
        assert (await client.post("/api/lab/evaluate", json={"tasks": 0})).status_code == 422


PAIR = """\
agents:
  a: {model: scripted:replies.yaml}
  b: {model: scripted:replies.yaml}
teams:
  pair: {members: [a, b]}
"""
STEPS = """\
agents:
  a: {model: scripted:replies.yaml}
teams:
  steps: {strategy: dag, members: [a], dag: {steps: [{id: one, agent: a}, {id: two, agent: a, needs: [one]}]}}
"""


async def test_a_team_is_simulated_planned_and_advised(tmp_path: Path) -> None:
    teams = tmp_path / "teams"
    write_team(teams / "pair", PAIR, "rules:\n  - {reply: one}\n")
    write_team(teams / "steps", STEPS, "rules:\n  - {reply: one}\n")
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("read")
        client.timeout = 60  # the first request starts a process
        simulated = await client.post("/api/lab/simulate", json={"team": "pair", "task": "Go", "runs": 3})
        assert simulated.status_code == 200, simulated.text
        assert simulated.json()["runs"] == 3
        advice = await client.post("/api/lab/advise", json={"team": "pair", "task": "Go"})
        assert advice.status_code == 200, advice.text
        assert advice.json()["reasons"]
        plan = (await client.post("/api/lab/plan", json={"team": "steps", "task": "Go"})).json()
        assert plan["order"] == ["one", "two"]
        none = await client.post("/api/lab/plan", json={"team": "pair", "task": "Go"})
        assert (none.status_code, none.json()["error"]["code"]) == (400, "usage")
        unknown = await client.post("/api/lab/advise", json={"team": "nobody"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_name")
