"""`teamwright serve --protocol mcp`: teams over stdin and stdout, and what a killed process leaves to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from teamwright.cli.main import main
from teamwright.journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.run_request import RunRequest
from teamwright.server.credentials import Visitor
from teamwright.server.driven_runs import STDIO_DRIVER, DrivenRuns
from teamwright.server.mcp.tasks import RunTasks
from teamwright.server.state import open_state
from tests.kit.mcp import TakesTasks, TaskRequest, TaskState
from tests.kit.program import run_program
from tests.kit.terminal import write_team
from tests.server.mcp.conformance.members import manifest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
PRINTING = """\
agents: {a: {function: "tests.server.test_commands_mcp:printing"}}
teams: {printing: {members: [a]}}
"""


async def printing(turn: object, ctx: object) -> str:
    print("this is no message of the protocol")
    return "done"


@asynccontextmanager
async def offered(*arguments: object, **options: Any) -> AsyncGenerator[Client]:
    """Yield the official client of a process that offers teams."""
    root = str(Path(__file__).parents[2])
    settings = StdioServerParameters(
        command=sys.executable,
        args=["-m", "teamwright", "serve", "--protocol", "mcp", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root},
    )
    async with Client(stdio_client(settings), **options) as client:
        yield client


async def test_an_editor_starts_the_command_and_calls_a_team_that_prints(tmp_path: Path) -> None:
    write_team(tmp_path / "printing", PRINTING, "rules: []\n")
    async with offered(tmp_path / "printing" / "team.yaml") as mcp:
        assert [one.name for one in (await mcp.list_tools()).tools] == ["printing", "run_result"]
        result = await mcp.call_tool("printing", {"task": "Go"})
        (block,) = result.content
        assert isinstance(block, TextContent)
        assert block.text == "done"


def test_a_team_that_is_no_tool_is_named_where_the_program_that_starts_the_command_shows_it(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "team.yaml").write_text("agents: {a: 5}\n")
    done = run_program("serve", "--protocol", "mcp", tmp_path, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, "")
    assert "'broken' is no tool: team.yaml:1:13: agent 'a': expected a mapping" in done.stderr


async def test_the_ceiling_of_the_command_bounds_each_run(tmp_path: Path, teams: Path) -> None:
    async with offered(teams, "--max-tokens", 5) as mcp:
        result = await mcp.call_tool("pair", {"task": "Go"})
        assert result.is_error


async def test_the_next_process_goes_on_with_what_a_killed_one_left(tmp_path: Path) -> None:
    write_team(tmp_path / "slow_compute", manifest("slow_compute"), "rules: []\n")
    run_id = ""
    with suppress(Exception):  # the connection breaks
        async with offered(tmp_path, extensions=[TakesTasks()]) as mcp:
            (block,) = (await mcp.call_tool("slow_compute", {"task": '{"seconds": 1.5}'})).content
            run_id = block.model_dump()["text"]
            async with Engine() as engine:
                found = await engine.runs.find(run_id)
            assert found is not None
            assert found.driver.startswith(STDIO_DRIVER)
            os.kill(int(found.driver.rpartition(":")[2]), signal.SIGKILL)
    async with offered(tmp_path, extensions=[TakesTasks()]) as mcp:
        while True:
            state = await mcp.session.send_request(
                TaskRequest(method="tasks/get", params={"taskId": run_id}), TaskState
            )
            if state.status != "working":
                break
            await anyio.sleep(0.05)
        assert state.status == "completed"


async def test_servers_over_stdio_stand_beside_a_server_and_take_nothing_of_it(tmp_path: Path, teams: Path) -> None:
    journal = MemoryJournal()
    async with (
        Engine(journal) as one,
        open_state(one, [teams], tmp_path) as server,
        Engine(journal) as other,
        open_state(other, [teams], tmp_path, over_stdio=True) as beside,
    ):
        assert other.driver.name.startswith(STDIO_DRIVER)
        assert isinstance(beside.driven, DrivenRuns)
        assert server.engine.driver.name.startswith("server@")


@pytest.mark.parametrize("is_answered_over_stdio", [False, True])
async def test_a_run_that_waits_goes_on_where_it_is_answered(
    tmp_path: Path, teams: Path, is_answered_over_stdio: bool
) -> None:
    journal = MemoryJournal()
    async with (
        Engine(journal) as one,
        open_state(one, [teams], tmp_path) as server,
        Engine(journal) as other,
        open_state(other, [teams], tmp_path, over_stdio=True) as beside,
    ):
        asking, answering = (server, beside) if is_answered_over_stdio else (beside, server)
        await asking.driven.start(RunRequest(asking.catalogue.load("gated"), "Go", run_id="r"))
        assert (await asking.driven.wait("r")).status == "paused"
        tasks = RunTasks(answering)
        (key,) = (await tasks.get("r"))["inputRequests"]
        said = {key: {"action": "accept", "content": {"answer": "approve"}}}
        await tasks.update("r", said, Visitor("ada", "admin"))
        assert (await answering.driven.wait("r")).status == "completed"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--protocol", "mcp", str(tmp_path / "nothing")]) == 2
    assert "There is no folder" in capsys.readouterr().err
