"""Handoffs in a manifest: built, and checked at load where they are declared."""

from pathlib import Path

import pytest

from teamwright.teams.team_loader import load_team
from tests.teams.manifests.manifests import loaded, only_problem, problems

AGENTS = """\
agents:
  triage: {model: local, handoffs: HANDOFFS}
  billing: {model: local, description: Handles bills.}
  refunds: {model: local}
"""
TEAM = "teams:\n  desk: {strategy: graph, max_turns: 5, members: [triage, billing, refunds]}\n"


def manifest(handoffs: str, team: str = TEAM) -> str:
    return AGENTS.replace("HANDOFFS", handoffs) + team


@pytest.mark.parametrize(("written", "read"), [("[billing, refunds]", ("billing", "refunds")), ("true", True)])
def test_a_manifest_declares_handoffs(tmp_path: Path, written: str, read: object) -> None:  # L-H-9
    loaded(tmp_path, manifest(written))
    team = load_team(tmp_path / "team.yaml")
    assert team.members[0].policy.handoffs == read


def test_an_unknown_target_is_reported_where_it_stands(tmp_path: Path) -> None:  # L-H-9
    problem = problems(tmp_path, manifest("[billing, refund]"))[0]
    assert problem.message == "team 'desk': 'triage' hands off to 'refund', which is no member of its team"
    assert problem.suggestion == "did you mean 'refunds'?"
    assert (problem.line, problem.column) == (2, 46)


def test_a_strategy_without_handoffs_is_reported_at_the_agent(tmp_path: Path) -> None:  # L-H-9
    team = "teams: {desk: {strategy: fan_out, members: [triage, billing, refunds], fan_out: {chunks: [a]}}}"
    problem = only_problem(tmp_path, manifest("true", team))
    assert "'triage' has handoffs, which the strategy 'fan_out' does not take" in problem.message
    assert problem.line == 2


def test_handoffs_outside_a_team_are_reported(tmp_path: Path) -> None:  # L-H-9
    text = manifest("[billing]", "teams: {desk: {members: [billing, refunds]}}")
    assert only_problem(tmp_path, text).message == "agent 'triage' has handoffs and is a member of no team"


def test_an_agent_with_handoffs_can_not_be_a_tool(tmp_path: Path) -> None:  # L-H-9
    text = manifest("true").replace("refunds: {model: local}", "refunds: {model: local, tools: [{agent: triage}]}")
    assert "agent 'triage' has handoffs, so it can't be a tool of 'refunds'" in only_problem(tmp_path, text).message


def test_a_pipeline_with_handoffs_takes_a_limit_and_needs_one_if_they_lead_back(tmp_path: Path) -> None:  # L-H-5
    pipeline = "teams: {desk: {MAX members: [billing, triage, refunds]}}"
    problem = only_problem(tmp_path, manifest("true", pipeline.replace("MAX", "")))
    assert problem.message == "team 'desk': 'sequential' needs max_turns, since 'triage' may hand back to 'billing'"
    assert not loaded(tmp_path, manifest("true", pipeline.replace("MAX", "max_turns: 5,"))).warnings


def test_a_graph_without_edges_and_handoffs_is_refused(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, manifest("[]"))
    assert problem.message == "team 'desk': 'graph' needs edges, unless members have handoffs"


def test_the_wrong_form_is_reported(tmp_path: Path) -> None:
    assert "'handoffs' expects a list or true or false" in problems(tmp_path, manifest("billing"))[0].message
