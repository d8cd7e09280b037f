"""Lists of tasks: by pages, states, contexts and times, at a cost that does not grow with the journal."""

from base64 import urlsafe_b64encode

import pytest

from teamwright.server.a2a.operations import KINDS
from tests.server.a2a.conftest import Agents, Caller


async def listed(caller: Caller, **asked: object) -> list[str]:
    """The ids of the tasks of all pages, each of one task."""
    ids: list[str] = []
    token = ""
    while True:
        page = (await caller.rpc("asking", "ListTasks", {"pageSize": 1, **asked, "pageToken": token}))["result"]
        assert page["pageSize"] == 1
        ids += [one["id"] for one in page["tasks"]]
        if not (token := page["nextPageToken"]):
            assert page["totalSize"] == len(ids)
            return ids


async def test_tasks_are_listed_by_their_states(agents: Agents) -> None:
    caller = agents.caller()
    waits, done, ended = [(await caller.send("asking", "Go", f"m-{number}"))["id"] for number in range(3)]
    for text in ("red", "It burns"):
        await caller.send("asking", text, f"r-{text}", taskId=done)
    await caller.rpc("asking", "CancelTask", {"id": ended})
    of_state = {
        "TASK_STATE_UNSPECIFIED": [ended, done, waits],
        "TASK_STATE_INPUT_REQUIRED": [waits],
        "TASK_STATE_COMPLETED": [done],
        "TASK_STATE_CANCELED": [ended],
    }
    assert {state: await listed(caller, status=state) for state in KINDS} == {
        state: of_state.get(state, []) for state in KINDS
    }
    for team in ("pair", "failing"):
        assert (await caller.rpc(team, "ListTasks"))["result"]["totalSize"] == 0


async def test_tasks_are_listed_by_context_and_by_time(agents: Agents) -> None:
    caller = agents.caller()
    first, other = [await caller.send("asking", "Go", f"m-{number}") for number in range(2)]
    await caller.rpc("asking", "CancelTask", {"id": first["id"]})
    next_ = await caller.send("asking", "Go", "m-next", contextId=first["contextId"])
    assert await listed(caller, contextId=first["contextId"]) == [next_["id"], first["id"]]
    assert await listed(caller, contextId=first["contextId"], status="TASK_STATE_INPUT_REQUIRED") == [next_["id"]]
    assert await listed(caller, contextId="nowhere") == await listed(caller, contextId="a\0b") == []
    assert await listed(caller, statusTimestampAfter=next_["status"]["timestamp"]) == [next_["id"]]
    assert await listed(caller, statusTimestampAfter="2999-01-01T00:00:00Z") == []
    assert len(await listed(caller, statusTimestampAfter="0001-01-01T00:00:00Z")) == 3
    assert other["id"] in await listed(caller)


@pytest.mark.parametrize(
    "token", [f'[1{"0" * 400}, "a", 1]', '[NaN, "a", 1]', '[1e999, "a", 1]', '[1.0, "a\\u0000", 1]', "[" * 9000, "{}"]
)
async def test_a_token_that_no_page_gave_is_refused(agents: Agents, token: str) -> None:
    given = urlsafe_b64encode(token.encode()).decode()[:1000]
    found = await agents.caller().rpc("asking", "ListTasks", {"pageToken": given})
    assert found["error"]["code"] == -32602
