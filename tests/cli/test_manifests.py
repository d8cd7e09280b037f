from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call, write_team


def test_a_valid_manifest_is_described(call: Call, team: Path) -> None:
    done = call("validate", team)
    assert done.code == 0
    assert done.out == "valid: 2 agents, 1 team\n  report: sequential of writer, critic\n"
    told = call("validate", team, "--json").json
    assert told["valid"] is True
    assert told["teams"] == {"report": {"strategy": "sequential", "members": ["writer", "critic"]}}


#
def test_every_mistake_is_told_at_once_with_line_and_column(call: Call, tmp_path: Path) -> None:
    text = "agents:\n  writer: {modle: x}\nteams:\n  t: {members: [wirter], strategy: sequental}\n"
    team = write_team(tmp_path / "team", text)
    done = call("validate", team / "team.yaml", "--json")
    assert done.code == 2
    problems = done.json["error"]["problems"]
    assert {problem["line"] for problem in problems} == {2, 4}
    assert all(problem["column"] for problem in problems)
    suggestions = " ".join(problem["suggestion"] for problem in problems)
    assert "'model'" in suggestions
    assert "'writer'" in suggestions
    assert "'sequential'" in suggestions


def test_a_function_that_is_not_there_is_a_mistake(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", "agents: {a: {function: 'nowhere.at_all:f'}}")
    done = call("validate", team)
    assert done.code == 2
    assert "nowhere" in done.err


def test_no_environment_is_needed_to_validate(call: Call, tmp_path: Path) -> None:
    text = "agents: {a: {model: m}}\nmodels: {m: {url: 'http://127.0.0.1:1/v1', name: x, api_key: '${NOT_SET_HERE}'}}"
    assert call("validate", write_team(tmp_path / "team", text)).code == 0


def test_warnings_go_to_stderr(call: Call) -> None:
    done = call("validate", Path("examples/ark/banking"))
    assert done.code == 0
    assert all(line.startswith("warning: ") for line in done.err.splitlines())


def test_the_schema_is_json_and_can_go_to_a_file(call: Call, tmp_path: Path) -> None:
    assert call("schema").json["title"] == "Teamwright manifest"
    assert call("schema", "--json", "--out", tmp_path / "schema.json").out == ""
    assert (tmp_path / "schema.json").stat().st_size > 1000
