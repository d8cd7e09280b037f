"""A coding agent in a manifest: its short and its long form, its sandbox, and the mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.agents import AcpAgent
from teamwright.errors import ManifestError
from teamwright.teams.builder import programs_without_sandbox
from teamwright.teams.manifests.code_references import code_in
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team


def written(folder: Path, agent: str, team: str = "") -> Path:
    file = folder / "team.yaml"
    file.write_text(f"agents:\n  coder: {agent}\nteams:\n  one: {{members: [coder]{team}}}\n")
    return file


def coder_of(team: Team) -> AcpAgent:
    (member,) = team.members
    assert isinstance(member, AcpAgent)
    return member


def test_a_command_is_enough(tmp_path: Path) -> None:
    found = coder_of(load_team(written(tmp_path, "{acp: gemini --acp}")))
    assert (found.command.command, found.sandbox) == (("gemini", "--acp"), None)


def test_its_settings_and_the_sandbox_of_its_team_arrive(tmp_path: Path) -> None:
    long = '{acp: {command: codex-acp, idempotent: false}, instructions: "Be brief.", timeout: 5}'
    found = coder_of(load_team(written(tmp_path, long, ", sandbox: {backend: none, network: ['*']}")))
    assert found.command.idempotent is False
    assert found.sandbox is not None
    assert found.sandbox.network == ("*",)
    assert (found.instructions, found.timeout) == ("Be brief.", 5)


def test_a_record_rebuilds_it(tmp_path: Path) -> None:
    long = "{acp: {command: codex-acp, env: {KEY: '${HOME}'}}, confirm: {tools: [execute]}, sandbox: none}"
    found = coder_of(load_team(written(tmp_path, long)))
    again = coder_of(load_team(written(tmp_path, found.spec.model_dump_json(exclude_unset=True))))
    assert again.spec == found.spec
    assert (again.asks_for("execute"), again.asks_for("edit")) == (True, False)


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("{acp: x, model: openai:gpt-5}", "has 'model' and 'acp'"),
        ("{acp: x, function: 'a:b'}", "has 'function' and 'acp'"),
        ("{acp: x, tools: [files]}", "is a coding agent, which calls no tools"),
        ("{acp: x, max_tokens: 5}", "is a coding agent, which has no 'max_tokens'"),
        ("{acp: {comand: x}}", "comand"),
        ("{acp: ' '}", "the command is empty"),
        ("{acp: x, confirm: {tools: [exec]}}", "has no tool 'exec' to approve"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, agent: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        load_team(written(tmp_path, agent))


def test_what_it_starts_is_listed(tmp_path: Path) -> None:
    manifest = load([written(tmp_path, "{acp: gemini --acp}")]).manifest
    assert list(programs_without_sandbox(manifest)) == ["the coding agent 'gemini --acp' of the agent 'coder'"]
    assert [str(one) for one in code_in(manifest)] == ["coding agent 'gemini --acp' of agent 'coder'"]
