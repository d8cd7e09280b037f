"""Runs as tasks: created at once, read and answered from the journal, also by another process after a crash."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx2
import pytest

from teamwright.journal import MemoryJournal, SqliteJournal
from teamwright.server.mcp.tasks import RunProgress
from teamwright.server.mcp.team_server import LOCAL_OWNER, TeamServer
from teamwright.values.events.agent import AgentAsked, AgentReplied
from teamwright.values.events.event import Event
from tests.kit.mcp import TakesTasks, TaskRequest, TaskState, Wire, connected
from tests.kit.server import NO_CERTIFICATES, PATIENCE, TestServer, serving
from tests.kit.terminal import write_team
from tests.server.mcp.conformance.members import manifest


async def until(wire: Wire, task: str, *statuses: str) -> dict[str, Any]:
    """Poll a task until it has one of these statuses."""
    while True:
        found = await wire.call("tasks/get", taskId=task)
        if found["status"] in statuses:
            return found
        await anyio.sleep(0.02)


async def created(wire: Wire, team: str, task: str = "Go") -> str:
    found = await wire.call("tools/call", name=team, arguments={"task": task})
    assert (found["resultType"], found["status"], found["ttlMs"]) == ("task", "working", None)
    return found["taskId"]


async def answer_in(server: TestServer, task: str) -> dict[str, Any]:
    """Return the one answer that the record of a run has."""
    history = await server.state.engine.runs.history(task)
    (found,) = [one.to_json() for one in history.events if one.kind == "person.answered"]
    return cast("dict[str, Any]", found["answer"])


async def test_a_client_that_takes_tasks_gets_one_at_once_and_the_result_later(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "slow")
        working = await until(wire, task, "working")
        assert working["resultType"] == "complete"
        ended = await until(wire, task, "completed")
        assert ended["result"]["content"] == [{"type": "text", "text": "word word word"}]
        assert ended["createdAt"] <= ended["lastUpdatedAt"]


async def test_the_official_client_takes_a_task_and_reads_it(tmp_path: Path, teams: Path) -> None:
    async with (
        serving(MemoryJournal(), tmp_path, [teams]) as server,
        connected(server.url, server.token("run"), extensions=[TakesTasks()]) as mcp,
    ):
        (block,) = (await mcp.call_tool("pair", {"task": "Go"})).content
        task = block.model_dump()["text"]
        await server.state.engine.runs.wait(task)
        request = TaskRequest(method="tasks/get", params={"taskId": task})
        assert (await mcp.session.send_request(request, TaskState)).status == "completed"


async def test_the_status_says_who_works(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "held")
        while (await wire.call("tasks/get", taskId=task))["statusMessage"] != "b works":  # noqa: ASYNC110 - a poll
            await anyio.sleep(0.02)
        assert await wire.call("tasks/cancel", taskId=task)
        ended = await until(wire, task, "cancelled")
        assert "result" not in ended
        assert await wire.call("tasks/cancel", taskId=task)  # it has ended: nothing changes


def test_more_than_three_members_are_counted() -> None:
    progress = RunProgress()
    for number, name in enumerate("abcde", 1):
        asked = AgentAsked(member=name, member_kind="model", turn=1, task="x", length=0, digest="")
        progress.add(Event("r", number, float(number), "", f"t/{name}", asked))
    assert progress.text == "a, b, c and 2 more work"
    for number, name in enumerate("bcde", 6):
        progress.add(Event("r", number, float(number), "", f"t/{name}", AgentReplied()))
    assert (progress.text, progress.turns, progress.time) == ("a works", 5, 9.0)


async def test_a_question_is_an_input_request_under_its_key(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "gated")
        waiting = await until(wire, task, "input_required")
        ((key, request),) = waiting["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        fields = request["params"]["requestedSchema"]["properties"]
        assert fields["answer"]["enum"] == ["approve", "edit", "reject"]
        assert set(fields) == {"answer", "content", "reason"}
        assert "two" in request["params"]["message"]
        assert waiting["statusMessage"] == "waits for a person"
        edit = {"action": "accept", "content": {"answer": "edit", "content": "three"}}
        assert (await wire.call("tasks/update", taskId=task, inputResponses={key: edit, "other": edit})).keys() <= {
            "resultType",
            "_meta",
        }
        ended = await until(wire, task, "completed")
        assert ended["result"]["content"][0]["text"] == "three"
        assert (await answer_in(server, task))["by"] == "run-0"


async def two_questions(folder: Path) -> Path:
    write_team(folder / "teams" / "multi_input", manifest("multi_input"), "rules: []\n")
    return folder / "teams"


async def test_questions_are_answered_in_part(tmp_path: Path) -> None:
    teams = await two_questions(tmp_path)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "multi_input")
        while len((await wire.call("tasks/get", taskId=task)).get("inputRequests", {})) < 2:  # noqa: ASYNC110 - a poll
            await anyio.sleep(0.02)
        first, second = (await wire.call("tasks/get", taskId=task))["inputRequests"]
        said = {"action": "accept", "content": {"answer": "blue"}}
        await wire.call("tasks/update", taskId=task, inputResponses={first: said})
        waiting = await wire.call("tasks/get", taskId=task)
        assert (waiting["status"], list(waiting["inputRequests"])) == ("input_required", [second])
        await wire.call("tasks/update", taskId=task, inputResponses={second: said})
        assert (await until(wire, task, "completed"))["result"]["isError"] is False


async def test_of_two_clients_that_answer_the_first_counts(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wires = [Wire(server.client("run")), Wire(server.client("answer"))]
        task = await created(wires[0], "gated")
        (key,) = (await until(wires[0], task, "input_required"))["inputRequests"]

        async def answer(wire: Wire, text: str) -> None:
            edit = {"action": "accept", "content": {"answer": "edit", "content": text}}
            await wire.call("tasks/update", taskId=task, inputResponses={key: edit})

        async with anyio.create_task_group() as group:
            group.start_soon(answer, wires[0], "from one")
            group.start_soon(answer, wires[1], "from two")
        ended = await until(wires[0], task, "completed")
        given = await answer_in(server, task)
        assert given["data"] == ended["result"]["content"][0]["text"]
        assert given["data"] in ("from one", "from two")
        await answer(wires[1], "too late")  # acknowledged, and ignored
        assert (await wires[0].call("tasks/get", taskId=task))["result"] == ended["result"]


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"action": "accept", "content": {"answer": "maybe"}}, "maybe"),
        ({"action": "accept", "content": {}}, "no text 'answer'"),
        ({"action": "accept"}, "no text 'answer'"),
        ({"action": "accept", "content": {"answer": "edit"}}, "needs the new 'content'"),
        ({}, "has no action"),
        ("yes", "has no action"),
        (None, "has no action"),
    ],
)
async def test_a_wrong_answer_is_refused_and_the_question_stays_open(
    tmp_path: Path, teams: Path, response: Any, words: str
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "gated")
        (key,) = (await until(wire, task, "input_required"))["inputRequests"]
        error = await wire.error("tasks/update", taskId=task, inputResponses={key: response})
        assert (error["code"], error["data"]["code"]) == (-32602, "usage")
        assert words in error["message"]
        assert list((await wire.call("tasks/get", taskId=task))["inputRequests"]) == [key]


async def test_who_declines_rejects_a_draft_and_who_cancels_leaves_it_open(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "gated")
        (key,) = (await until(wire, task, "input_required"))["inputRequests"]
        await wire.call("tasks/update", taskId=task, inputResponses={key: {"action": "cancel"}})
        assert (await wire.call("tasks/get", taskId=task))["status"] == "input_required"
        await wire.call("tasks/update", taskId=task, inputResponses={key: {"action": "decline"}})
        assert (await until(wire, task, "completed"))["result"]["isError"] is True


async def test_a_question_may_be_answered_elsewhere(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"))
        task = await created(wire, "gated")
        (key,) = (await until(wire, task, "input_required"))["inputRequests"]
        answer = {"key": key, "text": "approve"}
        assert (await server.client("run").post(f"/api/runs/{task}/answers", json=answer)).status_code == 202
        assert (await until(wire, task, "completed"))["result"]["content"][0]["text"] == "two"


async def test_a_client_without_tasks_that_asks_people_answers_and_calls_again(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"), takes_tasks=False, asks_people=True)
        call: dict[str, Any] = {"name": "gated", "arguments": {"task": "Go"}}
        asked = await wire.call("tools/call", **call)
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        given = {key: {"action": "accept", "content": {"answer": "approve"}}}
        state = asked["requestState"]
        ended = await wire.call("tools/call", **call, requestState=state, inputResponses=given)
        assert (ended["resultType"], ended["content"][0]["text"]) == ("complete", "two")
        assert len(await server.state.engine.runs.list()) == 1
        run_id, proof = state.split()
        for wrong in ("", "no-such-run", "../x", run_id, f"{run_id} x", f"x {proof}", state + "\n", "x" * 100_000):
            refused = await wire.error("tools/call", **call, requestState=wrong, inputResponses=given)
            assert (refused["code"], refused["data"]["code"]) == (-32602, "unknown_state")
        for other in ({"name": "pair", "arguments": {"task": "Go"}}, {"name": "gated", "arguments": {"task": "Stop"}}):
            assert (await wire.error("tools/call", **other, requestState=state))["data"]["code"] == "unknown_state"
        assert len(await server.state.engine.runs.list()) == 1


@pytest.mark.parametrize("becomes", ["another", "broken", "gone"])
async def test_a_call_goes_on_with_the_answers_whatever_its_team_has_become(
    tmp_path: Path, teams: Path, becomes: str
) -> None:
    file = teams / "gated" / "team.yaml"
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"), takes_tasks=False, asks_people=True)
        call: dict[str, Any] = {"name": "gated", "arguments": {"task": "Go"}}
        asked = await wire.call("tools/call", **call)
        if becomes == "gone":
            file.unlink()
        else:
            file.write_text(file.read_text().replace("[a, b]", "[a]" if becomes == "another" else "[a"))
        given = {key: {"action": "accept", "content": {"answer": "approve"}} for key in asked["inputRequests"]}
        ended = await wire.call("tools/call", **call, requestState=asked["requestState"], inputResponses=given)
        assert (ended["isError"], ended["content"][0]["text"]) == (False, "two")


async def test_the_questions_of_a_run_are_answered_by_who_waits_for_its_result_and_may(
    tmp_path: Path, teams: Path
) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        starting = Wire(server.client("run"))
        task = await created(starting, "gated")
        await until(starting, task, "input_required")
        call: dict[str, Any] = {"name": "run_result", "arguments": {"run_id": task}}
        reading = Wire(server.client("read"), takes_tasks=False, asks_people=True)
        told = await reading.call("tools/call", **call)
        assert (told["resultType"], "waits for a person" in told["content"][0]["text"]) == ("complete", True)
        answering = Wire(server.client("answer"), takes_tasks=False, asks_people=True)
        asked = await answering.call("tools/call", **call)
        given = {key: {"action": "accept", "content": {"answer": "approve"}} for key in asked["inputRequests"]}
        assert (await reading.error("tools/call", **call, inputResponses=given))["code"] == -32003
        ended = await answering.call("tools/call", **call, inputResponses=given)
        assert (ended["resultType"], ended["content"][0]["text"]) == ("complete", "two")


async def test_a_client_with_neither_is_told_where_the_question_is(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        wire = Wire(server.client("run"), takes_tasks=False)
        told = await wire.call("tools/call", name="gated", arguments={"task": "Go"})
        assert "waits for a person" in told["content"][0]["text"]


async def test_a_task_needs_the_extension_its_header_and_a_run_that_exists(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        plain, wire = Wire(server.client("run"), takes_tasks=False), Wire(server.client("run"))
        task = await created(wire, "pair")
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            missing = await plain.error(method, taskId=task, **more)
            assert missing["code"] == -32021
            assert "io.modelcontextprotocol/tasks" in missing["data"]["requiredCapabilities"]["extensions"]
            assert (await wire.error(method, taskId="nothing", **more))["code"] == -32602
            wrong = await wire.send(method, {"taskId": task, **more}, **{"Mcp-Name": "another"})
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)


async def test_a_team_whose_code_breaks_is_a_failed_task_and_one_that_fails_is_a_tool_error(tmp_path: Path) -> None:
    for name in ("protocol_error_job", "failing_job"):
        write_team(tmp_path / "teams" / name, manifest(name), "rules: []\n")
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        wire = Wire(server.client("run"))
        broken = await until(wire, await created(wire, "protocol_error_job"), "failed")
        assert broken["error"]["code"] == -32603
        assert "result" not in broken
        failed = await until(wire, await created(wire, "failing_job"), "completed")
        assert failed["result"]["isError"] is True
        assert "on purpose" in failed["result"]["content"][0]["text"]


async def test_a_second_process_reads_the_tasks_of_the_first(tmp_path: Path, teams: Path) -> None:
    """The journal is the only store: a server that never saw a run knows its task."""
    async with serving(SqliteJournal(tmp_path / "runs.sqlite"), tmp_path, [teams]) as first:
        wire = Wire(first.client("run"))
        done, waiting = await created(wire, "pair"), await created(wire, "gated")
        ended = await until(wire, done, "completed")
        (key,) = (await until(wire, waiting, "input_required"))["inputRequests"]
    async with serving(SqliteJournal(tmp_path / "runs.sqlite"), tmp_path, [teams]) as second:
        wire = Wire(second.client("run"))
        assert (await wire.call("tasks/get", taskId=done))["result"] == ended["result"]
        approve = {"action": "accept", "content": {"answer": "approve"}}
        await wire.call("tasks/update", taskId=waiting, inputResponses={key: approve})
        assert (await until(wire, waiting, "completed"))["result"]["content"][0]["text"] == "two"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.timeout(180)  # another process imports everything
async def test_a_task_survives_that_its_server_is_killed_before_it_is_asked_for(tmp_path: Path) -> None:
    """Killed between the answer to the call and the first `tasks/get`, while a member works and another waits."""
    from tests.server.mcp.conformance.killing_proxy import KilledServer

    server = await anyio.to_thread.run_sync(KilledServer, tmp_path)
    try:
        async with connection(server.url) as wire:
            computing = (await wire.call("tools/call", name="slow_compute", arguments={"seconds": 0.2}))["taskId"]
            asking = (await wire.call("tools/call", name="confirm_delete", arguments={}))["taskId"]
        await anyio.to_thread.run_sync(server.replace)
        async with connection(server.url) as wire:
            assert (await wire.call("tasks/get", taskId=computing))["status"] in ("working", "completed")
            ended = await until(wire, computing, "completed", "failed")
            assert ended["result"]["content"][0]["text"] == "computed"
            (key,) = (await until(wire, asking, "input_required"))["inputRequests"]
            said = {"action": "accept", "content": {"answer": "yes"}}
            await wire.call("tasks/update", taskId=asking, inputResponses={key: said})
            assert (await until(wire, asking, "completed"))["result"]["content"][0]["text"] == "deleted: yes"
    finally:
        server.end()


@asynccontextmanager
async def connection(url: str) -> AsyncGenerator[Wire]:
    address = url.removesuffix("/mcp")
    async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE, verify=NO_CERTIFICATES) as http:
        yield Wire(http)


@pytest.mark.parametrize("ticks", range(8))
async def test_a_client_that_leaves_at_once_leaves_no_run_that_no_one_drives(
    tmp_path: Path, teams: Path, ticks: int
) -> None:
    """The library cancels the handler of a request whose client has left, wherever it is."""
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        mcp, caller = TeamServer(server.state), Alone()
        tool = await mcp.tools.find("gated")
        assert tool is not None

        async with anyio.create_task_group() as group:
            group.start_soon(mcp.tools.start, tool, {"task": "Go"}, caller, "r")
            await passed(ticks)
            group.cancel_scope.cancel()
        if not ticks and await server.state.engine.runs.find("r") is None:
            return  # it had not begun
        assert (await server.state.driven.wait("r")).status == "paused"
        (key,) = (await mcp.tasks.get("r"))["inputRequests"]
        said = {key: {"action": "accept", "content": {"answer": "approve"}}}
        async with anyio.create_task_group() as group:
            group.start_soon(mcp.tasks.update, "r", said, caller.visitor)
            await passed(ticks)
            group.cancel_scope.cancel()
        if (await mcp.tasks.get("r"))["status"] != "input_required":
            assert (await server.state.driven.wait("r")).status == "completed"


async def passed(ticks: int) -> None:
    for _ in range(ticks):
        await anyio.lowlevel.checkpoint()


class Alone:
    """Who calls without a connection."""

    asks_people = False
    visitor = LOCAL_OWNER

    async def report(self, turns: int, text: str) -> None:
        raise NotImplementedError

    def started(self, run_id: str) -> None:
        """Note nothing."""


async def test_a_client_that_comes_back_for_a_task_keeps_its_run(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teamwright.server.driven_runs.RETURN_SECONDS", 2.0)
    call = {"name": "held", "arguments": {"task": "Go"}, "_meta": {"teamwright/idempotency-key": "k"}}
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        http = server.client("run")
        http.timeout = 0.5
        with pytest.raises(httpx2.TimeoutException):
            await Wire(http, takes_tasks=False).send("tools/call", call)
        http.timeout = PATIENCE
        task = (await Wire(http).call("tools/call", **call))["taskId"]
        await anyio.sleep(2.4)
        assert (await Wire(http).call("tasks/get", taskId=task))["status"] == "working"


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("tools/call", {"name": None}, "name expects text, found nothing"),
        ("tools/call", {"name": "pair", "arguments": 5}, "arguments expects a mapping, found the number 5"),
        ("tools/call", {"name": "pair", "requestState": 5}, "requestState expects text, found the number 5"),
        ("tasks/get", {"taskId": 5}, "taskId expects text, found the number 5"),
        ("tasks/get", {"taskId": "x" * 300}, "taskId is too long"),
        ("tasks/get", {}, "taskId is missing"),
        ("tasks/update", {"taskId": "x"}, "inputResponses is missing"),
        ("tasks/update", {"taskId": "x", "inputResponses": []}, "inputResponses expects a mapping, found a list"),
        ("resources/read", {}, "uri is missing"),
    ],
)
async def test_wrong_params_are_named_in_our_words(
    tmp_path: Path, method: str, params: dict[str, Any], words: str
) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        error = await Wire(server.client("run")).error(method, **params)
        assert error["code"] == -32602
        assert f"The params of {method!r} do not fit: {words}" in error["message"]


async def test_a_revoked_token_gets_nothing_of_the_run_that_it_waits_for(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        found: list[dict[str, Any]] = []

        async def call() -> None:
            wire = Wire(server.client("run"), takes_tasks=False)
            found.append(await wire.error("tools/call", name="slow", arguments={"task": "Go"}))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await _started(server)
            server.state.tokens.delete("run-0")
        assert found[0]["code"] == -32003


async def _started(server: TestServer) -> None:
    while not await server.state.engine.runs.list():  # noqa: ASYNC110 - the journal has no event for it
        await anyio.sleep(0.02)
