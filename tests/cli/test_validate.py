from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import Call, Called, write_team


def test_a_valid_manifest_is_described(call: Call, team: Path) -> None:
    done = call("validate", team)
    assert done.code == 0
    assert done.out == "valid: 2 agents, 1 team\n  report: sequential of writer, critic\n"
    told = call("validate", team, "--json").json
    assert told["valid"] is True
    assert told["teams"] == {"report": {"strategy": "sequential", "members": ["writer", "critic"]}}


#
def test_every_mistake_is_reported_at_once_with_line_and_column(call: Call, tmp_path: Path) -> None:
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


BROKEN = """
agents:
  a: {function: "nowhere:f"}
  b: {function: "json:dumpz"}
  c: {model: scripted:bad.yaml, instructon: x}
teams:
  t: {members: [a, b, c]}
"""


@pytest.mark.parametrize("command", [("validate",), ("run", "Go")])
def test_functions_and_scripts_are_reported_with_every_other_mistake(
    call: Call, tmp_path: Path, command: tuple[str, ...]
) -> None:
    team = write_team(tmp_path / "team", BROKEN)
    (team / "bad.yaml").write_text("rules:\n- repl: a\n")
    done = call(command[0], team / "team.yaml", *command[1:], "--json")
    assert done.code == 2
    problems = done.json["error"]["problems"]
    places = [(Path(one["file"]).name, one["line"], one["column"]) for one in problems]
    assert places == [("bad.yaml", 2, 3), ("team.yaml", 3, 17), ("team.yaml", 4, 17), ("team.yaml", 5, 33)]
    assert all(f"agent {name!r}" in one["message"] for name, one in zip("abc", problems[1:], strict=True))


def test_what_only_making_a_team_finds_has_the_place_of_its_agent(call: Call, tmp_path: Path) -> None:
    agents = "agents:\n  z: {model: local}\n  a: {model: local, tools: ['json:dumps', 'json:dumps']}\n"
    team = write_team(tmp_path / "team", agents + "teams: {t: {members: [z, a]}}")
    for done in (call("validate", team / "team.yaml", "--json"), call("run", team / "team.yaml", "Go", "--json")):
        (problem,) = done.json["error"]["problems"]
        assert (problem["line"], problem["column"]) == (3, 3)
        assert problem["message"] == "agent 'a': There is already a tool 'dumps'; choose another name."


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("bogus", "There is no model 'bogus': write provider:name"),
        ("scripted:", "The model 'scripted:' names no file"),
        ("scripted:none.yaml", "none.yaml: There is no such file"),
    ],
)
def test_a_model_that_is_none_is_refused(call: Call, team: Path, model: str, told: str) -> None:
    for command in (("validate", team), ("run", team, "Go")):
        done = call(*command, "--model", model)
        assert (done.code, done.out) == (2, "")
        assert told in done.err


def test_no_member_is_asked_while_a_later_one_cannot_answer(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agents = "agents:\n  a: {model: scripted:replies.yaml}\n  b: {model: 'openai:gpt-5'}\n  c: {model: 'groq:x'}\n"
    team = write_team(tmp_path / "team", agents + "teams: {t: {members: [a, b, c]}}")
    (team / "replies.yaml").write_text("- reply: x\n")
    done = call("run", team / "team.yaml", "Go", "--run-id", "one", "--json")
    assert done.code == 2
    problems = done.json["error"]["problems"]
    assert [(one["line"], one["column"]) for one in problems] == [(3, 3), (4, 3)]
    assert "agent 'b'" in problems[0]["message"]
    assert "set OPENAI_API_KEY in the environment" in problems[0]["message"]
    assert "Agent(" not in done.err
    assert call("runs", "list", "--json").json == []
    scripted = f"scripted:{team / 'replies.yaml'}"
    assert call("run", team / "team.yaml", "Go", "--run-id", "one", "--model", scripted).code == 0
    (team / "replies.yaml").write_text("rules: []")
    again = call("run", team / "team.yaml", "Go", "--run-id", "one", "--model", scripted)
    assert again.code == 0  # there already, so nothing has to answer


def test_no_environment_is_needed_to_validate(call: Call, tmp_path: Path) -> None:
    text = "agents: {a: {model: m}}\nmodels: {m: {url: 'http://127.0.0.1:1/v1', name: x, api_key: '${NOT_SET_HERE}'}}"
    assert call("validate", write_team(tmp_path / "team", text)).code == 0


def test_a_key_that_would_go_to_another_provider_is_refused_with_its_place(call: Call, tmp_path: Path) -> None:
    text = "agents: {a: {model: m}}\nmodels: {m: {url: 'http://other.example', name: x, api_key: '${OPENAI_API_KEY}'}}"
    done = call("validate", write_team(tmp_path / "team", text))
    assert done.code == 2
    assert "team.yaml:2:61: models.m.api_key would send OPENAI_API_KEY" in done.err
    assert "TEAMWRIGHT_ALLOW_HOSTS=OPENAI_API_KEY@other.example" in done.err  # what can be typed is not masked


def test_a_file_that_is_not_ours_is_named_and_not_quoted(call: Call, tmp_path: Path) -> None:
    (secret := tmp_path / "shadow").write_text("root:$6$S3CRET:19000:0:99999:7:::\n")
    team = write_team(tmp_path / "team", f"agents: {{a: {{model: 'scripted:{secret}'}}}}")
    ours = write_team(tmp_path / "ours", "agents: {a: {model: local}}")
    commands = (
        ("validate", team), ("run", team, "Go"), ("validate", ours, "--with", secret), ("plan", secret),
        ("validate", ours, "--model", f"scripted:{secret}"),
    )  # fmt: skip
    for command in commands:
        refuse_unquoted(call(*command))


@pytest.mark.lab
def test_a_profile_that_is_not_ours_is_named_and_not_quoted(call: Call, tmp_path: Path) -> None:
    (secret := tmp_path / "shadow").write_text("root:$6$S3CRET:19000:0:99999:7:::\n")
    ours = write_team(tmp_path / "ours", "agents: {a: {model: local}}")
    refuse_unquoted(call("lab", "advise", ours, "Go", "--profile", secret))


def refuse_unquoted(done: Called) -> None:
    assert done.code == 2
    assert "shadow" in done.err
    assert "S3CRET" not in done.out + done.err


def test_warnings_go_to_stderr(call: Call) -> None:
    done = call("validate", Path("examples/ark/banking"))
    assert done.code == 0
    assert all(line.startswith("warning: ") for line in done.err.splitlines())


def test_the_schema_is_json_and_can_go_to_a_file(call: Call, tmp_path: Path) -> None:
    assert call("schema").json["title"] == "Teamwright manifest"
    assert call("schema", "--json", "--out", tmp_path / "schema.json").out == ""
    assert (tmp_path / "schema.json").stat().st_size > 1000


def test_a_member_with_tools_to_talk_is_checked_in_its_team_and_not_alone(call: Call, tmp_path: Path) -> None:
    agents = "agents: {a: {model: local, tools: [{live: {}}]}, b: {model: local}}\n"
    done = call("validate", write_team(tmp_path / "team", f"{agents}teams: {{t: {{strategy: live, members: [a, b]}}}}"))
    assert (done.code, done.err) == (0, "")


def test_a_misspelt_sandbox_is_a_mistake_and_one_that_this_machine_lacks_is_none(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validated(sandbox: str) -> Called:
        tool = f"{{shell: {{sandbox: {sandbox}}}}}"
        agents = f"agents: {{a: {{model: local, tools: [{tool}]}}}}\n"
        return call("validate", write_team(tmp_path / sandbox, f"{agents}teams: {{t: {{members: [a]}}}}"))

    monkeypatch.setenv("PATH", str(tmp_path))
    assert validated("bubblewrap").code == 0
    done = validated("bubblewarp")
    assert done.code == 2
    assert "There is no sandbox 'bubblewarp'; did you mean 'bubblewrap'?" in done.err
