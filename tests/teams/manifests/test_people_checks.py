"""Manifests and people: approval points, webhooks, and the built-in workspace tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.people import Confirm, Notify
from tests.teams.manifests.manifests import loaded, only_problem, problems

WHOLE = """
agents:
  clerk:
    model: "openai:gpt-5-mini"
    tools: [workspace, terminate, search, "office_tools:send"]
    confirm: {before: true, tools: [search, send, write_value]}
  keeper: {function: "office_checks:check", confirm: {after: true}}
teams:
  office: {members: [clerk, keeper], confirm: {after: true}, notify: {webhook: "http://localhost:9/hook"}}
tools: {search: "office_tools:search"}
"""


def write(folder: Path, text: str) -> Path:
    (folder / "team.yaml").write_text(text)
    return folder / "team.yaml"


def test_approvals_are_declared_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # P-12
    (tmp_path / "office_tools.py").write_text(
        "def search(q: str) -> str: return q\ndef send(to: str) -> str: return to\n"
    )
    (tmp_path / "office_checks.py").write_text("def check(text: str) -> str: return text\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    team = load_team(write(tmp_path, WHOLE))
    clerk, keeper = team.members
    assert isinstance(clerk, ModelAgent)
    assert clerk.policy.confirm == Confirm(before=True, tools=("search", "send", "write_value"))
    assert keeper.policy.confirm == Confirm(after=True)
    assert (team.policy.confirm, team.notify) == (Confirm(after=True), Notify(webhook="http://localhost:9/hook"))
    again = Team("office", members=team.members, confirm=team.policy.confirm, notify=team.notify).source.manifest
    assert again.agents["clerk"].confirm == clerk.policy.confirm
    assert again.agents["clerk"].tools[0] == "workspace"
    assert again.teams["office"].notify == team.notify


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            "{model: 'xai:b', tools: [search], confirm: {tools: [serch]}}",
            "no tool 'serch' to approve (did you mean 'search'?)",
        ),
        ("{model: 'xai:b', confirm: {tools: [search]}}", "has no tool 'search' to approve"),
        ("{model: 'xai:b', tools: [terminate], confirm: {tools: [terminate]}}", "'terminate' can't be approved"),
        ("{model: 'xai:b', confirm: {above: {usd: 1}}}", "is not run by itself (set it for the team)"),
        ("{function: 'xai:b', confirm: {tools: true}}", "is a function, which has no tools to approve"),
        ("{model: 'xai:b', confirm: {befor: true}}", "'befor' is not a field here (did you mean 'before'?)"),
        ("{model: 'xai:b', confirm: [before]}", "'confirm' expects a mapping"),
        ("{model: 'xai:b', tools: [worksapce]}", "there is no tool 'worksapce' (did you mean 'workspace'?)"),
    ],
)
def test_a_mistake_about_approvals_is_reported_at_its_place(agent: str, words: str, tmp_path: Path) -> None:
    found = only_problem(tmp_path, f"agents: {{a: {agent}}}\ntools: {{search: 'tools:search'}}")
    assert words in str(found)
    assert found.line == 1


@pytest.mark.parametrize(
    ("team", "words"),
    [
        ("{members: [a], confirm: {tools: true}}", "has no tools of its own to approve"),
        ("{members: [a], notify: {webhook: 'slack'}}", "'slack' is not an http address"),
        ("{members: [a], notify: {webhook: 'https://x.y/', secret: 'guess'}}", "'whsec_' followed by 24 to 64 bytes"),
        ("{members: [a], notify: {url: 'http://x'}}", "'url' is not a field here"),
    ],
)
def test_a_mistake_of_a_team_is_reported_at_its_place(team: str, words: str, tmp_path: Path) -> None:
    found = problems(tmp_path, f"agents: {{a: {{model: 'xai:b'}}}}\nteams: {{t: {team}}}")
    assert any(words in str(one) and one.line == 2 for one in found)


def test_tools_of_a_server_are_known_to_the_server_alone(tmp_path: Path) -> None:
    agent = "{model: 'xai:b', tools: [files], confirm: {tools: [anything, files]}}"
    assert loaded(tmp_path, f"agents: {{a: {agent}}}\ntools: {{files: {{mcp: {{command: x}}}}}}").manifest.agents


def test_the_names_of_built_in_tools_are_taken(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="'workspace' is a built-in tool"):
        load_team(write(tmp_path, "agents: {a: {model: 'xai:b'}}\ntools: {workspace: 'xai:b'}"))
