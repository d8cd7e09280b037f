"""Push notifications: kept in a private file, delivered as webhooks are, with the headers of their receiver."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.server.a2a.tasks import FILE, MOST_OF_TASK, PushConfigs
from teamwright.server.a2a.wire import A2AError, PushConfig
from tests.server.a2a.conftest import Agents, sending

CONFIG = {"id": "c", "token": "for-me", "authentication": {"scheme": "Bearer", "credentials": "secret"}}


class Receiver:
    """A server on loopback that keeps what it gets; the first answers are errors."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.got: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        status = "503 Later" if self.failures else "200 OK"
        self.failures = max(0, self.failures - 1)
        if status == "200 OK":
            self.got.append((head, body))
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async def states(self, count: int) -> list[str]:
        while len(self.got) < count:  # noqa: ASYNC110 - the timeout of the test ends it
            await asyncio.sleep(0.02)
        return [body["task"]["status"]["state"] for _, body in self.got]


@pytest.mark.parametrize("failures", [0, 1])
async def test_updates_are_posted_with_the_headers_of_their_receiver(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK", "1")
    agents.server.state.webhook_notices.backoff = (0.01, 0.01, 0.01)
    receiver = Receiver(failures)
    async with await asyncio.start_server(receiver, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/hook"
        caller = agents.caller()
        given = {"taskPushNotificationConfig": {**CONFIG, "url": url}}
        task = await caller.send("asking", configuration=given)
        assert "TASK_STATE_INPUT_REQUIRED" in await receiver.states(1)
        await caller.send("asking", "red", "m-2", taskId=task["id"])
        await caller.send("asking", "so", "m-3", taskId=task["id"])
        while "TASK_STATE_COMPLETED" not in await receiver.states(1):  # noqa: ASYNC110 - the timeout ends it
            await asyncio.sleep(0.02)
    head = receiver.got[0][0]
    assert "X-A2A-Notification-Token: for-me" in head
    assert "Authorization: Bearer secret" in head
    lines = agents.server.state.webhook_notices.log.attempts(100)
    assert {one.kind for one in lines} == {"task.updated"}
    assert bool(failures) == any(one.error for one in lines)


async def test_a_message_that_is_refused_leaves_no_address(agents: Agents) -> None:
    caller, given = agents.caller(), {"taskPushNotificationConfig": {"url": "https://example.com/hook"}}
    for message in (sending("", "m-1", given), sending("Go", "m-2", given, taskId="none")):
        assert "error" in await caller.rpc("pair", "SendMessage", message)
    task = await caller.send("asking", configuration=given)
    again = await caller.send("asking", configuration=given)
    assert again["id"] == task["id"]
    other = sending("Go", "m-3", {"taskPushNotificationConfig": {"id": "c", "url": "https://example.com"}})
    other["message"] |= {"taskId": task["id"], "contextId": "other"}
    assert "error" in await caller.rpc("asking", "SendMessage", other)
    pushes = agents.server.state.webhook_notices.pushes
    assert [one.task_id for one in pushes._current()[task["id"]].values()] == [task["id"]]
    assert list(pushes._current()) == [task["id"]]


async def test_a_private_address_is_not_called(agents: Agents) -> None:
    receiver = Receiver()
    async with await asyncio.start_server(receiver, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/hook"
        given = {"taskPushNotificationConfig": {"url": url}}
        await agents.caller().send("pair", configuration=given)
        while not (lines := agents.server.state.webhook_notices.log.attempts(10)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    assert "private" in (lines[0].error or "")
    assert receiver.got == []


async def test_configs_are_made_read_and_deleted_by_both_bindings(agents: Agents) -> None:
    caller, reader = agents.caller(), agents.caller("read")
    task = await caller.send("pair")
    at = f"/a2a/pair/tasks/{task['id']}/pushNotificationConfigs"
    made = await caller.http.post(at, json={**CONFIG, "url": "https://example.com/hook"})
    assert made.status_code == 200
    assert made.json()["taskId"] == task["id"]
    assert "secret" not in made.text
    found = await reader.rpc("pair", "GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "c"})
    assert found["result"] == made.json()
    assert (await reader.http.get(at)).json() == {"configs": [made.json()]}
    assert (await reader.http.delete(f"{at}/c")).status_code == 403
    assert (await caller.http.delete(f"{at}/c")).json() == {}
    missing = await reader.http.get(f"{at}/c")
    assert missing.status_code == 404
    assert missing.json()["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://a b", "http://u@x/", "x", "http://x/\r\nA: b"])
async def test_what_is_no_address_is_refused_and_nothing_is_started(agents: Agents, url: str) -> None:
    given = sending("Go", "m-1", configuration={"taskPushNotificationConfig": {"url": url}})
    assert (await agents.caller().rpc("pair", "SendMessage", given))["error"]["code"] == -32602
    assert await agents.server.state.engine.runs.list() == []


def test_configs_survive_a_restart_in_a_private_file(tmp_path: Path) -> None:
    configs = PushConfigs(tmp_path / FILE)
    added = configs.add("t", PushConfig(url="https://example.com/hook", token="x"))
    assert PushConfigs(tmp_path / FILE).of("t") == [added]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    assert configs.add("t", PushConfig(url="https://example.com/hook", token="x")) == added
    for number in range(MOST_OF_TASK - 1):
        configs.add("t", PushConfig(url=f"https://example.com/{number}"))
    with pytest.raises(A2AError, match="delete one"):
        configs.add("t", PushConfig(url="https://example.com/hook"))


@pytest.mark.parametrize("field", ["token", "scheme", "credentials"])
def test_no_header_can_be_forged(field: str) -> None:
    given: dict[str, Any] = {"url": "https://example.com", "authentication": {"scheme": "Bearer"}}
    (given if field == "token" else given["authentication"])[field] = "x\r\nHost: y"
    with pytest.raises(ValueError, match=field):
        PushConfig.model_validate(given)
