"""`teamwright serve --protocol acp`: the client of the protocol's library, and lines that are no messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

from teamwright.cli.main import main
from tests.kit.program import run_program
from tests.kit.terminal import write_team

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
PRINTING = """\
agents: {a: {function: "tests.server.test_commands_mcp:printing"}}
teams: {printing: {members: [a]}}
"""


class User:
    """A client that allows everything, and keeps the kinds of what it gets."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.text = ""

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))


async def test_the_library_of_the_protocol_prompts_a_team(teams: Path) -> None:
    user = User()
    command = (sys.executable, "-m", "teamwright", "serve", "--protocol", "acp", str(teams / "gated"))
    async with spawn_agent_process(user, *command, env={**os.environ}) as (agent, _):  # pyright: ignore[reportArgumentType]
        told = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        assert told.agent_info is not None
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        ended = await agent.prompt(session_id=session, prompt=[text_block("Go")])
    assert (ended.stop_reason, user.text) == ("end_turn", "two")
    assert "agent_thought_chunk" in user.kinds


def test_what_a_team_prints_and_lines_that_are_no_messages_do_no_harm(tmp_path: Path) -> None:
    write_team(tmp_path / "printing", PRINTING, "rules: []\n")
    asked = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 2, "method": "session/new", "params": {"cwd": "/"}},
        {"id": "x", "method": "session/jump"},
        {"method": "session/cancel", "params": {"sessionId": "none"}},
    ]
    lines = ["no json", "[" * 5000, "{}", *(json.dumps({"jsonrpc": "2.0", **one}) for one in asked)]
    root = str(Path(__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, "-m", "teamwright", "serve", "--protocol", "acp", str(tmp_path / "printing" / "team.yaml")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(6)]
        session = next(one["result"]["sessionId"] for one in answers if one["id"] == 2)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]}
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}) + "\n"
        )
        process.stdin.flush()
        while (last := json.loads(process.stdout.readline())).get("id") != 3:
            assert last["method"] == "session/update"
        process.stdin.close()
        assert process.wait() == 0
    assert sorted(str(one["error"]["code"]) for one in answers if "error" in one) == ["-32601", *3 * ["-32700"]]
    assert last["result"] == {"stopReason": "end_turn"}


def test_a_folder_without_a_team_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--protocol", "acp", str(tmp_path)]) == 2
    assert "There is no team.yaml in" in capsys.readouterr().err


def test_a_team_that_can_not_be_loaded_ends_the_command_with_its_mistakes(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("agents: {a: 5}\n")
    done = run_program("serve", "--protocol", "acp", tmp_path, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert "agent 'a': expected a mapping" in done.stderr
