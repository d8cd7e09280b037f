"""What messages do: the same message is the same task, answers go to their question once, lists page, tasks end."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.a2a.conftest import Agents, sending
from tests.server.test_driven_runs import Served


async def test_the_same_message_of_the_same_token_is_the_same_task(agents: Agents) -> None:
    caller = agents.caller()
    first, second = await asyncio.gather(caller.send("pair"), caller.send("pair"))
    assert first["id"] == second["id"]
    assert (await agents.caller().send("pair"))["id"] != first["id"]
    assert (await caller.send("slow"))["id"] != first["id"]
    assert len(await agents.server.state.engine.runs.list()) == 3


async def test_the_same_message_of_a_context_that_is_sent_twice_at_once_is_one_task(agents: Agents) -> None:
    caller = agents.caller()
    found = await asyncio.gather(*(caller.send("slow", contextId="c") for _ in range(4)))
    assert len({one["id"] for one in found}) == 1
    assert len(await agents.server.state.engine.runs.list()) == 1


async def test_the_same_id_with_another_text_is_refused(agents: Agents) -> None:
    caller = agents.caller()
    await caller.send("pair", "One thing")
    found = await caller.rpc("pair", "SendMessage", sending("Another", "m-1"))
    assert found["error"]["code"] == -32602
    assert len(await agents.server.state.engine.runs.list()) == 1


async def test_of_two_answers_to_a_question_one_is_refused(agents: Agents) -> None:
    one, other = agents.caller(), agents.caller("answer")
    task = await one.send("asking")
    key = task["status"]["message"]["parts"][1]["data"]["key"]

    def answer(text: str) -> dict[str, object]:
        named = [{"data": {"key": key, "text": text}}]
        return sending("", f"a-{text}", taskId=task["id"], parts=named)

    found = await asyncio.gather(
        one.rpc("asking", "SendMessage", answer("red")), other.rpc("asking", "SendMessage", answer("blue"))
    )
    assert sorted("error" in one for one in found) == [False, True]
    (refused,) = [one["error"] for one in found if "error" in one]
    assert refused["code"] in (-32004, -32602)
    history = await agents.server.state.engine.runs.history(task["id"])
    assert sum(event.kind == "person.answered" for event in history.events) == 1


async def test_an_answer_that_is_sent_again_answers_nothing_else(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("asking")
    for _ in range(2):
        task = await caller.send("asking", "red", "m-2", taskId=task["id"])
        assert task["status"]["message"]["parts"][0] == {"text": "Why?"}
    assert [one["parts"][0]["text"] for one in task["history"]].count("red") == 1


async def test_an_answer_that_is_no_choice_is_refused_and_the_question_stays(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("asking")
    found = await caller.rpc("asking", "SendMessage", sending("green", "m-2", taskId=task["id"]))
    assert found["error"]["code"] == -32602
    assert "red" in found["error"]["message"]
    again = (await caller.rpc("asking", "GetTask", {"id": task["id"]}))["result"]
    assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_of_several_questions_an_answer_names_one_by_its_key(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("twice")
    parts = task["status"]["message"]["parts"]
    keys = [part["data"]["key"] for part in parts if "data" in part]
    assert len(keys) == 2
    found = await caller.rpc("twice", "SendMessage", sending("yes", "m-2", taskId=task["id"]))
    assert keys[0] in found["error"]["message"]
    for number, key in enumerate(keys):
        named = [{"data": {"key": key, "text": "yes"}}]
        task = await caller.send("twice", "", f"k-{number}", taskId=task["id"], parts=named)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"taskId": "nowhere"}, -32001),
        ({"contextId": "no/such name"}, -32602),
        ({"parts": [{"raw": "AAE=", "mediaType": "application/x-odd"}]}, -32005),
        ({"parts": [{"url": "http://127.0.0.1/secret"}]}, -32005),
        ({"parts": [{"text": "a", "data": 1}]}, -32602),
        ({"parts": [{"raw": "!!"}]}, -32602),
        ({"parts": [{}]}, -32602),
        ({"parts": []}, -32602),
        ({"parts": [{"text": "  "}]}, -32602),
        ({"role": "ROLE_AGENT"}, -32602),
        ({"messageId": ""}, -32602),
    ],
)
async def test_a_bad_message_starts_nothing(agents: Agents, message: dict[str, object], code: int) -> None:
    found = await agents.caller().rpc("pair", "SendMessage", sending("Go", "m-1", **message))
    assert found["error"]["code"] == code
    assert await agents.server.state.engine.runs.list() == []


async def test_a_task_that_ended_takes_no_message_and_is_not_cancelled(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("pair")
    found = await caller.rpc("pair", "SendMessage", sending("More", "m-2", taskId=task["id"]))
    assert found["error"]["code"] == -32004
    found = await caller.rpc("pair", "CancelTask", {"id": task["id"]})
    assert found["error"]["code"] == -32002
    found = await caller.rpc("pair", "SubscribeToTask", {"id": task["id"]})
    assert found["error"]["code"] == -32004


async def test_a_task_of_another_team_or_context_is_not_found(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("asking")
    assert (await caller.rpc("pair", "GetTask", {"id": task["id"]}))["error"]["code"] == -32001
    other = sending("red", "m-2", taskId=task["id"], contextId="other")
    assert (await caller.rpc("asking", "SendMessage", other))["error"]["code"] == -32602


async def test_a_context_takes_one_task_at_a_time(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("asking")
    found = await caller.rpc("asking", "SendMessage", sending("Go", "m-2", contextId=task["contextId"]))
    assert found["error"]["code"] == -32004
    assert len(await agents.server.state.engine.runs.list()) == 1


async def test_a_list_is_read_by_pages_newest_change_first(agents: Agents) -> None:
    caller = agents.caller()
    waiting = await caller.send("asking", "First", "m-0")
    done = [await caller.send("asking", "Go", f"m-{number}") for number in range(1, 3)]
    await caller.send("asking", "red", "r-1", taskId=waiting["id"])
    ids: list[str] = []
    token = ""
    while True:
        page = (await caller.rpc("asking", "ListTasks", {"pageSize": 2, "pageToken": token}))["result"]
        assert page["totalSize"] == 3
        assert all("artifacts" not in one for one in page["tasks"])
        ids += [one["id"] for one in page["tasks"]]
        if not (token := page["nextPageToken"]):
            break
    assert ids == [waiting["id"], done[1]["id"], done[0]["id"]]
    open_ = {"status": "TASK_STATE_COMPLETED"}
    assert (await caller.rpc("asking", "ListTasks", open_))["result"]["tasks"] == []
    for bad in ({"pageToken": "x"}, {"pageSize": 0}, {"pageSize": 101}, {"status": "ODD"}, {"historyLength": -1}):
        assert (await caller.rpc("asking", "ListTasks", bad))["error"]["code"] == -32602


async def test_limits_of_a_message_bound_its_run(agents: Agents) -> None:
    task = await agents.caller().send("pair", metadata={"teamwright": {"limits": {"calls": 1}}})
    assert task["metadata"]["stopReason"] == "budget"
    odd = {"teamwright": {"limits": {"calls": -1}}}
    found = await agents.caller().rpc("pair", "SendMessage", sending("Go", "m-1", metadata=odd))
    assert found["error"]["code"] == -32602


async def test_history_is_cut_to_its_newest_messages(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("pair", configuration={"historyLength": 0})
    assert "history" not in task
    found = (await caller.rpc("pair", "GetTask", {"id": task["id"], "historyLength": 1}))["result"]
    assert [one["parts"][0]["text"] for one in found["history"]] == ["two"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_server_keeps_its_tasks_and_their_answers(agent_teams: Path) -> None:
    def call(server: Served, team: str, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return server.client.post(f"/a2a/{team}", json=body, headers={"A2A-Version": "1.0"}).json()["result"]

    at_once = {"returnImmediately": True}
    with Served(agent_teams) as server:
        waiting = call(server, "asking", "SendMessage", sending("Go", "m-1"))["task"]
        working = call(server, "slow", "SendMessage", sending("Go", "m-1", configuration=at_once))["task"]
        server.wait_for(working["id"], "agent.replied")
        server.process.send_signal(signal.SIGKILL)
    with Served(agent_teams) as server:
        found = call(server, "asking", "GetTask", {"id": waiting["id"]})
        assert found == waiting
        assert call(server, "slow", "SendMessage", sending("Go", "m-1"))["task"]["id"] == working["id"]
        answered = sending("red", "m-2", taskId=waiting["id"], configuration=at_once)
        call(server, "asking", "SendMessage", answered)
        server.process.send_signal(signal.SIGKILL)
    with Served(agent_teams) as server:
        again = call(server, "asking", "SendMessage", {**answered, "configuration": {}})["task"]
        assert again["status"]["message"]["parts"][0] == {"text": "Why?"}
        assert [one["parts"][0]["text"] for one in again["history"]].count("red") == 1
        found = call(server, "slow", "GetTask", {"id": working["id"]})
        assert found["status"]["state"] == "TASK_STATE_COMPLETED"
        listed = call(server, "slow", "ListTasks", {})
        assert [one["id"] for one in listed["tasks"]] == [working["id"]]
