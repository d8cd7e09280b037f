"""Runs that draw on the budget of a tenant, and child runs, over HTTP."""

from __future__ import annotations

from pathlib import Path

from teamwright.journal import MemoryJournal
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch, commit
from teamwright.server.credentials import Allowance
from teamwright.values.events.event import Event
from teamwright.values.events.run import Origin, RunStarted
from tests.kit.postgres import postgres_server, schema_url
from tests.kit.server import serving

__all__ = ["postgres_server"]


async def test_a_run_draws_on_a_budget_and_is_refused_where_there_is_no_room(
    postgres_server: str, tmp_path: Path, teams: Path
) -> None:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    async with serving(journal, tmp_path, [teams]) as server:
        await journal.budgets.put("team-a", None, 1000, "ever")
        client = server.client("run")
        new = {"team": "held", "task": "Go", "budget": "team-a", "limits": {"tokens": 800}}
        started = await client.post("/api/runs", json={**new, "run_id": "one"})
        assert started.status_code == 201, started.text
        held = await journal.budgets.find("team-a")
        assert held is not None
        assert (held.reserved_tokens, held.runs) == (800, 1)
        for changed, status, code, words in (
            ({}, 409, "budget", "has 200 tokens of 1,000 tokens left"),
            ({"budget": "team-b"}, 400, "usage", "There is no budget 'team-b'"),
            ({"limits": {}}, 400, "usage", "bounds tokens, and the run has no such limit"),
            ({"budget": "no such name"}, 400, "usage", "no such name"),
        ):
            refused = await client.post("/api/runs", json={**new, **changed})
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (status, code), refused.text
            assert words in error["message"]
        assert [one["id"] for one in (await client.get("/api/runs")).json()] == ["one"]
        assert (await client.post("/api/runs/one/cancel", json={})).status_code == 202


async def test_a_journal_without_budgets_refuses_a_run_that_names_one(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        refused = await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "budget": "team-a"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "usage")
        assert "only a journal in Postgres keeps budgets" in refused.json()["error"]["message"]
        assert (await server.client("run").get("/api/runs")).json() == []


async def test_child_runs_are_listed_with_their_parent_only(tmp_path: Path, teams: Path) -> None:
    journal = MemoryJournal()
    async with serving(journal, tmp_path, [teams]) as server:
        client = server.client("run")
        assert (await client.post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "one"})).status_code == 201
        first = (await journal.read("one", limit=1))[0]
        assert isinstance(first.fact, RunStarted)
        fact = first.fact.changed(origin=Origin(run_id="one", number=2, how="place"))
        await commit(journal, Batch([Event("one-1", 1, first.time, "", "", fact)], {}))
        assert [(one["id"], one["parent"]) for one in (await client.get("/api/runs")).json()] == [("one", "")]
        children = (await client.get("/api/runs", params={"parent": "one"})).json()
        assert [(one["id"], one["parent"], one["task"]) for one in children] == [("one-1", "one", "Go")]


async def test_each_run_of_a_token_stays_within_what_it_may_spend(tmp_path: Path, teams: Path) -> None:
    """The ceiling holds for a plain start, a chat, a response, a fork, a further turn and a raise alike."""
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        token = server.state.tokens.create("small", "run", Allowance(tokens=5))
        client = server.client(None, Authorization=f"Bearer {token}")

        async def limits(run_id: str) -> object:
            return (await client.get(f"/api/runs/{run_id}/request")).json()["limits"].get("tokens")

        asked = {"team": "pair", "task": "Go", "run_id": "one", "limits": {"tokens": 1000}}
        assert (await client.post("/api/runs", json=asked)).status_code == 201
        ended = await server.state.engine.runs.wait("one")
        assert (ended.status, ended.stop_reason, await limits("one")) == ("degraded", "budget", 5)
        chat = {"model": "pair", "messages": [{"role": "user", "content": "Go"}]}
        assert (await client.post("/v1/chat/completions", json=chat)).status_code in (200, 422)
        response = (await client.post("/v1/responses", json={"model": "pair", "input": "Go"})).json()
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "budget"})
        fork = (await client.post("/api/runs/one/forks", json={"limits": {"tokens": 900}})).json()["run_id"]
        turn = (await client.post("/api/runs/one/turns", json={"task": "More"})).json()["run_id"]
        for one in (await client.get("/api/runs")).json():
            assert await limits(one["id"]) == 5, one
        assert {fork, turn} <= {one["id"] for one in (await client.get("/api/runs")).json()}
        refused = await client.post(f"/api/runs/{turn}/limits", json={"tokens": 6})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert "at most 5 tokens each" in refused.json()["error"]["message"]


async def test_a_token_with_a_budget_of_a_tenant_draws_on_no_other(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        token = server.state.tokens.create("acme", "run", Allowance(tokens=5, budget="acme"))
        client = server.client(None, Authorization=f"Bearer {token}")
        other = await client.post("/api/runs", json={"team": "pair", "task": "Go", "budget": "other"})
        assert (other.status_code, other.json()["error"]["code"]) == (403, "forbidden")
        own = await client.post("/api/runs", json={"team": "pair", "task": "Go"})
        assert "only a journal in Postgres keeps budgets" in own.json()["error"]["message"]
        assert (await client.get("/api/runs")).json() == []
