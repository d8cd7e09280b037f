"""References between names, models, tools and agents."""

from pathlib import Path

import pytest

from teamwright.errors import ManifestError
from teamwright.teams.manifests.manifest_loader import load
from teamwright.values.specs.members import FallbackModel
from teamwright.values.specs.models import NamedModel
from tests.teams.manifests.manifests import loaded, only_problem, problems

AGENTS = "agents: {a: {model: local}, b: {model: local}, c: {model: local, tools: [terminate]}}\n"


def test_names_are_taken_once(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {a: {members: [b]}}")
    assert problem.message == "There is already an agent 'a'"
    assert problem.suggestion.startswith(f"it is declared at {tmp_path / 'team.yaml'}:1:10")


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


def test_an_agent_without_a_model_or_function_is_a_mistake(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "models: {x: local, y: local}\nagents: {a: {instructions: Hello}}")
    assert problem.message == "agent 'a' has no model"
    assert "x, y" in problem.suggestion
    assert loaded(tmp_path, "agents: {a: {instructions: Hello}}", replaced=True).manifest.agents["a"].model == "default"


def test_an_agent_is_answered_by_one(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {a: {model: local, function: 'm:f'}}")
    assert (problem.message, problem.column) == ("agent 'a' has 'model' and 'function'", 28)


@pytest.mark.parametrize("model", ["local", "local:w.gguf", "openai:gpt-5", "google:gemini-3", "${MODEL}"])
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
        "agents: {a: {model: scripted:r.yaml}}",
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("api_key", "models: {m: {url: 'http://x/v1', name: y, api_key: abc123}}"),
        (
            "GITHUB_TOKEN",
            "tools: {t: {mcp: {command: x, env: {GITHUB_TOKEN: abc123, MAX_TOKENS: '9', B_KEY: '${B}'}}}}",
        ),
        ("X-Auth-Token", "tools: {t: {mcp: {url: 'http://x', headers: {X-Auth-Token: abc123, Accept: json}}}}"),
        ("webhook", "agents: {a: {model: local}}\nteams: {t: {members: [a], notify: {webhook: 'http://x/abc123'}}}"),
    ],
)
def test_a_secret_in_the_file_is_warned_about(tmp_path: Path, name: str, text: str) -> None:
    (warning,) = loaded(tmp_path, text).warnings
    assert f"the secret {name!r} is written in the file" in warning.message
    assert "abc123" not in str(warning)


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("agents: {a: {model: local, optional: true, critical: true}}", "agent 'a'"),
        (AGENTS + "teams: {t: {members: [a], critical: true, optional: true}}", "team 't'"),
    ],
)
def test_no_member_is_optional_and_critical(tmp_path: Path, text: str, who: str) -> None:
    problem = only_problem(tmp_path, text)
    assert problem.message == f"{who} is optional and critical"
    assert problem.column > 20
    assert loaded(tmp_path, text.replace("critical: true", "critical: false"))


LONG = "teams: {t: {members: [a]}}\nagents: {a: {model: x}}\nmodels: {x: %s}"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{model: gpt, max_parallel: 2}", "model 'x': 'gpt' is not a model"),
        ("{model: 'openai:gpt-5', max_parallel: 0}", "model 'x': 'max_parallel' must be at least 1, and 0 is not"),
        ("{model: 'openai:gpt-5', rpm: 5}", "model 'x': 'rpm' is not a field here"),
        ("{per_minute: {calls: 5}}", "model 'x': 'model' is missing"),
        (
            "{model: 'scripted:none.yaml', max_parallel: 2}",
            "model 'x': there is no file 'none.yaml' of scripted replies",
        ),
        ("{url: 'http://localhost/v1', name: n, per_minute: {tokens: many}}", "model 'x': 'tokens' expects"),
    ],
)
def test_a_mistake_in_how_fast_a_model_is_called_is_reported(
    tmp_path: Path, written: str, message: str
) -> None:  # P-13
    assert only_problem(tmp_path, LONG % written).message.startswith(message)


def test_a_long_form_is_written_at_the_agent_as_well(tmp_path: Path) -> None:  # P-13
    manifest = loaded(tmp_path, "agents: {a: {model: {model: 'openai:gpt-5', max_parallel: 2}}}").manifest
    assert manifest.agents["a"].model == NamedModel(model="openai:gpt-5", max_parallel=2)
    problem = only_problem(tmp_path, "models: {x: local}\nagents: {a: {model: {model: x, max_parallel: 2}}}")
    assert problem.message == "agent 'a': 'x' is not a model"


def test_files_of_models_in_their_long_form_are_found_from_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "replies.yaml").write_text("rules: []")
    agent = "{model: {model: 'scripted:replies.yaml', max_parallel: 1}, fallback: {model: 'scripted:replies.yaml'}}"
    (tmp_path / "inner" / "agent.yaml").write_text(f"agents: {{a: {agent}}}")
    (tmp_path / "team.yaml").write_text("teams: {t: {members: [a]}}")
    made = load([tmp_path / "team.yaml", tmp_path / "inner" / "agent.yaml"]).manifest.agents["a"]
    there = "scripted:inner/replies.yaml"
    assert (made.model, made.fallback) == (NamedModel(model=there, max_parallel=1), FallbackModel(model=there))


@pytest.mark.parametrize(
    "declared", ["{model: {model: 'scripted:sub\\replies.yaml'}}", "{model: 'scripted:sub\\replies.yaml'}"]
)
def test_a_path_with_backslashes_is_refused_with_the_path_to_write(tmp_path: Path, declared: str) -> None:
    (tmp_path / "team.yaml").write_text(f"agents: {{a: {declared}}}\n")
    with pytest.raises(ManifestError, match=r"no file .*write 'sub/replies.yaml'"):
        load([tmp_path / "team.yaml"])
    with pytest.raises(ManifestError, match=r"no such file \(write '.*/sub/team.yaml'\)"):
        load([Path(f"{tmp_path}/sub\\team.yaml")])


def test_a_field_that_users_expect_in_a_team_is_refused_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("agents: {a: {model: local}}\nteams: {t: {members: [a], helpers: [a]}}\n")
    with pytest.raises(ManifestError, match=r"'helpers' is not a field here \(declare them under agents"):
        load([tmp_path / "team.yaml"])
