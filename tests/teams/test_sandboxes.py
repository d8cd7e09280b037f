"""The sandbox of a team: what its members start is in it, unless it has one of its own, and nothing else is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from teamwright.agents.sandbox_back_ends import Bubblewrap, Sandlock
from teamwright.agents.tools.mcp_connection import confined_command
from teamwright.errors import InvalidValue, ManifestError
from teamwright.runtime.engine import Engine
from teamwright.teams.builder import Builder, programs_without_sandbox
from teamwright.teams.team_loader import load_team
from teamwright.values.specs.evaluation import Criterion, Length
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import McpTool, SandboxSettings

CHECK: dict[str, Any] = {"criteria": [{"id": "tests", "command": ["pytest"]}]}
SERVER: dict[str, Any] = {"mcp": {"command": "server"}}


def manifest(**teams: dict[str, Any]) -> Manifest:
    agent = {"model": "openai:m", "tools": ["shell", SERVER], "evaluate": CHECK}
    own = {"model": "openai:m", "tools": [{"shell": {"sandbox": "bubblewrap"}}]}
    return Manifest.model_validate(
        {
            "agents": {"dev": agent, "own": own, "other": {"model": "openai:m", "tools": ["named"]}},
            "tools": {"named": {"shell": {"folder": "."}}},
            "teams": teams,
        }
    )


def sandboxes_of(built: Any) -> list[str | None]:
    return [None if one.sandbox is None else one.sandbox.backend for one in built.toolbox.sources]


def test_the_sandbox_of_a_team_is_that_of_what_its_members_start() -> None:
    team = {"members": ["dev", "own", "other"], "sandbox": "sandlock", "evaluate": CHECK}
    built: Any = Builder(manifest(all=team)).team("all")
    dev, own, other = built.members
    assert sandboxes_of(dev) == ["sandlock", "sandlock"]
    assert (sandboxes_of(own), sandboxes_of(other)) == (["bubblewrap"], ["sandlock"])
    checks = [*dev.policy.evaluate.declaration.criteria, *built.policy.evaluate.declaration.criteria]
    assert [one.sandbox for one in checks] == ["sandlock", "sandlock"]


def test_steps_of_a_plan_are_checked_in_the_sandbox_of_the_team() -> None:
    steps = [{"id": "dev", "evaluate": CHECK}]
    team = {"members": ["dev"], "strategy": "dag", "options": {"steps": steps}, "sandbox": {"megabytes": 64}}
    built: Any = Builder(manifest(all=team)).team("all")
    assert built.settings.options["steps"][0]["evaluate"]["criteria"][0]["sandbox"] == {"megabytes": 64}


def test_a_team_within_the_team_keeps_its_own_and_gets_that_around_it_otherwise() -> None:
    inner = {"members": ["dev"]}
    built: Any = Builder(manifest(outer={"members": ["inner"], "sandbox": "none"}, inner=inner)).team("outer")
    assert sandboxes_of(built.members[0].members[0])[0] == "none"
    confined = inner | {"sandbox": "sandlock"}
    built = Builder(manifest(outer={"members": ["inner"], "sandbox": "none"}, inner=confined)).team("outer")
    assert sandboxes_of(built.members[0].members[0])[0] == "sandlock"


def test_an_agent_in_two_sandboxes_is_refused() -> None:
    teams = {"a": {"members": ["dev"], "sandbox": "none"}, "b": {"members": ["dev"], "sandbox": "sandlock"}}
    with pytest.raises(ManifestError, match="'dev' is in the teams 'a' and 'b', whose sandboxes differ"):
        Builder(manifest(**teams)).team("a")


def test_what_has_all_rights_is_named() -> None:
    plain = {"members": ["dev"], "evaluate": CHECK}
    assert list(programs_without_sandbox(manifest(all=plain))) == [
        "the MCP server 'server' of the agent 'dev'",
        "the check 'tests' of the agent 'dev'",
        "the check 'tests' of the team 'all'",
    ]
    assert list(programs_without_sandbox(manifest(all=plain | {"sandbox": "auto"}))) == []


def test_a_sandbox_without_a_program_is_a_mistake() -> None:
    with pytest.raises(InvalidValue, match="sandbox: goes with 'command'"):
        McpTool(url="http://localhost", sandbox="auto")
    with pytest.raises(InvalidValue, match=r"by  command  alone"):
        Criterion(id="a", length=Length(min=1), sandbox="auto")


def test_an_mcp_server_starts_in_its_sandbox(tmp_path: Path) -> None:
    if Bubblewrap().problem(SandboxSettings()) and Sandlock().problem(SandboxSettings()):
        pytest.skip("this machine has no sandbox")
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "server").mkdir()
    settings = McpTool(command=("sh", "-c", "cat; cat ../outside"), folder=str(tmp_path / "server"), sandbox="auto")
    ended = subprocess.run(
        confined_command(settings), input="said", capture_output=True, check=False, text=True, cwd=tmp_path / "server"
    )
    assert ended.stdout == "said"
    assert "outside" in ended.stderr


@pytest.mark.experts
async def test_a_check_runs_in_its_sandbox(tmp_path: Path) -> None:
    if Bubblewrap().problem(SandboxSettings()) and Sandlock().problem(SandboxSettings()):
        pytest.skip("this machine has no sandbox")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "check.sh").write_text(f"cat > /dev/null; ! cat {tmp_path}/secret 2> /dev/null")
    (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]")
    (tmp_path / "team.yaml").write_text(
        "agents:\n"
        "  dev:\n"
        "    model: scripted:replies.yaml\n"
        "    evaluate: {criteria: [{id: held, command: [sh, ./checks/check.sh]}]}\n"
        "teams:\n"
        "  all: {members: [dev], sandbox: {seconds: 30}}\n"
    )
    async with Engine() as engine:
        result = await engine.run(load_team(tmp_path / "team.yaml"), "go")
    assert (result.status, result.output) == ("completed", "done"), result
