"""Runs, questions and restarts as clients of AG-UI see them; what is refused starts nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx2
import pytest

from teamwright.server import driven_runs
from teamwright.server.credentials import Role
from tests.kit.terminal import write_team
from tests.server.chat.agui_door import Door, answering, asking, events_of, interrupts_of, kinds, said
from tests.server.test_driven_runs import Served

AFTER = """\
agents:
  a: {model: scripted:replies.yaml, confirm: {after: true}}
  b: {model: scripted:replies.yaml}
teams:
  after: {members: [a, b]}
"""
HELD = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, delay: 30, reply: two}\n"


async def test_a_run_streams_its_members_and_its_answer(door: Door) -> None:
    events = await door.caller().run("pair")
    assert kinds(events)[0] == "RUN_STARTED"
    assert events[0]["protocolVersion"] == "1.0"
    names = [one["name"] for one in events if one["type"] == "SUBAGENT_STARTED"]
    assert names == ["a", "b"]
    assert list(said(events).values()) == ["one", "two"]
    owners = [one.get("subagentRunId") for one in events if one["type"] == "TEXT_MESSAGE_START"]
    assert owners[1] is None, "the answer is the agent's own message"
    last = events[-1]
    assert (last["type"], last["outcome"], last["result"]) == ("RUN_FINISHED", {"type": "success"}, "two")
    assert (last["threadId"], last["runId"]) == ("t-1", "r-1")
    assert last["usage"][0]["totalTokens"] == last["metadata"]["teamwright"]["totalTokens"]


async def test_the_same_run_id_is_the_same_run(door: Door) -> None:
    caller = door.caller()
    first = await caller.run("pair")
    assert await caller.run("pair") == first
    assert len(await door.server.state.engine.runs.list()) == 1
    other = await caller.post("pair", asking(text="Something else"))
    assert other.status_code == 409
    assert (await caller.post("pair", asking(thread="t-2"))).status_code == 409
    await door.caller().run("pair", thread="t-3")
    assert len(await door.server.state.engine.runs.list()) == 2, "another visitor's run is another"


async def test_a_client_drops_what_it_has_of_a_stream_that_it_reads_again(door: Door) -> None:
    caller = door.caller()
    first = await caller.run("pair")
    (started,) = [one for one in first if one["type"] == "TEXT_MESSAGE_START" and one.get("name") == "a"]
    user = {"id": "u-1", "role": "user", "content": "Go"}
    partial = {"id": started["messageId"], "role": "assistant", "content": "on"}
    again = await caller.run("pair", messages=[user, partial])
    assert again[1] == {"type": "MESSAGES_SNAPSHOT", "messages": [user]}
    assert again[2:] == first[1:]


async def test_questions_are_interrupts_that_the_next_request_answers(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("asking")
    (question,) = interrupts_of(asked)
    assert question["message"] == "Which colour?"
    assert question["reason"] == "question"
    assert question["responseSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
    assert question["subagentRunId"] in {one.get("subagentRunId") for one in asked if "SUBAGENT" in one["type"]}
    (suspended,) = [one for one in asked if one["type"] == "SUBAGENT_FINISHED"]
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [question["id"]]}
    answer = answering(asked, "red")
    more = await caller.run("asking", "r-2", resume=answer)
    assert interrupts_of(more)[0]["message"] == "Why?"
    done = await caller.run("asking", "r-3", resume=answering(more, {"answer": "it is warm"}))
    assert done[-1]["result"] == "red because it is warm"
    assert await caller.run("asking") == asked, "each part is read again"
    assert await caller.run("asking", "r-2", resume=answer) == more
    history = await door.server.state.engine.runs.history(question["id"].partition(":")[0])
    assert sum(event.kind == "person.answered" for event in history.events) == 2


async def test_questions_are_answered_in_part(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("twice")
    first, second = answering(asked, "yes", "no")
    more = await caller.run("twice", "r-2", resume=[first])
    assert [one["id"] for one in interrupts_of(more)] == [second["interruptId"]]
    assert (await caller.run("twice", "r-3", resume=[second]))[-1]["outcome"]["type"] == "success"


async def test_of_several_answers_none_counts_where_one_is_wrong(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("twice")
    first, second = answering(asked, "yes", {"answer": 7})
    refused = await caller.post("twice", asking("r-2", resume=[first, second]))
    assert refused.status_code == 400
    assert "'answer'" in refused.json()["error"]["message"]
    assert len(interrupts_of(await caller.run("twice", "r-3", text="Hello"))) == 2


async def test_two_answers_to_one_question_are_refused(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("asking")
    both = [*answering(asked, "red"), *answering(asked, "blue")]
    refused = await caller.post("asking", asking("r-2", resume=both))
    assert (refused.status_code, "answered twice" in refused.text) == (400, True)
    assert interrupts_of(await caller.run("asking", "r-3", text="Hello"))[0]["id"] == both[0]["interruptId"]


async def test_an_answer_that_comes_too_late_is_left_out_and_said(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("gated")
    run_id, _, key = interrupts_of(asked)[0]["id"].partition(":")
    other = door.server.client("answer")
    assert (await other.post(f"/api/runs/{run_id}/answers", json={"key": key, "text": "approve"})).status_code == 202
    await door.server.state.driven.wait(run_id)
    late = await caller.run("gated", "r-2", resume=answering(asked, "reject"))
    assert late[1]["name"] == "teamwright.warning"
    assert late[-1]["result"] == "two"
    assert len(await door.server.state.engine.runs.list()) == 1


async def test_what_is_abandoned_is_declined_or_ends_the_run(door: Door) -> None:
    caller = door.caller()
    for team, kind in (("gated", "RUN_ERROR"), ("asking", "RUN_FINISHED")):
        asked = await caller.run(team, thread=team)
        entry = {"interruptId": interrupts_of(asked)[0]["id"], "status": "cancelled"}
        ended = (await caller.run(team, "r-2", thread=team, resume=[entry]))[-1]
        assert ended["type"] == kind
        assert ended["metadata"]["teamwright"]["status"] == ("failed" if team == "gated" else "cancelled")
    assert ended["outcome"] == {"type": "cancelled"}


async def test_a_visitor_who_may_answer_starts_and_ends_nothing(door: Door) -> None:
    asked = await door.caller().run("asking")
    answerer = door.caller("answer")
    assert (await answerer.post("asking", asking("r-9", thread="t-9"))).status_code == 403
    entry = {"interruptId": interrupts_of(asked)[0]["id"], "status": "cancelled"}
    assert (await answerer.post("asking", asking("r-2", resume=[entry]))).status_code == 403
    more = await answerer.run("asking", "r-3", resume=answering(asked, "blue"))
    assert interrupts_of(more)[0]["message"] == "Why?"
    assert len(await door.server.state.engine.runs.list()) == 1


async def test_a_message_to_a_thread_that_waits_gets_its_questions(door: Door) -> None:
    caller = door.caller()
    asked = await caller.run("asking")
    again = await caller.run("asking", "r-2", text="Never mind")
    ids = [one["id"] for one in interrupts_of(asked)]
    assert [one["id"] for one in interrupts_of(again)] == ids
    assert again[1]["name"] == "teamwright.warning"
    assert len(await door.server.state.engine.runs.list()) == 1


async def test_a_thread_is_a_conversation_that_begins_with_what_was_said_before(door: Door) -> None:
    caller = door.caller()
    before = [
        {"id": "s", "role": "system", "content": "Be brief."},
        {"id": "u", "role": "user", "content": "Hello"},
        {"id": "a", "role": "assistant", "content": "Hi"},
        {"id": "x", "role": "reasoning", "content": "Hm"},
    ]
    await caller.run("pair", messages=[*before, {"id": "v", "role": "user", "content": "Go"}])
    await caller.run("pair", "r-2", messages=[*before, {"id": "w", "role": "user", "content": "More"}])
    runs = await door.server.state.engine.runs.list()
    assert [one.conversation for one in runs] == ["t-1", "t-1"]
    turns = (await door.server.state.engine.conversations.read("t-1")).messages
    assert [one.content for one in turns][:4] == ["Be brief.", "Hello", "Hi", "Go"]
    assert [one.content for one in turns].count("Hello") == 1


async def test_the_context_of_an_application_is_below_the_task(door: Door) -> None:
    events = await door.caller().run("pair", context=[{"description": "page", "value": "/orders"}])
    run_id = events[0]["metadata"]["teamwright"]["run"]
    task = (await door.server.state.engine.runs.history(run_id)).task
    assert task == "Go\n\nContext of the application:\n- page: /orders"


async def test_files_are_read_and_what_can_not_be_is_left_out(door: Door) -> None:
    data = {"type": "data", "value": b64encode(b"a,b\n1,2\n").decode(), "mimeType": "text/csv"}
    parts = [
        {"type": "text", "text": "Go"},
        {"type": "document", "source": data},
        {"type": "image", "source": {"type": "url", "value": "http://127.0.0.1/secret"}},
        {"type": "hologram"},
    ]
    events = await door.caller().run("pair", messages=[{"id": "u", "role": "user", "content": parts}])
    told = [one["value"]["message"] for one in events if one["type"] == "CUSTOM"]
    assert len(told) == 2, told
    assert "address" in told[0]
    assert "unknown" in told[1]
    run_id = events[0]["metadata"]["teamwright"]["run"]
    (file,) = (await door.server.state.engine.runs.history(run_id)).started.attachments
    assert file.media_type == "text/csv"


async def test_limits_of_a_request_bound_its_run(door: Door) -> None:
    props = {"teamwright": {"limits": {"calls": 1}}, "other": [1]}
    ended = (await door.caller().run("pair", forwardedProps=props))[-1]
    assert ended["outcome"] == {"type": "cancelled"}
    assert ended["metadata"]["teamwright"]["stopReason"] == "budget"


async def test_a_failure_is_an_error_in_the_stream(door: Door) -> None:
    ended = (await door.caller().run("failing"))[-1]
    assert ended["type"] == "RUN_ERROR"
    assert "no luck" in ended["message"]
    assert ended["code"] == "error"


HALF = b'{"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "\\ud800"}]}'
ENTRY = {"interruptId": "x", "status": "resolved"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"threadId": ""}, 422),
        ({"runId": ""}, 422),
        ({"runId": 7}, 422),
        ({"threadId": "no/such name"}, 400),
        ({"messages": None}, 422),
        ({"messages": []}, 400),
        ({"messages": [{"id": "u", "role": "user"}]}, 422),
        ({"messages": [{"id": "u", "role": "nobody", "content": "Go"}]}, 422),
        ({"messages": [{"id": "u", "role": "user", "content": "  "}]}, 400),
        ({"messages": [{"id": "u", "role": "assistant", "content": "Go"}]}, 400),
        ({"messages": [{"id": "u", "role": "user", "content": [{"type": "text"}]}]}, 422),
        ({"messages": [{"id": "u", "role": "user", "content": [{"type": "image"}]}]}, 422),
        ({"forwardedProps": {"teamwright": {"limits": {"calls": -1}}}}, 422),
        ({"forwardedProps": {"teamwright": {"odd": 1}}}, 422),
        ({"resume": [ENTRY]}, 409),
        ({"resume": [{**ENTRY, "status": "maybe"}]}, 422),
        ({"resume": ["x"]}, 422),
    ],
)
async def test_a_bad_request_starts_nothing(door: Door, body: dict[str, Any], status: int) -> None:
    answer = await door.caller().post("pair", {**asking(), **body})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert await door.server.state.engine.runs.list() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"threadId": NaN}', b"\xff", HALF, b"[" * 100_000])
async def test_a_body_that_is_no_input_starts_nothing(door: Door, body: bytes) -> None:
    answer = await door.caller().http.post("/agui/pair", content=body)
    assert answer.status_code in (400, 422)
    assert await door.server.state.engine.runs.list() == []


async def test_an_unknown_team_is_not_found(door: Door) -> None:
    assert (await door.caller().post("nobodys", asking())).status_code == 404


@pytest.mark.parametrize("role", ["read", "answer"])
async def test_who_may_not_run_starts_nothing(door: Door, role: Role) -> None:
    assert (await door.caller(role).post("pair", asking())).status_code == 403
    assert await door.server.state.engine.runs.list() == []


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_run_that_nobody_comes_back_to_ends_unless_it_is_stored(
    door: Door, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    monkeypatch.setattr(driven_runs, "RETURN_SECONDS", 0.2)
    caller = door.caller()
    body, run_id = asking(forwardedProps={"teamwright": {"store": is_stored}}), ""
    async with caller.http.stream("POST", "/agui/held", json=body) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                run_id = json.loads(line[6:])["metadata"]["teamwright"]["run"]
                break
    runs = door.server.state.engine.runs
    if is_stored:
        await asyncio.sleep(0.8)
        assert (await runs.result(run_id)).status == "running"
        await runs.cancel(run_id)
    assert (await runs.wait(run_id)).status == "cancelled"


@pytest.mark.parametrize("is_own", [False, True])
async def test_a_run_goes_on_when_a_client_leaves_that_may_not_end_it(
    door: Door, agent_teams: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    monkeypatch.setattr(driven_runs, "RETURN_SECONDS", 0.1)
    write_team(agent_teams / "after", AFTER, HELD)
    if is_own:  # started at this door, and answered by someone who may only answer
        run_id = (await door.caller().run("after"))[-1]["metadata"]["teamwright"]["run"]
    else:  # started elsewhere
        body = {"team": "after", "task": "Go", "conversation": "t-1"}
        run_id = (await door.server.client("run").post("/api/runs", json=body)).json()["run_id"]
    await door.server.state.driven.wait(run_id)
    (question,) = (await door.server.client("read").get(f"/api/runs/{run_id}/questions")).json()
    entry = {"interruptId": f"{run_id}:{question['key']}", "status": "resolved", "payload": "approve"}
    caller = door.caller("answer" if is_own else "run")
    async with caller.http.stream("POST", "/agui/after", json=asking("r-2", resume=[entry])) as stream:
        assert stream.status_code == 200
    await asyncio.sleep(0.5)
    assert (await door.server.state.engine.runs.result(run_id)).status == "running"
    await door.server.state.engine.runs.cancel(run_id)


async def test_a_request_that_is_sent_twice_at_once_is_one_run(door: Door) -> None:
    caller = door.caller()
    answers = await asyncio.gather(*(caller.post("slow", asking()) for _ in range(4)))
    assert [one.status_code for one in answers] == [200] * 4
    assert {events_of(one.text)[-1]["result"] for one in answers} == {"word word word"}
    assert len(await door.server.state.engine.runs.list()) == 1


async def test_a_stream_that_the_end_of_the_server_cuts_off_breaks_its_connection(door: Door) -> None:
    async def follow() -> None:
        async with door.caller().http.stream("POST", "/agui/held", json=asking()) as stream:
            async for line in stream.aiter_lines():
                if "TEXT_MESSAGE_END" in line:
                    door.server.state.feeds.close()

    with pytest.raises(httpx2.RemoteProtocolError):  # an end of the body would look like the end of the run
        await follow()


async def test_a_client_that_comes_back_keeps_its_run(door: Door) -> None:
    caller = door.caller()
    async with caller.http.stream("POST", "/agui/slow", json=asking()) as stream:
        async for line in stream.aiter_lines():
            if "SUBAGENT_STARTED" in line:
                break
    events = await caller.run("slow")
    assert events[-1]["result"] == "word word word"


async def test_a_refused_request_leaves_the_run_of_its_id_alone(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driven_runs, "RETURN_SECONDS", 0.1)
    caller = door.caller()
    following = asyncio.create_task(caller.run("slow"))
    while not await door.server.state.engine.runs.list():  # noqa: ASYNC110 - the timeout of the test ends it
        await asyncio.sleep(0.02)
    assert (await caller.post("slow", asking(text="Other"))).status_code == 409
    assert (await following)[-1]["outcome"] == {"type": "success"}


async def test_the_audit_names_the_run(door: Door) -> None:
    events = await door.caller().run("pair")
    lines = (await door.server.client("admin").get("/api/audit")).json()
    (line,) = [one for one in lines if one["what"] == "run_agent"]
    assert line["on"] == {"team": "pair", "run_id": events[0]["metadata"]["teamwright"]["run"]}


@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_server_keeps_its_streams_and_their_answers(agent_teams: Path) -> None:
    def run(server: Served, team: str, run: str, **more: Any) -> list[dict[str, Any]]:
        answer = server.client.post(f"/agui/{team}", json=asking(run, thread=team, **more))
        assert answer.status_code == 200, answer.text
        return events_of(answer.text)

    with Served(agent_teams) as server:
        asked = run(server, "asking", "r-1")
        with server.client.stream("POST", "/agui/slow", json=asking("r-1", thread="slow")) as stream:
            for line in stream.iter_lines():
                if '"TEXT_MESSAGE_END"' in line:
                    break
            server.process.send_signal(signal.SIGKILL)
    with Served(agent_teams) as server:
        assert run(server, "slow", "r-1")[-1]["result"] == "word word word"
        assert run(server, "asking", "r-1") == asked
        more = run(server, "asking", "r-2", resume=answering(asked, "red"))
        server.process.send_signal(signal.SIGKILL)
    with Served(agent_teams) as server:
        assert run(server, "asking", "r-2", resume=answering(asked, "red")) == more
        done = run(server, "asking", "r-3", resume=answering(more, "so"))
        assert done[-1]["result"] == "red because so"
