"""Teams as tools for the official client: what it lists, calls, waits for and is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp.types import TextContent

from teamwright.journal import MemoryJournal
from teamwright.server.credentials import ROLES, Allowance, Role
from teamwright.server.mcp import team_tools
from tests.kit.mcp import Wire, answer, connected
from tests.kit.server import serving
from tests.kit.terminal import write_team

CALLS: list[tuple[str, dict[str, Any], Role]] = [
    ("server/discover", {}, "read"),
    ("tools/list", {}, "read"),
    ("resources/list", {}, "read"),
    ("resources/templates/list", {}, "read"),
    ("resources/read", {"uri": "teamwright://runs"}, "read"),
    ("tools/call", {"name": "run_result", "arguments": {"run_id": "x"}}, "read"),
    ("tools/call", {"name": "pair", "arguments": {"task": "Go"}}, "run"),
    ("tools/call", {"name": "nothing"}, "run"),
    ("tasks/get", {"taskId": "x"}, "read"),
    ("tasks/update", {"taskId": "x", "inputResponses": {}}, "answer"),
    ("tasks/cancel", {"taskId": "x"}, "run"),
    ("prompts/list", {}, "read"),
    ("no/such", {}, "read"),
]
DATA = """\
agents:
  a:
    model: scripted:replies.yaml
    output_schema: {type: object, properties: {colour: {type: string}}, required: [colour]}
teams:
  typed:
    members: [a]
    description: Names a colour.
    output_schema: {type: object, properties: {colour: {type: string}}, required: [colour]}
"""


def text_of(result: Any) -> str:
    (block, *_) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_a_client_lists_the_teams_and_gets_an_answer_and_what_happens_on_the_way(
    tmp_path: Path, teams: Path
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        tools = {one.name: one for one in (await mcp.list_tools()).tools}
        assert sorted(tools) == ["gated", "held", "pair", "run_result", "slow"]
        assert tools["pair"].input_schema["required"] == ["task"]
        reported: list[tuple[float, str | None]] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reported.append((progress, message))

        result = await mcp.call_tool("pair", {"task": "Go"}, progress_callback=report)
        assert (text_of(result), result.is_error) == ("two", False)
        assert reported == [(1, "a works"), (2, "b works")]
        assert result.meta is not None
        run_id = result.meta["teamwright/run"]
        again = await mcp.call_tool("run_result", {"run_id": run_id})
        assert text_of(again) == "two"
        line = server.state.audit.read(10)[0]
        assert (line.by, line.what, line.on) == ("run-0", "call_method", {"method": "tools/call", "run_id": run_id})


async def test_a_client_of_an_earlier_revision_is_served_too(tmp_path: Path, teams: Path) -> None:
    async with (
        serving(MemoryJournal(), tmp_path, [teams]) as server,
        connected(server.url, server.token("run"), mode="legacy") as mcp,
    ):
        assert "pair" in {one.name for one in (await mcp.list_tools()).tools}
        assert text_of(await mcp.call_tool("pair", {"task": "Go"})) == "two"


async def test_every_method_needs_its_role_and_a_refusal_starts_nothing(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        for role in ROLES:
            wire = Wire(server.client(role))
            for method, params, needed in CALLS:
                response = await wire.send(method, params)
                refused = ROLES.index(role) < ROLES.index(needed)
                assert (response.status_code == 403) == refused, (role, method, response.text)
                assert response.status_code < 500, (role, method, response.text)
                if refused:
                    error = answer(response)["error"]
                    assert (error["code"], error["data"]) == (-32003, {"code": "forbidden"})
            if ROLES.index(role) < ROLES.index("run"):
                assert await server.state.engine.runs.list() == []
        refusals = [one for one in server.state.audit.read(100) if one.status == 403]
        assert {one.on["method"] for one in refusals} == {"tools/call", "tasks/update", "tasks/cancel"}
        assert not [one for one in server.state.audit.read(100) if one.on.get("method") == "tasks/get"]


async def test_a_client_of_an_earlier_revision_needs_the_role_too(tmp_path: Path, teams: Path) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25"}
    params = {"name": "pair", "arguments": {"task": "Go"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        refused = answer(await server.client("answer").post("/mcp", json=body, headers=headers))
        assert refused["error"]["code"] == -32003
        assert await server.state.engine.runs.list() == []
        assert "result" in answer(await server.client("run").post("/mcp", json=body, headers=headers))


async def test_a_client_that_would_give_up_gets_the_id_of_its_run_before(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_tools, "WAIT_SECONDS", 0.3)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        result = await mcp.call_tool("slow", {"task": "Go"})
        assert result.meta is not None
        run_id = result.meta["teamwright/run"]
        assert "goes on (running)" in text_of(result)
        assert f"'run_result' with run_id='{run_id}'" in text_of(result)
        monkeypatch.setattr(team_tools, "WAIT_SECONDS", 30.0)
        assert text_of(await mcp.call_tool("run_result", {"run_id": run_id})) == "word word word"


async def test_the_output_schema_of_a_team_is_that_of_its_tool(tmp_path: Path) -> None:
    folder = tmp_path / "teams"
    write_team(folder / "typed", DATA, 'rules:\n  - {agent: a, reply: \'{"colour": "red"}\'}\n')
    async with (
        serving(MemoryJournal(), tmp_path, [folder]) as server,
        connected(server.url, server.token("run")) as mcp,
    ):
        tool = next(one for one in (await mcp.list_tools()).tools if one.name == "typed")
        assert tool.description == "Names a colour."
        assert tool.output_schema is not None
        assert tool.output_schema["required"] == ["colour"]
        result = await mcp.call_tool("typed", {"task": "Go"})  # the client checks the data against the schema
        assert result.structured_content == {"colour": "red"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "task is missing"),
        ({"task": ""}, "task"),
        ({"task": "x", "more": 1}, "more is not a field here"),
        ({"task": "x", "files": [{"name": "a"}]}, "either the content of a file or its hash"),
        ({"task": "x", "files": [{"name": "a", "content": "%"}]}, "'a' is not in base64"),
        ({"task": "x", "files": [{"name": "a", "hash": "h"}]}, "no run that it belongs to"),
    ],
)
async def test_wrong_arguments_are_an_error_for_the_model_and_start_nothing(
    tmp_path: Path, teams: Path, arguments: dict[str, Any], words: str
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        result = await mcp.call_tool("pair", arguments)
        assert result.is_error
        assert words in text_of(result)
        assert await server.state.engine.runs.list() == []


async def test_a_tool_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        with pytest.raises(MCPError, match="no tool 'par'; there are: gated, held, pair, slow, run_result") as raised:
            await mcp.call_tool("par", {"task": "Go"})
        assert raised.value.code == -32602


async def test_the_same_call_with_the_same_key_is_one_run(tmp_path: Path, teams: Path) -> None:
    key: Any = {"teamwright/idempotency-key": "k1"}
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        first = await mcp.call_tool("pair", {"task": "Go"}, meta=key)
        second = await mcp.call_tool("pair", {"task": "Go"}, meta=key)
        assert first.meta is not None
        assert second.meta is not None
        assert first.meta["teamwright/run"] == second.meta["teamwright/run"]
        other = await mcp.call_tool("pair", {"task": "Another"}, meta=key)
        assert other.is_error
        assert "another" in text_of(other)
        assert len(await server.state.engine.runs.list()) == 1


async def test_a_call_spends_no_more_than_its_token_may(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        token = server.state.tokens.create("small", "run", Allowance(tokens=5))
        async with connected(server.url, token) as mcp:
            result = await mcp.call_tool("pair", {"task": "Go"})
        assert result.is_error
        assert "is degraded" in text_of(result)
        (run,) = await server.state.engine.runs.list()
        assert (run.stop_reason, run.total_tokens <= 5) == ("budget", True)


async def test_a_client_that_closes_its_request_ends_the_run_unless_it_comes_back(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teamwright.server.driven_runs.RETURN_SECONDS", 0.1)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        http = server.client("run")
        http.timeout = 0.5
        with pytest.raises(httpx2.TimeoutException):
            await Wire(http, takes_tasks=False).send("tools/call", {"name": "held", "arguments": {"task": "Go"}})

        (run,) = await server.state.engine.runs.list()
        assert (await server.state.engine.runs.wait(run.id)).status == "cancelled"


async def test_resources_are_the_runs_their_transcripts_and_artifacts(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server, connected(server.url, server.token("run")) as mcp:
        result = await mcp.call_tool("pair", {"task": "Go"})
        assert result.meta is not None
        run_id = result.meta["teamwright/run"]
        listed = {str(one.uri) for one in (await mcp.list_resources()).resources}
        assert {f"teamwright://runs/{run_id}", f"teamwright://runs/{run_id}/transcript"} <= listed

        async def read(uri: str) -> str:
            (found,) = (await mcp.read_resource(uri)).contents
            return found.model_dump()["text"]

        assert json.loads(await read("teamwright://runs"))[0]["id"] == run_id
        assert json.loads(await read(f"teamwright://runs/{run_id}"))["output"] == "two"
        assert "**a**: one\n\n**b**: two" in await read(f"teamwright://runs/{run_id}/transcript")
        assert json.loads(await read(f"teamwright://runs/{run_id}/artifacts")) == []
        for wrong in (f"teamwright://runs/{run_id}/artifacts/x", "teamwright://runs/nothing", "file:///etc/passwd"):
            with pytest.raises(MCPError) as raised:
                await mcp.read_resource(wrong)
            assert raised.value.code == -32602


async def test_a_stream_besides_requests_is_refused(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client("read").get("/mcp", headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_names_of_tools_are_distinct_and_never_hide_run_result() -> None:
    names = team_tools.tool_names(["a b", "a_b", "run_result", "ü" * 300])
    assert names["a b"] == "a_b"
    assert names["a_b"] == "a_b-2"
    assert names["run_result"] == "run_result-2"
    assert len(names["ü" * 300]) <= 128
    assert len(set(names.values())) == 4


def test_a_server_that_is_not_asked_over_mcp_never_loads_its_library() -> None:
    code = "import sys, teamwright.server.app, teamwright.server.commands; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "nonsense", None])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"a": "\xff"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]', -32600),
        (b"3", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}', -32600),
    ],
)
async def test_what_is_no_request_gets_the_error_of_json_rpc_in_our_words(
    tmp_path: Path, body: bytes, code: int, version: str | None
) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {} if version is None else {"Mcp-Protocol-Version": version}
    async with serving(MemoryJournal(), tmp_path) as server:
        refused = await server.client("run").post("/mcp", content=body, headers=headers)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (400, code)
        assert "alidation" not in error["message"]
