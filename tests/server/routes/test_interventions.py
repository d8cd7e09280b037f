"""What people change in a live run, over HTTP; each is recorded with the name of the visitor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server.jobs import FEW_LINES
from teamwright.values.people import AddMember, EditPlan
from tests.experts.test_presets_live import live
from tests.kit.members import FakeMembers
from tests.kit.server import TestServer, serving
from tests.kit.steering import Gate
from tests.kit.terminal import write_team
from tests.server.conftest import GATED, REPLIES

SLOW = {"team": "slow", "task": "Go"}


async def events(server: TestServer, run_id: str, kind: str) -> list[dict[str, Any]]:
    found = (await server.client("read").get(f"/api/runs/{run_id}/events")).json()
    return [one for one in found if one["kind"] == kind]


async def test_a_message_is_accepted_and_recorded_with_its_sender(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = (await server.client("run").post("/api/runs", json=SLOW)).json()["run_id"]
        ann = server.client("answer")
        said = await ann.post(f"/api/runs/{run_id}/messages", json={"text": "Be brief.", "to": "b"})
        assert (said.status_code, said.json()["status"]) == (202, "accepted"), said.text
        (recorded,) = await events(server, run_id, "run.intervened")
        assert recorded["number"] == said.json()["number"]
        assert "answer-1" in str(recorded)
        lost = await ann.post(f"/api/runs/{run_id}/messages", json={"text": "Be brief.", "to": "nobody"})
        assert (lost.status_code, lost.json()["error"]["code"]) == (409, "intervention_refused")


async def test_a_run_is_paused_resumed_and_cancelled(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "held", "task": "Go"})).json()["run_id"]
        assert (await client.post(f"/api/runs/{run_id}/pause")).status_code == 202
        assert (await server.state.engine.runs.wait(run_id)).status == "paused"
        assert (await client.post(f"/api/runs/{run_id}/pause")).status_code == 409
        assert (await client.post(f"/api/runs/{run_id}/resume")).status_code == 202
        assert (await client.post(f"/api/runs/{run_id}/cancel", json={"reason": "enough"})).status_code == 202
        assert (await server.state.engine.runs.wait(run_id)).status == "cancelled"
        assert (await client.post(f"/api/runs/{run_id}/cancel")).status_code == 409


async def test_members_and_limits_are_changed(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={**SLOW, "limits": {"tokens": 5000}})).json()["run_id"]
        assert (await client.post(f"/api/runs/{run_id}/members/b/pause")).status_code == 202
        assert (await client.post(f"/api/runs/{run_id}/members/b/resume")).status_code == 202
        raised = await client.post(f"/api/runs/{run_id}/limits", json={"tokens": 9000})
        assert raised.status_code == 202, raised.text
        assert (await client.post(f"/api/runs/{run_id}/limits", json={})).status_code == 400
        assert (await events(server, run_id, "budget.raised"))[0]["limits"]["tokens"] == 9000


async def test_a_member_comes_from_a_folder_of_the_server_or_is_a_plain_model(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        path = f"/api/runs/{run_id}/members"
        assert (await client.post(path, json={"name": "x", "function": "os:system"})).status_code == 422
        assert (await client.post(path, json={"name": "x", "spec": {"function": "os:system"}})).status_code == 422
        evil = {"name": "x", "spec": {"model": {"base_url": "http://evil"}}}
        assert (await client.post(path, json=evil)).status_code == 422
        assert (await client.post(path, json={"name": "x"})).status_code == 400
        assert (await client.post(path, json={"name": "x", "source": "../etc"})).status_code == 404
        assert (await client.post(path, json={"name": "x", "source": "pair"})).status_code == 404


async def test_the_difference_of_a_plan_is_shown_before_it_is_sent(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        shown = await client.post(f"/api/runs/{run_id}/plan/difference", json={"plan": {"steps": []}})
        assert shown.status_code == 200
        assert (await client.get(f"/api/runs/{run_id}/plan")).json() == {"plan": None}
        assert "+{" in shown.json()["difference"]
        refused = await client.post(f"/api/runs/{run_id}/plan", json={"plan": {"steps": []}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "intervention_refused"), refused.text


async def test_long_plans_are_compared_in_a_process_of_the_lab(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]
        plan = {"steps": [{"id": f"s{number}"} for number in range(FEW_LINES)]}
        shown = await client.post(f"/api/runs/{run_id}/plan/difference", json={"plan": plan}, timeout=60)
        assert shown.json()["difference"].count("+    {") == FEW_LINES
        assert vars(server.state.jobs)["_idle"]


@pytest.mark.lab
async def test_a_forecast_names_the_ceiling_and_starts_nothing(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        work = {"team": "pair", "task": "Go", "limits": {"tokens": 4000}}
        forecast = (await client.post("/api/runs/forecast", json=work)).json()
        assert forecast["ceiling"]["tokens"] == 4000
        assert (await client.get("/api/runs")).json() == []


async def test_runs_are_filtered_and_searched(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        for task in ("Paint the house", "Write a poem"):
            run_id = (await client.post("/api/runs", json={"team": "pair", "task": task})).json()["run_id"]
            await server.state.engine.runs.wait(run_id)

        async def found(query: str) -> list[str]:
            return [one["task"] for one in (await client.get(f"/api/runs?{query}")).json()]

        assert await found("search=house+PAINT") == ["Paint the house"]
        assert await found("status=completed&limit=1") == ["Write a poem"]
        assert await found("order=started&limit=1") == ["Paint the house"]
        assert await found("status=paused") == []
        assert await found("team=other") == []


KEY = "sk-abcdefghij0123456789"


async def test_a_plan_that_was_shown_masked_is_saved_with_its_secrets(tmp_path: Path) -> None:
    gate = Gate()
    steps: list[JsonValue] = [{"id": "look", "agent": "a"}, {"id": "draw", "agent": "b", "task": f"Use {KEY} for it."}]
    team = live([FakeMembers().member("a", gate.answer), FakeMembers().member("b")], steps)
    async with serving(MemoryJournal(), tmp_path) as server:
        await server.state.engine.start(team, "Go", run_id="r")
        await gate.entered.wait()
        client = server.client("run")
        shown = (await client.get("/api/runs/r/plan")).json()["plan"]
        assert KEY not in str(shown)
        again = await client.post("/api/runs/r/plan/difference", json={"plan": shown})
        assert again.json()["difference"] == []
        reordered = {name: shown[name] for name in reversed(shown)}
        reordered["steps"] = [dict(reversed(step.items())) for step in shown["steps"]]
        again = await client.post("/api/runs/r/plan/difference", json={"plan": reordered})
        assert again.json()["difference"] == []
        reordered["steps"].reverse()
        again = await client.post("/api/runs/r/plan/difference", json={"plan": reordered})
        assert again.json()["difference"] == [], "the order of steps says nothing"
        change = {"put": [{"id": "more", "agent": "b"}]}
        added = (await client.post("/api/runs/r/plan/difference", json={"plan": change})).json()["difference"]
        assert [line for line in added if line.startswith("-")] == ["--- plan"]
        for wrong in (None, "Do it faster.", ["look"]):
            refused = await client.post("/api/runs/r/plan/difference", json={"plan": wrong})
            assert (refused.status_code, "it is no plan" in refused.text) == (409, True)
        for wrong in (None, "Do it faster.", {"steps": [{"id": "x", "agent": "a", "needs": ["x"]}]}):
            refused = await client.post("/api/runs/r/plan", json={"plan": wrong})
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "intervention_refused")
        for wrong, status in (({"version": 9}, 409), ({"version": 1}, 409), ({"version": 0}, 422), ({}, 422)):
            assert (await client.post("/api/runs/r/plan/restore", json=wrong)).status_code == status
        shown["steps"][1]["priority"] = 2
        sent = await client.post("/api/runs/r/plan", json={"plan": shown})
        assert sent.status_code == 202, sent.text
        item = (await server.state.engine.journal.inbox("r"))[-1]
        assert isinstance(item.intervention, EditPlan)
        assert f"Use {KEY} for it." in str(item.intervention.plan)
        back = await client.post("/api/runs/r/plan/restore", json={"version": 1})
        assert (back.status_code, back.json()["intervention"]) == (202, "restore_plan"), back.text
        for step, status in (("draw", 202), ("none", 409)):
            told = await client.post(f"/api/runs/r/steps/{step}/stop", json={"reason": "enough"})
            assert told.status_code == status, told.text
        shown["steps"][1]["task"] = "Use [redacted] for something else."
        refused = await client.post("/api/runs/r/plan", json={"plan": shown})
        assert (refused.status_code, "mask of a secret" in refused.text) == (400, True)
        gate.open.set()
        await server.state.engine.runs.wait("r")


async def test_the_difference_to_a_guess_tells_nothing_about_a_secret(tmp_path: Path) -> None:
    gate = Gate()
    steps: list[JsonValue] = [{"id": "look", "agent": "a", "task": f"Use {KEY}."}]
    async with serving(MemoryJournal(), tmp_path) as server:
        await server.state.engine.start(live([FakeMembers().member("a", gate.answer)], steps), "Go", run_id="r")
        await gate.entered.wait()
        client, path = server.client("read"), "/api/runs/r/plan/difference"
        plan = (await client.get("/api/runs/r/plan")).json()["plan"]
        plan["steps"][0]["task"] = f"Use {KEY}."
        right = (await client.post(path, json={"plan": plan})).json()["difference"]
        plan["steps"][0]["task"] = "Use sk-00000000000000000000."
        wrong = (await client.post(path, json={"plan": plan})).json()["difference"]
        assert right == wrong == []
        gate.open.set()
        await server.state.engine.runs.wait("r")


async def test_a_draft_that_was_shown_masked_is_edited_around_its_secret(tmp_path: Path) -> None:
    write_team(tmp_path / "teams" / "gated", GATED, REPLIES.replace("two", f'"Use {KEY} now.\\nThen stop."'))
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "gated", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run_id)
        (question,) = (await client.get("/api/inbox")).json()
        assert question["draft"] == "Use [redacted] now.\nThen stop."
        edited = question["draft"].replace("stop", "go on")
        answer = {"key": question["key"], "text": "edit", "data": edited}
        assert (await client.post(f"/api/runs/{run_id}/answers", json=answer)).status_code == 202
        result = await server.state.engine.runs.wait(run_id)
    assert result.output == f"Use {KEY} now.\nThen go on."


@pytest.mark.experts
async def test_work_that_exceeded_its_review_is_decided_over_http(tmp_path: Path) -> None:
    reviewed = """\
agents:
  writer:
    model: scripted:replies.yaml
    evaluate: {on_failure: ask, criteria: [{id: cites, contains: "[1]"}]}
teams:
  reviewed: {members: [writer]}
"""
    replies = """rules: [{match: "says: cite it", reply: "It rains [1]."}, {reply: It rains.}]"""
    write_team(tmp_path / "teams" / "reviewed", reviewed, replies)
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "reviewed", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run_id)
        (question,) = (await client.get("/api/inbox")).json()
        assert (question["choices"], question["draft"]) == (["accept", "revise", "stop"], "It rains.")
        path, key = f"/api/runs/{run_id}/answers", question["key"]
        refused = await client.post(path, json={"key": key, "text": "accept", "data": "a note"})
        assert refused.status_code == 400
        answered = await client.post(path, json={"key": key, "text": "revise", "data": "cite it"})
        assert answered.status_code == 202
        result = await server.state.engine.runs.wait(run_id)
    assert (result.status, result.output) == ("completed", "It rains [1].")


async def test_a_new_member_names_no_file_and_no_variable_of_the_server(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "in the cellar")
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        path = f"/api/runs/{run_id}/members"
        for model in ("scripted:/etc/passwd", "local:/tmp/x.gguf", "${PLACE}:x", "openai:${PLACE}"):
            refused = await client.post(path, json={"name": "x", "spec": {"model": model}})
            assert (refused.status_code, "names a file or a variable" in refused.text) == (400, True), model
        spec = {"model": "openai:gpt-5", "instructions": "Look ${PLACE}.", "description": "${PLACE}"}
        await client.post(path, json={"name": "x", "spec": spec})
        (item,) = await server.state.engine.journal.inbox(run_id)
        assert isinstance(item.intervention, AddMember)
        assert item.intervention.spec == {**spec, "instructions": "Look $${PLACE}.", "description": "$${PLACE}"}


ODD = [
    str(10**30),
    "NaN",
    "-Infinity",
    "[" * 900 + "]" * 900,
    "[" * 200 + "]" * 200,
    r'"\ud800"',
    r'{"\ud800": 1}',
    '"\\u0000"',
]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "Infinity", "1e999"])
async def test_a_number_that_json_does_not_have_is_refused(tmp_path: Path, teams: Path, number: str) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run", **{"Content-Type": "application/json"})
        run_id = (await client.post("/api/runs", json=SLOW)).json()["run_id"]
        for path in ("plan", "plan/difference"):
            refused = await client.post(f"/api/runs/{run_id}/{path}", content=f'{{"plan": {{"steps": [{number}]}}}}')
            assert (refused.status_code, "NaN or an infinite number" in refused.text) == (422, True), refused.text
        with pytest.raises(UsageError, match="The plan is not JSON: it contains NaN"):
            await server.state.engine.runs.edit_plan(run_id, {"steps": [float(number)]})


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
async def test_odd_json_is_taken_or_refused_and_breaks_nothing(tmp_path: Path, teams: Path, odd: str) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        client = server.client("run", **{"Content-Type": "application/json"})
        run_id = (await client.post("/api/runs", json={"team": "gated", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run_id)
        (question,) = (await client.get(f"/api/runs/{run_id}/questions")).json()
        bodies = {
            "plan": f'{{"plan": {odd}}}',
            "plan/difference": f'{{"plan": {odd}}}',
            "answers": f'{{"key": "{question["key"]}", "text": "edit", "data": {odd}}}',
            "messages": f'{{"text": {odd}}}',
            "forks": f'{{"at": {odd}}}',
        }
        for path, body in bodies.items():
            answer = await client.post(f"/api/runs/{run_id}/{path}", content=body)
            assert answer.status_code < 500, (path, answer.text)
        await client.post(f"/api/runs/{run_id}/cancel")
        assert (await client.get(f"/api/runs/{run_id}")).status_code == 200
        assert (await client.get(f"/api/runs/{run_id}/events")).status_code == 200
