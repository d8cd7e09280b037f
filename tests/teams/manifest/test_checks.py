"""What must fit together: names, cycles, strategies and who answers."""

from pathlib import Path

import pytest

from tests.teams.manifest.manifests import loaded, only_problem, problems

AGENTS = "agents: {a: {model: local}, b: {model: local}, c: {model: local, tools: [terminate]}}\n"


def test_an_unknown_strategy_lists_the_known_ones(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: selector, members: [a]}}")
    assert problem.message == "team 't': there is no strategy 'selector'; known are round_robin, sequential"
    assert (problem.line, problem.column) == (2, 23)


def test_an_unknown_member_gets_the_nearest_name(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {writer: {model: local}}\nteams: {t: {members: [writr]}}")
    assert problem.message == "team 't': there is no agent or team 'writr'"
    assert "did you mean 'writer'?" in problem.suggestion
    assert "--with FILE" in problem.suggestion


def test_a_member_may_stand_twice_only_in_a_sequential_team(tmp_path: Path) -> None:
    assert loaded(tmp_path, AGENTS + "teams: {t: {members: [a, b, a]}}").manifest.teams["t"].members == ("a", "b", "a")
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, max_turns: 2, members: [a, b, a]}}")
    assert "'a' is a member twice" in problem.message
    assert problem.column == 66


@pytest.mark.parametrize(
    ("teams", "path"),
    [
        ("{t: {members: [t]}}", "t → t"),
        ("{t: {members: [a, u]}, u: {members: [t]}}", "t → u → t"),
        ("{s: {members: [t]}, t: {members: [u]}, u: {members: [v]}, v: {members: [b, t]}}", "t → u → v → t"),
    ],
)
def test_a_cycle_of_teams_is_told_with_its_path(tmp_path: Path, teams: str, path: str) -> None:
    assert only_problem(tmp_path, AGENTS + f"teams: {teams}").message.endswith(f": {path}")


def test_teams_that_share_members_are_no_cycle(tmp_path: Path) -> None:
    layers = "".join(f"  t{n}: {{members: [t{n + 1}, u{n + 1}]}}\n  u{n}: {{members: [t{n + 1}]}}\n" for n in range(60))
    teams = f"teams:\n{layers}  t60: {{members: [a]}}\n  u60: {{members: [b]}}\n"
    assert len(loaded(tmp_path, AGENTS + teams).manifest.teams) == 122


def test_a_long_chain_of_teams_exhausts_nothing(tmp_path: Path) -> None:
    chain = "".join(f"  t{n}: {{members: [t{n + 1}]}}\n" for n in range(5000))
    problem = only_problem(tmp_path, f"{AGENTS}teams:\n{chain}  t5000: {{members: [t0]}}\n")
    assert "Teams contain each other" in problem.message


def test_round_robin_needs_an_end(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, members: [a, b]}}")
    assert "round_robin needs 'max_turns'" in problem.message
    assert "'terminate'" in problem.suggestion
    assert loaded(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, members: [a, c]}}")
    nested = "teams: {t: {strategy: round_robin, members: [a, u]}, u: {members: [c]}}"
    assert "round_robin needs" in only_problem(tmp_path, AGENTS + nested).message


def test_settings_without_effect_are_warned_about(tmp_path: Path) -> None:
    warnings = loaded(tmp_path, AGENTS + "teams: {t: {max_turns: 3, members: [a]}}").warnings
    assert [one.message for one in warnings] == ["team 't': 'max_turns' changes nothing in a sequential team"]


def test_names_are_taken_once(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {a: {members: [b]}}")
    assert problem.message == "There is already an agent 'a'"
    assert problem.suggestion.startswith(f"it stands at {tmp_path / 'team.yaml'}:1:10")


@pytest.mark.parametrize(
    ("models", "model"),
    [
        ("{x: local, default: local, primary: local}", "primary"),
        ("{x: local, default: local}", "default"),
        ("{x: local}", "x"),
    ],
)
def test_an_agent_that_names_no_model_gets_the_default_one(tmp_path: Path, models: str, model: str) -> None:
    manifest = loaded(tmp_path, f"models: {models}\nagents: {{a: {{instructions: Hello}}, b: }}").manifest
    assert [agent.model for agent in manifest.agents.values()] == [model, model]


def test_an_agent_without_anybody_to_answer_is_a_mistake(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "models: {x: local, y: local}\nagents: {a: {instructions: Hello}}")
    assert problem.message == "agent 'a' has nobody to answer"
    assert "x, y" in problem.suggestion
    assert loaded(tmp_path, "agents: {a: {instructions: Hello}}", replaced=True).manifest.agents["a"].model == "default"


def test_an_agent_is_answered_by_one(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {a: {model: local, function: 'm:f'}}")
    assert (problem.message, problem.column) == ("agent 'a' has 'model' and 'function'", 28)


@pytest.mark.parametrize("model", ["local", "local:w.gguf", "openai:gpt-5", "google-gla:gemini-3", "${MODEL}"])
def test_models_may_be_written_at_the_agent(tmp_path: Path, model: str) -> None:
    assert loaded(tmp_path, f"agents: {{a: {{model: '{model}'}}}}").manifest.agents["a"].model == model


def test_an_unknown_model_gets_the_nearest_name(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "models: {primary: local}\nagents: {a: {model: primry}}")
    assert (problem.message, problem.suggestion) == (
        "agent 'a': there is no model 'primry'",
        "did you mean 'primary'?",
    )
    assert "provider:name" in only_problem(tmp_path, "agents: {a: {model: gpt}}").suggestion


@pytest.mark.parametrize(
    ("path", "hint"), [("a.b.c", "write a.b:c"), ("f", "write module:function"), ("m:1f", "write"), ("m: f", "write")]
)
def test_an_import_path_must_look_like_one(tmp_path: Path, path: str, hint: str) -> None:
    problem = only_problem(tmp_path, f"agents: {{a: {{function: '{path}'}}}}")
    assert "is not an import path" in problem.message
    assert hint in problem.suggestion


def test_scripted_replies_must_be_there(tmp_path: Path) -> None:
    for text in (
        "agents: {a: {scripted: r.yaml}}",
        "agents: {a: {model: 'scripted:r.yaml'}}",
        "agents: {a: }\nmodels: {m: 'scripted:r.yaml'}",
    ):
        assert "there is no file 'r.yaml' of scripted replies" in only_problem(tmp_path, text).message


@pytest.mark.parametrize("schema", ["{type: txt}", "{properties: {a: {minimum: x}}}", "{pattern: '('}"])
def test_a_json_schema_must_be_one(tmp_path: Path, schema: str) -> None:
    for text in (
        f"agents: {{a: {{model: local, output_schema: {schema}}}}}",
        f"agents: {{a: {{model: local, input_schema: {schema}}}}}",
        f"{AGENTS}teams: {{t: {{members: [a], output_schema: {schema}}}}}",
    ):
        assert "is not a JSON Schema" in only_problem(tmp_path, text).message


def test_a_strange_dialect_of_json_schema_breaks_nothing(tmp_path: Path) -> None:
    problems(tmp_path, "agents: {a: {model: local, output_schema: {$schema: [1]}}}")
    loaded(tmp_path, "agents: {a: {model: local, output_schema: {$schema: 'http://nowhere.invalid/x'}}}")


def test_a_key_in_the_file_is_warned_about(tmp_path: Path) -> None:
    text = "models: {m: {url: 'http://x/v1', name: y, api_key: abc123}}"
    (warning,) = loaded(tmp_path, text).warnings
    assert "the key is written in the file" in warning.message
    assert "abc123" not in str(warning)


def test_many_mistakes_stay_quick(tmp_path: Path) -> None:
    agents = "".join(f"  agent-{n}: {{model: local}}\n" for n in range(3000))
    members = ", ".join(f"agnet-{n}" for n in range(3000))
    assert len(problems(tmp_path, f"agents:\n{agents}teams: {{t: {{members: [{members}]}}}}")) == 3000
