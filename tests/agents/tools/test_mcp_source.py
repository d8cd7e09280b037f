from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, Team, load_team
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools import mcp_connection
from teamwright.agents.tools.mcp_connection import McpConnection
from teamwright.agents.tools.mcp_source import McpServer, McpSource
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError, CallInDoubt, InvalidValue, LimitReached, ServiceError, ToolError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.manifests.manifest_loader import load
from teamwright.testing.model_server import CallTools, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentCalled, AgentCallFailed
from teamwright.values.specs.models import ServerModel
from teamwright.values.specs.tools import McpSpec, McpTool
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording
from tests.paths import ROOT
from tests.teams.manifests.manifests import loaded, problems

SERVER = str(ROOT / "tests" / "agents" / "arithmetic_server.py")
"""A program that uses the MCP library."""
SMALL_SERVER = ("-S", "-m", "tests.agents.small_arithmetic_server")
"""One that starts twenty times as fast, for tests of what becomes of its process."""


def search(query: str) -> list[str]:
    """Search the archive."""
    return [query] * 3


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def arithmetic(notes: Path, env: dict[str, str] | None = None, **more: object) -> tuple[str, McpSpec]:
    """A server of the small program."""
    args, variables = (*SMALL_SERVER, str(notes)), {"PYTHONPATH": str(ROOT), **(env or {})}
    return "arithmetic", McpSpec(
        mcp=McpTool.model_validate({"command": (sys.executable, *args), "env": variables, **more})
    )


def library_arithmetic(notes: Path, **more: object) -> tuple[str, McpSpec]:
    """A server of the program that uses the library."""
    return "arithmetic", McpSpec(mcp=McpTool.model_validate({"command": (sys.executable, SERVER, str(notes)), **more}))


def noted(notes: Path) -> list[object]:
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


async def test_the_tools_of_an_mcp_server_are_offered_and_called(notes: Path) -> None:
    record = Recording()
    async with Toolbox([search, library_arithmetic(notes)]).open(record.ctx) as tools:
        assert [offer.name for offer in tools.definitions] == [
            "search",
            "add",
            "fail",
            "crash",
            "shout",
            "wait",
            "where",
        ]
        assert await tools.call_recorded("add", {"a": 1, "b": 2}, key="tool-1") == 3
        with pytest.raises(ToolError, match="out of order"):
            await tools.call_recorded("fail", {}, key="tool-2")
        with pytest.raises(ToolError):
            await tools.call_recorded("add", {"a": "x"}, key="tool-3")
    started, called = noted(notes)
    assert started == "started"
    assert called == {"tool": "add", "key": digest("run", "tool-1")}
    assert list(record.results) == ["tools-arithmetic", "tool-1"]


async def test_a_replay_starts_no_mcp_server(notes: Path) -> None:
    record = Recording()
    toolbox = Toolbox([arithmetic(notes)])
    async with toolbox.open(record.ctx) as tools:
        await tools.call_recorded("add", {"a": 1, "b": 2}, key="tool-1")
    notes.unlink()
    async with toolbox.open(record.again().ctx) as tools:
        assert await tools.call_recorded("add", {"a": 1, "b": 2}, key="tool-1") == 3
    assert noted(notes) == []


async def test_allowlists_narrow_an_mcp_server(notes: Path) -> None:
    record = Recording()
    async with Toolbox([arithmetic(notes)]).open(record.ctx):
        pass
    for spec, allow, expected in [
        (arithmetic(notes, tools=("add",)), None, ["add"]),
        (arithmetic(notes), ["fail"], ["fail"]),
        (arithmetic(notes, tools=("add",)), ["arithmetic"], ["add"]),
        (arithmetic(notes, tools=("add",)), ["search"], []),
    ]:
        async with Toolbox([spec]).open(record.again().ctx, allow=allow) as tools:
            assert [offer.name for offer in tools.definitions] == expected


async def test_an_allowed_tool_that_a_server_does_not_have_is_a_warning(notes: Path) -> None:
    record = Recording()
    toolbox = Toolbox([arithmetic(notes, tools=("add", "ad"))], owner="a")
    async with toolbox.open(record.ctx) as tools:
        expected = ["a: the MCP server 'arithmetic' has no tool 'ad', which 'tools' names; did you mean 'add'?"]
        assert tools.warnings == expected
    async with toolbox.open(record.again().ctx) as tools:
        assert tools.warnings == expected


async def test_a_tool_that_a_server_lists_twice_is_offered_once_with_a_warning() -> None:
    listed = [{"name": "add", "description": text, "parameters": {}} for text in ("one", "two", "three")]

    class Listing:
        async def request(self, label: str, send: object) -> object:
            return listed

    server = McpServer("twice", McpTool(command=("x",)), cast("McpConnection", Listing()), 1000)
    (only,) = await server.definitions(Recording().ctx)
    assert (only.name, only.description) == ("add", "one")
    assert server.warnings == ("the MCP server 'twice' lists the tool 'add' more than once; the first is used",)


def test_a_folder_that_is_not_there_is_a_mistake_in_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    text = "agents: {a: {model: local, tools: [{mcp: {command: x, folder: %s}}]}}"
    (problem,) = problems(tmp_path, text % "nowhere")
    assert problem.message == "agent 'a': there is no folder 'nowhere' to start the server in"
    assert problem.column == text.index("%s") + 1
    for fine in ("here", "'${FOLDER}'"):
        loaded(tmp_path, text % fine)


def test_a_command_that_is_not_installed_is_a_warning_of_a_thorough_load(tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text("agents: {a: {model: local, tools: [{mcp: {command: no-such-program}}]}}")
    assert load([file]).warnings == ()
    (warning,) = (one for one in load([file], thorough=True).warnings if "command" in one.message)
    assert warning.message == "agent 'a': there is no command 'no-such-program' on this machine"


async def test_an_mcp_server_that_dies_fails_the_call_and_starts_again_for_the_next(notes: Path) -> None:
    async with Toolbox([arithmetic(notes)]).open(Recording().ctx) as tools:
        with pytest.raises(CallInDoubt, match=r"'arithmetic' ended during the call \(out of memory\); .* is unknown"):
            await tools.call_recorded("crash", {}, key="tool-1")
        assert await tools.call_recorded("add", {"a": 1, "b": 2}, key="tool-2") == 3
    assert started(notes) == 2


BROKEN_SERVER = """
import json, sys

print("debugging", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    match request["method"], sys.argv[1]:
        case "initialize", _:
            version = request["params"]["protocolVersion"]
            info = {"name": "broken", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list", "list":
            result = {"tools": "none"}
        case "tools/list", _:
            result = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
        case _:
            result = {"content": "none"}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
"""A server that writes to its output what is not for its client, and breaks the protocol in its list or its results."""


@pytest.mark.parametrize("breaks", ["list", "result"])
async def test_a_server_that_breaks_the_protocol_is_reported_in_our_words_and_without_tracebacks(
    breaks: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a program that does not configure logging
    broken = McpSpec(mcp=McpTool(command=(sys.executable, "-c", BROKEN_SERVER, breaks)))
    with pytest.raises(AgentError) as raised:
        async with Toolbox([("broken", broken)]).open(Recording().ctx) as tools:
            await tools.call_recorded("look", {}, key="tool-1")
    broke = "its answer does not fit the protocol at {!r}"
    assert str(raised.value) == (
        "The MCP server 'broken' does not list its tools: " + broke.format("tools")
        if breaks == "list"
        else broke.format("content")
    )
    assert capfd.readouterr().err == ""


async def test_an_mcp_server_that_cannot_start_is_reported_clearly(notes: Path) -> None:
    for wrong, why in (
        (McpTool(command=("no-such-program",)), "there is no command 'no-such-program'; check it, or install it"),
        (McpTool(command=(sys.executable,), folder="/no/such"), "there is no folder '/no/such'; check its  folder"),
    ):
        with pytest.raises(ToolError, match=f"'mcp-1' can't be started: {why}") as raised:
            async with Toolbox([McpSpec(mcp=wrong)]).open(Recording().ctx):
                pass
        assert (raised.value.kind, raised.value.retryable) == ("tool", False)
    assert McpSource("far", McpTool(command=("x",), folder="/no/such")).problems() == [
        "The MCP server 'far' can't be started: there is no folder '/no/such'; check its  folder."
    ]
    broken = McpSpec(mcp=McpTool(command=(sys.executable, "-c", "raise SystemExit('no database')")))
    with pytest.raises(ServiceError, match=r"'mcp-1' did not answer .*no database"):
        async with Toolbox([broken]).open(Recording().ctx):
            pass
    with pytest.raises(UsageError, match="either a command or a url"):
        async with Toolbox([McpSpec(mcp=McpTool())]).open(Recording().ctx):
            pass


def test_settings_of_a_server_that_have_no_effect_are_refused_in_python() -> None:
    with pytest.raises(InvalidValue) as raised:
        McpTool(url="ftp://far", folder="a", env={"A": "b"})
    assert str(raised.value) == (
        "McpTool: folder: goes with 'command', which is not there; env: goes with 'command', which is not there;"
        " url: 'ftp://far' is not an http address."
    )
    with pytest.raises(InvalidValue, match=r"McpSpec: mcp.headers: goes with 'url', which is not there"):
        McpSpec(mcp={"command": "x", "headers": {"A": "b"}})  # pyright: ignore[reportArgumentType]
    assert McpTool.model_validate({"command": "x", "headers": {"A": "b"}}).headers == {"A": "b"}  # as in a record


async def test_cancelling_ends_an_mcp_server(notes: Path) -> None:
    async with anyio.create_task_group() as group:

        async def work() -> None:
            async with Toolbox([library_arithmetic(notes)]).open(Recording().ctx) as tools:
                await tools.call_recorded("wait", {}, key="tool-1")

        group.start_soon(work)
        while len(noted(notes)) < 2:  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    pid = noted(notes)[1]
    assert isinstance(pid, int)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@contextmanager
def http_server(notes: Path) -> Generator[McpSpec]:
    """An arithmetic server on loopback, as a process that is killed at the end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        command = [sys.executable, SERVER, str(notes), str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL) as process:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            try:
                yield McpSpec(mcp=McpTool(url=url, headers={"X-Team": "wright"}))
            finally:
                process.kill()


async def test_an_mcp_server_may_be_reached_by_url(notes: Path) -> None:
    with http_server(notes) as spec:
        async with Toolbox([spec]).open(Recording().ctx) as tools:
            assert await tools.call_recorded("add", {"a": 1, "b": 2}, key="tool-1") == 3


def shouting(spec: McpSpec, size: int) -> ScriptedAgent:
    """A member that calls the tool `shout` of the server, and returns its result."""
    rules = (
        Rule(match="# tool shout failed", reply="It failed."),
        Rule(match="# tool shout:", reply="It worked."),
        Rule(tool=ToolRule(name="shout", args={"size": size}), times=1),
    )
    return ScriptedAgent("a", rules, tools=[("server", spec)], max_bytes=20_000)


async def test_what_an_mcp_server_returns_is_held_to_the_size_cap(notes: Path) -> None:  # S-01
    async def result(spec: McpSpec, size: int) -> tuple[str | None, bool]:
        async with Engine(MemoryJournal()) as engine:
            done = await engine.run(Team("t", members=[shouting(spec, size)]), "go")
        return done.output, any("max_bytes" in one for one in done.warnings)

    program = arithmetic(notes)[1]
    assert await result(program, 19_000) == ("It worked.", False)
    assert await result(program, 30_000) == ("It worked.", True)
    with http_server(notes) as remote:
        assert await result(remote, 30_000) == ("It worked.", True)
        assert await result(remote, 5_000_000) == ("It failed.", False)


async def test_an_error_while_an_mcp_server_runs_arrives_as_it_is(notes: Path) -> None:
    with pytest.raises(LimitReached, match="enough"):
        async with Toolbox([arithmetic(notes)]).open(Recording().ctx):
            raise LimitReached("enough")


async def test_a_model_agent_uses_an_mcp_server(notes: Path) -> None:
    def answer(request: object) -> CallTools | Say:
        if len(server.requests) == 1:
            return CallTools(calls=(ToolCall(name="add", args={"a": 20, "b": 3}, id="c1"),))
        return Say(text=f"It is {server.requests[-1].prompt}.")

    record = Recording()
    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="tiny")
        reply = await ModelAgent("a", model=model, tools=[library_arithmetic(notes)]).respond(
            Turn("20 + 3?"), record.ctx
        )
    assert reply.text == "It is 23."
    assert list(record.effects) == ["tools-arithmetic", "request-1", f"tool-{digest('c1')[:12]}", "request-2"]


def member(name: str, server: tuple[str, McpSpec], tool: str = "add", **args: JsonValue) -> ScriptedAgent:
    """A member that calls a tool of the server in each of its turns, and says how it went."""
    rules = (
        Rule(match=f"# tool {tool} failed", reply="It failed."),
        Rule(match=f"# tool {tool}:", reply="It worked."),
        Rule(tool=ToolRule(name=tool, args=args)),
    )
    return ScriptedAgent(name, rules, tools=[server])


def adding(name: str, server: tuple[str, McpSpec]) -> ScriptedAgent:
    return member(name, server, "add", a=1, b=2)


def started(notes: Path) -> int:
    return noted(notes).count("started")


def process_of(notes: Path) -> int:
    found = [line["where"]["pid"] for line in noted(notes) if isinstance(line, dict) and "where" in line]
    return found[-1]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_members_and_turns_of_a_run_share_one_server(notes: Path) -> None:
    members = [adding("a", arithmetic(notes)), adding("b", ("sums", arithmetic(notes, tools=("add",))[1]))]
    team = Team("t", members=members, strategy="round_robin", max_turns=2)
    async with Engine(MemoryJournal()) as engine:
        assert (await engine.run(team, "go")).status == "completed"
        assert started(notes) == 1
        assert (await engine.run(team, "go")).status == "completed"
    assert started(notes) == 2
    assert sum(isinstance(line, dict) for line in noted(notes)) == 8


async def test_concurrent_turns_start_a_server_once(notes: Path) -> None:
    options: dict[str, JsonValue] = {"chunks": ["1", "2", "3"]}
    team = Team("t", members=[adding("a", arithmetic(notes))], strategy="fan_out", options=options)
    async with Engine(MemoryJournal()) as engine:
        assert (await engine.run(team, "go")).status == "completed"
    assert started(notes) == 1


async def test_a_server_of_the_engine_outlives_its_runs(notes: Path) -> None:
    team = Team("t", members=[member("a", arithmetic(notes, share="engine"), "where")])
    async with Engine(MemoryJournal()) as engine:
        for _ in range(3):
            assert (await engine.run(team, "go")).status == "completed"
        assert is_alive(process_of(notes))
    assert started(notes) == 1
    assert not is_alive(process_of(notes))


async def test_a_server_of_a_run_ends_with_it(notes: Path) -> None:
    async with Engine(MemoryJournal()) as engine:
        await engine.run(Team("t", members=[member("a", arithmetic(notes), "where")]), "go")
        assert not is_alive(process_of(notes))


@pytest.mark.parametrize("share", ["run", "engine"])
async def test_a_server_ends_with_a_run_that_fails_or_is_interrupted(notes: Path, share: str) -> None:
    server = arithmetic(notes, share=share)
    async with Engine(MemoryJournal()) as engine:
        failing = ScriptedAgent("a", (Rule(tool=ToolRule(name="where", args={}), times=1),), tools=[server])
        assert (await engine.run(Team("t", members=[failing]), "go")).status == "failed"
        await engine.start(Team("t", members=[member("a", server, "wait")]), "go")
        while not isinstance(noted(notes)[-1], int):  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.02)
    pid = noted(notes)[-1]
    assert isinstance(pid, int)
    assert not is_alive(pid)
    assert not is_alive(process_of(notes))


async def test_a_call_whose_server_crashed_is_in_doubt_and_made_again_once(notes: Path) -> None:
    async with Engine(MemoryJournal()) as engine:
        once = Team("t", members=[member("a", arithmetic(notes), "crash", times=1)])
        assert (await engine.run(once, "go", run_id="once")).output == "It worked."
        assert await attempts(engine, "once", "crash") == [(1, False), (2, True)]
        always = Team("t", members=[member("a", arithmetic(notes), "crash")])
        assert (await engine.run(always, "go", run_id="always")).output == "It failed."
        assert await attempts(engine, "always", "crash") == [(1, False), (2, True)]
        failed = [one.fact for one in await engine.journal.read("always") if isinstance(one.fact, AgentCallFailed)]
    assert "ended during the call (out of memory)" in failed[0].message
    assert started(notes) == 4


async def attempts(engine: Engine, run_id: str, tool: str) -> list[tuple[int, bool]]:
    """The attempts of the calls of a tool, and whether the one before each was in doubt."""
    facts = [event.fact for event in await engine.journal.read(run_id)]
    return [(one.attempt, one.in_doubt) for one in facts if isinstance(one, AgentCalled) and one.name == tool]


async def test_a_server_starts_in_its_folder_with_few_variables(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHOP_KEY", "SHOP_NAME", "SHOP_REGION"):
        monkeypatch.setenv(name, "a-very-private-value-1")
    server = arithmetic(notes, folder=str(tmp_path), env={"SHOP_NAME": "x"})
    async with Toolbox([server]).open(Recording().ctx) as tools:
        found = await tools.call_recorded("where", {}, key="tool-1")
    assert isinstance(found, dict)
    assert found["cwd"] == str(tmp_path.resolve())
    env = found["env"]
    assert isinstance(env, list)
    assert {"PATH", "HOME", "SHOP_NAME"} <= set(env)
    assert not {"SHOP_KEY", "SHOP_REGION", "PYTEST_CURRENT_TEST"} & set(env)


async def test_paths_of_a_server_are_relative_to_the_manifest(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "team"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "serve").write_text(f'#!/bin/sh\nexec {sys.executable} {SERVER} "$@"\n')
    (folder / "bin" / "serve").chmod(0o755)
    (folder / "replies.yaml").write_text("rules: [{tool: {name: where}, times: 1}, {reply: done}]\n")
    (folder / "team.yaml").write_text(
        "agents:\n  a: {model: scripted:replies.yaml, tools: [sums]}\n"
        "tools: {sums: {mcp: {command: [bin/serve, notes]}}}\nteams: {t: {members: [a]}}\n"
    )
    monkeypatch.chdir(tmp_path)
    async with Engine(MemoryJournal()) as engine:
        assert (await engine.run(load_team("team/team.yaml"), "go")).status == "completed"
    [where] = [line["where"] for line in noted(folder / "notes") if isinstance(line, dict)]
    assert where["cwd"] == str(folder.resolve())


async def test_a_server_that_does_not_answer_in_time_is_reported(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "START_SECONDS", 0.2)
    silent = McpSpec(mcp=McpTool(command=(sys.executable, "-c", "import sys; sys.stdin.read()")))
    with pytest.raises(ServiceError, match=r"'mcp-1' did not answer within 0\.2 s"):
        async with Toolbox([silent]).open(Recording().ctx):
            pass


DRIVER = """
import asyncio, sys
from teamwright import Engine
from tests.agents.tools.test_mcp_source import waiting_team
from pathlib import Path

async def main():
    async with Engine(sys.argv[1]) as engine:
        await engine.run(waiting_team(Path(sys.argv[2])), "go", run_id="r")

asyncio.run(main())
"""


def waiting_team(notes: Path) -> Team:
    return Team("t", members=[member("a", arithmetic(notes), "wait")])


async def test_a_server_ends_with_a_killed_engine_and_its_call_is_in_doubt(notes: Path, tmp_path: Path) -> None:
    journal = str(tmp_path / "runs.db")
    with subprocess.Popen([sys.executable, "-c", DRIVER, journal, str(notes)], cwd=ROOT) as driver:
        while not any(isinstance(line, int) for line in noted(notes)):  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
    pid = noted(notes)[-1]
    assert isinstance(pid, int)
    with anyio.fail_after(10):
        while is_alive(pid):  # noqa: ASYNC110 - another process
            await anyio.sleep(0.05)
    with notes.open("a") as file:
        file.write('"go"\n')
    async with Engine(journal) as engine:
        assert (await engine.resume("r", team=waiting_team(notes))).output == "It worked."
        assert await attempts(engine, "r", "wait") == [(1, False), (2, True)]
        again = started(notes)
        await engine.fork("r", team=waiting_team(notes))
    assert started(notes) == again
