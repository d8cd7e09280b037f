"""Loading files and folders: together, with relative paths kept, and whatever is in them never a traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from teamwright.errors import ManifestError, Problem
from teamwright.teams.manifests.manifest_loader import load
from teamwright.values.specs.manifest import Manifest
from tests.profiles import sampled
from tests.teams.manifests.manifests import loaded

GOOD = """\
x-shared: &shared {model: primary, timeout: 5}
models: {primary: "openai:x", near: {url: "http://localhost/v1", name: y}}
tools: {search: "m:f", files: {mcp: {command: [run, a]}}}
agents:
  a: {<<: *shared, instructions: "Be brief.", tools: [search, terminate], settings: {temperature: 0.5}}
  b: {model: near, output_schema: {type: object, properties: {x: {type: string}}}}
teams:
  t: {strategy: round-robin, members: [a, u], max_turns: 2, limits: {tokens: 10}}
  u: {members: [b, b], share: output}
  w: {strategy: selector, max_turns: 3, members: [a, b], selector: {model: near, edges: [{from: a, to: b, when: "1"}]}}
  x: {strategy: graph, members: [a, b], graph: {edges: [{from: a, to: b, task: "{{ text }}"}]}}
  y: {strategy: fan-out, members: [a], fan-out: {splitter: b, max_parallel: 2}}
  z: {strategy: hierarchical, members: [a], hierarchical: {lead: u}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: c, labels: {x: y}}
spec: {prompt: Hello, modelRef: {name: near}, tools: [{name: terminate, type: built-in}]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: v}
spec: {strategy: sequential, members: [{name: c, type: agent}, {name: t, type: team}]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: s}
spec:
  strategy: selector
  maxTurns: 2
  members: [{name: c, type: agent}, {name: a, type: agent}]
  selector: {agent: c, selectorPrompt: "{{.Roles}}", enableTerminateTool: true}
  graph: {edges: [{from: c, to: a}]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: m}
spec: {type: openai, model: {value: g}, config: {openai: {baseUrl: {value: "http://x/v1"}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Query
metadata: {name: q}
spec: {input: Hello, target: {type: team, name: v}}
"""
PIECES = [
    "null", "[]", "{}", "''", "1", "-1", "1.5", "true", "*shared", "&shared", "<<: ", "!!str ", "!x ", "- ", "? ",
    ": ", "\n", "\t", "  ", "---\n", "...\n", "#", "${", "${A}", "\x00", "é", "\U0001f600", "'", '"', "{", "}",
    "[", "]", ",", "|\n", ">-\n", "agents:", "teams:", "members:", "kind: Team", "spec:", "apiVersion: ",
    "0x", "9" * 25,
    "\\", "%", "@", "`", "a", "t",
]  # fmt: skip


def outcome(file: Path, data: bytes) -> Manifest | None:
    """Load it; anything but a manifest or problems with a place fails the test."""
    file.write_bytes(data)
    problems: tuple[Problem, ...] = ()
    try:
        return load([file]).manifest
    except ManifestError as error:
        problems = error.problems
    assert problems
    assert all(problem.message and problem.file for problem in problems)
    return None


def test_the_good_manifest_is_good(tmp_path: Path) -> None:
    found = outcome(tmp_path / "m.yaml", GOOD.encode())
    assert isinstance(found, Manifest)
    assert Manifest.model_validate_json(found.model_dump_json()) == found


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_load_or_are_reported(tmp_path: Path, data: bytes) -> None:
    outcome(tmp_path / "m.yaml", data)


@given(
    st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=4)
)
@example(changes=[(599, 0, "a"), (602, 0, "null")])  # options in which a name stood are dropped
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=sampled(80, 300))
def test_a_manifest_with_changes_loads_or_is_reported(tmp_path: Path, changes: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    outcome(tmp_path / "m.yaml", text.encode())


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "t", "local", "selector", "graph", "fan_out"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "model", "function", "tools", "instructions", "output_schema", "limits", "retry", "strategy", "members",
    "max_turns", "mcp", "url", "name", "options", "selector", "graph", "fan-out", "optional", "critical",
]  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["agents", "teams", "models", "tools", "apiVersion", "kind", "metadata", "spec"]),
        st.dictionaries(
            st.sampled_from(["a", "t", "name", "prompt", "members", "model", "config"]),
            st.dictionaries(st.sampled_from(FIELDS), values, max_size=4) | values,
            max_size=3,
        )
        | st.sampled_from(["ark.mckinsey.com/v1alpha1", "Team", "Agent", "Model", "Query"]),
        min_size=1,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=sampled(40, 100))
def test_any_values_in_any_field_load_or_are_reported(tmp_path: Path, data: dict[str, object]) -> None:
    import yaml

    outcome(tmp_path / "m.yaml", yaml.safe_dump(data, allow_unicode=True).encode())


def test_a_folder_loads_together(tmp_path: Path) -> None:
    (tmp_path / "agents.yml").write_text("agents: {a: {model: local}}")
    (tmp_path / "team.yaml").write_text("teams: {t: {members: [a]}}")
    (tmp_path / "replies.yaml").write_text("rules: [{reply: x}]")
    (tmp_path / ".hidden.yaml").write_text("nonsense: true")
    (tmp_path / "notes.txt").write_text("nonsense")
    (tmp_path / "deeper").mkdir()
    found = load([tmp_path])
    assert (list(found.manifest.agents), list(found.manifest.teams)) == (["a"], ["t"])
    assert found.base == tmp_path
    assert [file.name for file in found.files] == ["agents.yml", "replies.yaml", "team.yaml"]


def test_a_name_in_two_files_is_reported_with_both_places(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("agents: {a: {model: local}}")
    with pytest.raises(ManifestError) as caught:
        load([tmp_path])
    (problem,) = caught.value.problems
    assert problem.file == str(tmp_path / "two.yaml")
    assert f"{tmp_path / 'one.yaml'}:1:10" in problem.suggestion


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("agents: {a: {model: local}}")
    assert load([tmp_path, tmp_path / "team.yaml"]).files == (tmp_path / "team.yaml",)


@pytest.mark.parametrize(
    ("path", "told"),
    [("", "The folder has no YAML files"), ("none.yaml", "There is no such file"), ("a\0b", "can't be read")],
)
def test_what_is_not_there_is_reported(tmp_path: Path, path: str, told: str) -> None:
    with pytest.raises(ManifestError, match=told):
        load([tmp_path / path])


def test_a_folder_of_a_team_is_suggested_for_a_mistyped_one(tmp_path: Path) -> None:
    for name in ("shop", "shap"):
        (tmp_path / name).mkdir()
    (tmp_path / "shop" / "team.yaml").write_text("agents: {a: {model: local}}")
    with pytest.raises(ManifestError, match=r"There is no such file \(did you mean 'shop'\?\)"):
        load([tmp_path / "shp"])


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="Nothing is declared here"):
        loaded(tmp_path, "agents: {}\n")
    with pytest.raises(ManifestError, match="Nothing is declared here"):
        load([])


def test_replies_are_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="This is a file of scripted replies"):
        loaded(tmp_path, "rules: [{reply: x}]")


def test_a_broken_file_brings_no_complaints_about_what_it_may_declare(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text("agents: {a: {model: local}")
    (tmp_path / "team.yaml").write_text("teams: {t: {members: [a], strategy: nonsense}}")
    with pytest.raises(ManifestError) as caught:
        load([tmp_path])
    assert [one.message.split(":")[0] for one in caught.value.problems] == ["This is not YAML", "team 't'"]


def test_relative_files_are_kept_relative_to_the_first_manifest(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "replies.yaml").write_text("rules: []")
    (tmp_path / "replies.yaml").write_text("rules: []")
    (tmp_path / "team.yaml").write_text("agents: {a: {model: scripted:replies.yaml}}")
    more = tmp_path / "more" / "agents.yaml"
    more.write_text(
        "agents: {b: {model: scripted:replies.yaml}, c: {model: 'scripted:../replies.yaml'}}\n"
        "models: {w: 'local:w.gguf'}"
    )
    found = load([tmp_path / "team.yaml", more])
    agents = found.manifest.agents
    assert found.base == tmp_path
    assert (agents["a"].model, agents["b"].model) == ("scripted:replies.yaml", "scripted:more/replies.yaml")
    assert (agents["c"].model, found.manifest.models["w"]) == ("scripted:replies.yaml", "local:more/w.gguf")


def test_secrets_are_left_in_place(tmp_path: Path) -> None:
    text = "models: {m: {url: '${URL}', name: x, api_key: '${KEY}'}}"
    assert "${KEY}" in loaded(tmp_path, text).manifest.model_dump_json()
