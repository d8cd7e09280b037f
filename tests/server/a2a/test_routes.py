"""The bindings: the role of each method, versions, hostile bodies, the audit, and the official client over both."""

from __future__ import annotations

import json

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role as MessageRole,
    SendMessageRequest,
    TaskState,
)

from teamwright.server.a2a.operations import OPERATIONS
from teamwright.server.credentials import ROLES, Role
from tests.server.a2a.conftest import Agents, sending

READS = {"GetTask", "ListTasks", "SubscribeToTask", "GetTaskPushNotificationConfig",
         "ListTaskPushNotificationConfigs", "GetExtendedAgentCard"}  # fmt: skip


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_official_client_sends_answers_and_lists(agents: Agents, binding: str) -> None:
    headers = {"Authorization": f"Bearer {agents.server.token('run')}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = await A2ACardResolver(http, f"{agents.server.url}/a2a/asking").get_agent_card()
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=binding == "JSONRPC")
        client = ClientFactory(config).create(card)
        task = ""
        for number, text in enumerate(("Go", "red", "it is warm")):
            message = Message(
                message_id=f"m-{number}", task_id=task, role=MessageRole.ROLE_USER, parts=[Part(text=text)]
            )
            async for one in client.send_message(SendMessageRequest(message=message)):
                task = one.task.id or task
        found = await client.get_task(GetTaskRequest(id=task))
        assert found.status.state == TaskState.TASK_STATE_COMPLETED
        assert found.artifacts[0].parts[0].text == "red because it is warm"
        listed = await client.list_tasks(ListTasksRequest(page_size=5))
        assert [one.id for one in listed.tasks] == [task]
        await client.close()


@pytest.mark.parametrize("role", ROLES)
async def test_each_method_needs_its_role(agents: Agents, role: Role) -> None:
    owner = agents.caller()
    task = await owner.send("asking")
    caller = agents.caller(role)
    params = {
        "SendMessage": sending("Go", "m-9", configuration={"returnImmediately": True}),
        "SendStreamingMessage": sending("Go", "m-9"),
        "CreateTaskPushNotificationConfig": {"taskId": task["id"], "url": "https://example.com"},
        "DeleteTaskPushNotificationConfig": {"taskId": task["id"], "id": "x"},
        "SubscribeToTask": {"id": "nowhere"},
        "CancelTask": {"id": task["id"]},
    }
    refused: set[str] = set()
    for method in OPERATIONS:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params.get(method, {"id": task["id"]})}
        if (await caller.http.post("/a2a/asking", json=body)).status_code == 403:
            refused.add(method)
    assert refused == (set(OPERATIONS) - READS if ROLES.index(role) < ROLES.index("run") else set())
    if role == "answer":
        other = await owner.send("asking", "Again", "m-5")
        assert (
            "task" in (await caller.rpc("asking", "SendMessage", sending("red", "m-6", taskId=other["id"])))["result"]
        )


async def test_the_audit_names_the_method_of_what_changes_and_its_run(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("pair")
    await caller.rpc("pair", "GetTask", {"id": task["id"]})
    lines = [one for one in agents.server.state.audit.read(10) if one.what == "call_agent"]
    assert [(one.on["method"], one.on["run_id"]) for one in lines] == [("SendMessage", task["id"])]


@pytest.mark.parametrize("version", ["", "0.3", "2.0", "1", "one"])
async def test_another_version_is_refused(agents: Agents, version: str) -> None:
    caller = agents.caller("run", **{"A2A-Version": version})
    assert (await caller.rpc("pair", "SendMessage", sending("Go", "m-1")))["error"]["code"] == -32009
    assert (await caller.http.get("/a2a/pair/tasks")).json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"
    assert (await caller.http.get("/a2a/pair/tasks?A2A-Version=1.0.7")).status_code == (200 if not version else 400)
    assert await agents.server.state.engine.runs.list() == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\\ud800"}}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', -32600),
        (b'{"id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"Odd"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"../../etc"}}', -32001),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\\u0000"}}', -32001),
    ],
)
async def test_a_hostile_body_gets_the_error_of_the_protocol(agents: Agents, body: bytes, code: int) -> None:
    http = agents.caller().http
    answer = await http.post("/a2a/pair", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)
    if code in (-32700, -32600):
        sent = await http.post("/a2a/pair/message:send", content=body, headers={"Content-Type": "application/json"})
        assert sent.status_code == 400
        assert sent.json()["error"]["code"] == 400
    assert await agents.server.state.engine.runs.list() == []


async def test_a_body_of_another_type_is_refused(agents: Agents) -> None:
    http = agents.caller().http
    body = json.dumps(sending("Go", "m-1"))
    answer = await http.post("/a2a/pair/message:send", content=body, headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, 415)
    answer = await http.post("/a2a/pair", content=body, headers={"Content-Type": "text/plain"})
    assert answer.json()["error"]["code"] == -32005
    assert await agents.server.state.engine.runs.list() == []


async def test_there_is_no_extended_card(agents: Agents) -> None:
    answer = await agents.caller("read").http.get("/a2a/pair/extendedAgentCard")
    assert answer.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize(
    ("raw", "content"),
    [("aGk_", "hi?"), ("aGk/", "hi?"), ("aGk", "hi"), ("aGk=", "hi"), ("!!", None), ("a!G!k=", None)],
)
async def test_files_are_base64_of_either_alphabet_and_nothing_else(
    agents: Agents, raw: str, content: str | None
) -> None:
    caller = agents.caller()
    parts = [{"text": "Go"}, {"raw": raw, "filename": "a.txt"}]
    found = await caller.rpc("pair", "SendMessage", sending("", "m-1", parts=parts))
    if content is None:
        assert found["error"]["code"] == -32602
        assert await agents.server.state.engine.runs.list() == []
    else:
        started = (await agents.server.state.engine.runs.history(found["result"]["task"]["id"])).started
        assert [one.size for one in started.attachments] == [len(content)]


async def test_a_time_without_its_zone_is_refused(agents: Agents) -> None:
    for text in ("0001-01-01T00:00:00", "2026-01-01T00:00:00"):
        found = await agents.caller().rpc("pair", "ListTasks", {"statusTimestampAfter": text})
        assert found["error"]["code"] == -32602
