"""Streams begin with the task, follow it as it is written, and end with it; a late client misses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from tests.server.a2a.conftest import Agents, Caller, sending


async def events(caller: Caller, method: str, address: str, body: Any = None) -> AsyncGenerator[dict[str, Any]]:
    async with caller.http.stream(method, address, json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [next(iter(one)) for one in found]


async def test_a_stream_begins_with_the_task_and_ends_with_its_end(agents: Agents) -> None:
    body = sending("Go", "m-1")
    found = [one async for one in events(agents.caller(), "POST", "/a2a/slow/message:stream", body)]
    assert kinds(found)[0] == "task"
    assert kinds(found)[-1] == "statusUpdate"
    last = found[-1]["statusUpdate"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert last["contextId"] == found[0]["task"]["contextId"]
    updates = [one["artifactUpdate"] for one in found if "artifactUpdate" in one]
    text = ""
    for one in updates:
        piece = "".join(part["text"] for part in one["artifact"]["parts"])
        text = text + piece if one.get("append") else piece
    assert text == "word word word"
    assert updates[-1]["lastChunk"]


async def test_by_json_rpc_each_event_is_a_response(agents: Agents) -> None:
    body = {"jsonrpc": "2.0", "id": "x", "method": "SendStreamingMessage", "params": sending("Go", "m-1")}
    found = [one async for one in events(agents.caller(), "POST", "/a2a/slow", body)]
    assert {(one["jsonrpc"], one["id"]) for one in found} == {("2.0", "x")}
    assert kinds([one["result"] for one in found])[0] == "task"


async def test_a_stream_of_a_message_ends_where_its_task_waits(agents: Agents) -> None:
    found = [one async for one in events(agents.caller(), "POST", "/a2a/asking/message:stream", sending("Go", "m-1"))]
    last = found[-1].get("statusUpdate") or found[-1]["task"]
    assert last["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_subscribers_get_the_same_end_also_over_a_question(agents: Agents) -> None:
    caller, reader = agents.caller(), agents.caller("read")
    task = await caller.send("asking")
    first = asyncio.Event()

    async def follow(method: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for one in events(reader, method, f"/a2a/asking/tasks/{task['id']}:subscribe"):
            found.append(one)
            first.set()
        return found

    both = [asyncio.create_task(follow(method)) for method in ("GET", "POST")]
    await first.wait()
    await asyncio.sleep(0.1)
    await caller.send("asking", "red", "m-2", taskId=task["id"])
    await caller.send("asking", "so", "m-3", taskId=task["id"])
    one, other = await asyncio.gather(*both)
    assert one[0]["task"]["id"] == other[0]["task"]["id"] == task["id"]
    assert one[-1] == other[-1]
    assert one[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    states = [each["statusUpdate"]["status"]["state"] for each in one if "statusUpdate" in each]
    assert "TASK_STATE_INPUT_REQUIRED" in states


async def test_a_client_that_leaves_does_not_end_its_task(agents: Agents) -> None:
    caller = agents.caller()
    async for one in events(caller, "POST", "/a2a/slow/message:stream", sending("Go", "m-1")):
        assert "task" in one
        break
    again = [one async for one in events(caller, "POST", "/a2a/slow/message:stream", sending("Go", "m-1"))]
    last = again[-1].get("statusUpdate") or again[-1]["task"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(await agents.server.state.engine.runs.list()) == 1


async def test_a_revoked_token_gets_nothing_more_of_a_stream(agents: Agents) -> None:
    caller, reader = agents.caller(), agents.caller("read")
    task = await caller.send("asking")
    found: list[dict[str, Any]] = []
    async for one in events(reader, "GET", f"/a2a/asking/tasks/{task['id']}:subscribe"):
        found.append(one)
        if len(found) == 1:
            agents.server.state.tokens.delete("read-1")
            await caller.send("asking", "red", "m-2", taskId=task["id"])
    assert kinds(found) == ["task"]
