"""A run as a task: the table of states, questions, artifacts, history and context, read from the journal alone."""

from __future__ import annotations

import asyncio
from base64 import b64decode

from tests.server.a2a.conftest import Agents


async def test_a_completed_run_is_a_completed_task_with_its_answer_and_history(agents: Agents) -> None:
    task = await agents.caller().send("pair", "Say two")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["contextId"] == task["id"]
    assert task["artifacts"] == [{"artifactId": "answer", "name": "answer", "parts": [{"text": "two"}]}]
    said = [(one["role"], one["parts"][0]["text"]) for one in task["history"]]
    assert said == [("ROLE_USER", "Say two"), ("ROLE_AGENT", "one"), ("ROLE_AGENT", "two")]
    assert len({one["messageId"] for one in task["history"]}) == 3
    assert task["metadata"]["status"] == "completed"


async def test_a_question_is_text_and_data_with_its_key_and_choices(agents: Agents) -> None:
    task = await agents.caller().send("asking")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    text, data = task["status"]["message"]["parts"]
    assert text == {"text": "Which colour?"}
    assert data["data"]["key"].endswith("colour")
    assert data["data"]["choices"] == ["red", "blue"]


async def test_answers_lead_to_the_end_with_files_as_artifacts(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("asking")
    task = await caller.send("asking", "red", "m-2", taskId=task["id"])
    assert task["status"]["message"]["parts"][0] == {"text": "Why?"}
    task = await caller.send("asking", "it is warm", "m-3", taskId=task["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    answer, file = task["artifacts"]
    assert answer["parts"] == [{"text": "red because it is warm"}]
    assert b64decode(file["parts"][0]["raw"]) == b"\x00\x01"
    assert file["parts"][0]["filename"] == "stamp.bin"
    said = [(one["role"], one["parts"][0]["text"]) for one in task["history"]]
    assert said[1:5] == [
        ("ROLE_AGENT", "Which colour?"),
        ("ROLE_USER", "red"),
        ("ROLE_AGENT", "Why?"),
        ("ROLE_USER", "it is warm"),
    ]


async def test_a_failed_run_is_a_failed_task_that_says_why(agents: Agents) -> None:
    task = await agents.caller().send("failing")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "no luck" in task["status"]["message"]["parts"][0]["text"]
    assert task["metadata"]["stopReason"] == "error"


async def test_a_run_whose_budget_ends_is_failed_with_what_it_has(agents: Agents) -> None:
    task = await agents.caller().send("poor")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["metadata"]["stopReason"] == "budget"
    assert task["artifacts"][0]["name"] == "partial"
    assert task["artifacts"][0]["parts"] == [{"text": "one"}]


async def test_a_degraded_run_that_is_done_is_completed_with_its_warnings(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("pair")
    found = await agents.server.state.engine.runs.find(task["id"])
    assert found is not None
    degraded = found.changed(status="degraded", stop_reason="done")
    from teamwright.server.a2a.tasks import Tasks

    state = agents.server.state
    tasks = Tasks(state.engine, state.inbox, "pair", "")
    assert await tasks.state(degraded) == "TASK_STATE_COMPLETED"
    assert await tasks.state(found.changed(status="degraded", stop_reason="budget")) == "TASK_STATE_FAILED"
    assert await tasks.state(found.changed(status="timeout", stop_reason="deadline")) == "TASK_STATE_FAILED"
    assert await tasks.state(found.changed(status="queued")) == "TASK_STATE_SUBMITTED"
    assert await tasks.state(found.changed(status="interrupted")) == "TASK_STATE_WORKING"


async def test_a_run_that_works_says_who_and_one_that_is_paused_says_why(agents: Agents) -> None:
    caller = agents.caller()
    task = await caller.send("held", configuration={"returnImmediately": True})
    for _ in range(200):
        task = (await caller.rpc("held", "GetTask", {"id": task["id"]}))["result"]
        if "b at work." in str(task["status"]):
            break
        await asyncio.sleep(0.02)
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert task["status"]["message"]["parts"] == [{"text": "b at work."}]
    await agents.server.state.engine.runs.pause(task["id"], wait=False)
    await agents.server.state.engine.runs.cancel(task["id"])


async def test_a_cancelled_run_is_canceled_and_one_that_was_not_confirmed_is_rejected(agents: Agents) -> None:
    from teamwright.runtime.run_request import RunRequest
    from teamwright.values.limits import Limits

    caller = agents.caller()
    task = await caller.send("asking")
    found = (await caller.rpc("asking", "CancelTask", {"id": task["id"]}))["result"]
    assert found["status"]["state"] == "TASK_STATE_CANCELED"
    state = agents.server.state
    asked = RunRequest(state.catalogue.load("pair"), "Go", run_id="unsure", confirm=True, limits=Limits(tokens=10_000))
    await state.driven.start(asked)
    await state.driven.wait("unsure")
    waiting = (await caller.rpc("pair", "GetTask", {"id": "unsure"}))["result"]
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    task = await caller.send("pair", "no", "m-9", taskId="unsure")
    assert task["status"]["state"] == "TASK_STATE_REJECTED"


async def test_the_context_is_the_conversation_and_the_next_task_continues_it(agents: Agents) -> None:
    caller = agents.caller()
    first = await caller.send("pair", "Say one", "m-1")
    second = await caller.send("pair", "Say two", "m-2", contextId=first["contextId"])
    assert second["contextId"] == first["contextId"]
    assert second["id"] != first["id"]
    named = await caller.send("pair", "Say three", "m-3", contextId="my-context")
    assert named["contextId"] == "my-context"
    listed = (await caller.rpc("pair", "ListTasks", {"contextId": first["contextId"]}))["result"]
    assert [one["id"] for one in listed["tasks"]] == [second["id"], first["id"]]


async def test_secrets_are_masked(agents: Agents) -> None:
    secret = "sk-" + "a1B2c3D4" * 6
    task = await agents.caller().send("pair", f"Use {secret}")
    assert secret not in str(task)
