"""In ARK a name belongs to its kind and namespace: what shares one here gets another, and references follow."""

from pathlib import Path

import pytest

from teamwright.cli.main import main
from teamwright.teams.manifests.manifest_loader import Loaded
from tests.teams.manifests.manifests import loaded, problems

HEAD = "apiVersion: ark.mckinsey.com/v1alpha1\n"


def document(kind: str, name: str, spec: str, namespace: str = "") -> str:
    home = f", namespace: {namespace}" if namespace else ""
    return f"{HEAD}kind: {kind}\nmetadata: {{name: {name}{home}}}\nspec: {spec}\n"


def ark(folder: Path, *documents: str) -> Loaded:
    return loaded(folder, "---\n".join(documents), replaced=True)


def team(name: str, *members: str, more: str = "strategy: sequential", namespace: str = "") -> str:
    listed = ", ".join("{{name: {}, type: {}}}".format(*tuple(reversed(one.split(":")))) for one in members)
    return document("Team", name, f"{{{more}, members: [{listed}]}}", namespace)


A, B = document("Agent", "a", "{prompt: A}"), document("Agent", "b", "{prompt: B}")


def test_a_team_keeps_its_name_and_an_agent_of_that_name_gets_another(tmp_path: Path) -> None:  # R-12, M-05
    found = ark(tmp_path, A, B, team("a", "agent:a", "agent:b"), team("outer", "team:a", "agent:a"))
    assert found.manifest.teams["a"].members == ("a-agent", "b")
    assert found.manifest.teams["outer"].members == ("a", "a-agent")
    assert found.manifest.agents["a-agent"].instructions == "A"
    (warning,) = found.warnings
    assert warning.message == "agent 'a' is renamed to 'a-agent', because team 'a' has the name"


def test_long_namespaces_that_begin_alike_are_distinguished(tmp_path: Path) -> None:  # R-12, S-01
    found = ark(tmp_path, *(document("Agent", "a", "{prompt: x}", f"{'n' * 70}{number}") for number in range(12)))
    assert sorted(found.manifest.agents, key=len)[:2] == ["a", f"{'n' * 58}-2"]
    assert len(found.manifest.agents) == 12
    assert max(map(len, found.manifest.agents)) == 64


def test_one_name_in_two_namespaces_is_two_agents(tmp_path: Path) -> None:  # R-12, M-05
    found = ark(
        tmp_path,
        document("Agent", "a", "{prompt: first}", "one"),
        document("Agent", "a", "{prompt: second}", "two"),
        team("t", "agent:a", namespace="one"),
        team("t", "agent:a", namespace="two"),
        document("Query", "q", "{input: x, target: {type: team, name: t}}", "two"),
        document("Query", "q", "{input: y, target: {type: agent, name: a}}", "one"),
    )
    teams, agents = found.manifest.teams, found.manifest.agents
    assert agents[teams["t"].members[0]].instructions == "first"
    assert agents[teams["two.t"].members[0]].instructions == "second"
    assert {one.task: one.target for one in found.queries.values()} == {"x": "two.t", "y": "a"}
    assert [one.message for one in found.warnings] == [
        "agent 'a' is renamed to 'two.a', because agent 'a' of namespace 'one' has the name",
        "team 't' is renamed to 'two.t', because team 't' of namespace 'one' has the name",
        "query 'q' is renamed to 'one.q', because query 'q' of namespace 'two' has the name",
    ]


def test_models_of_two_namespaces_are_distinguished(tmp_path: Path) -> None:  # R-12, M-05
    spec = "{type: openai, model: {value: %s}}"
    text = "---\n".join(
        [
            document("Model", "m", spec % "small", "one"),
            document("Model", "m", spec % "large", "two"),
            document("Agent", "a", "{prompt: A, modelRef: {name: m}}", "one"),
            document("Agent", "b", "{prompt: B, modelRef: {name: m}}", "two"),
            document("Agent", "c", "{prompt: C, modelRef: {name: m, namespace: one}}", "two"),
        ]
    )
    manifest = loaded(tmp_path, text).manifest
    used = [manifest.models[str(manifest.agents[name].model)] for name in "abc"]
    assert used == ["openai:small", "openai:large", "openai:small"]


def test_edges_and_the_selecting_agent_follow(tmp_path: Path) -> None:  # R-12, M-05
    graph = "strategy: graph, maxTurns: 3, graph: {edges: [{from: a, to: b}, {from: b, to: a}]}"
    chosen = "strategy: selector, maxTurns: 3, selector: {agent: a}"
    found = ark(
        tmp_path, A, B, team("a", "agent:a", "agent:b", more=graph), team("s", "agent:b", "team:a", more=chosen)
    )
    edges = found.manifest.teams["a"].options["edges"]
    assert edges == [{"from": "a-agent", "to": "b"}, {"from": "b", "to": "a-agent"}]
    assert found.manifest.teams["s"].options == {"agent": "a-agent"}


def test_a_name_that_a_cluster_would_refuse_too_is_refused(tmp_path: Path) -> None:  # R-11, M-05
    assert "There is already an agent 'a'" in problems(tmp_path, f"{A}---\n{A}")[0].message
    (problem,) = problems(tmp_path, f"{A}---\nagents: {{a: {{model: local}}}}\n")
    assert "There is already an agent 'a'" in problem.message


def test_longer_names_are_free_and_short_enough(tmp_path: Path) -> None:  # M-05
    long = "a" * 64
    found = ark(
        tmp_path,
        document("Agent", "a", "{prompt: one}"),
        document("Agent", "a-agent", "{prompt: two}"),
        team("a", "agent:a", "agent:a-agent"),
        document("Agent", long, "{prompt: three}"),
        team(long, f"agent:{long}"),
    )
    assert found.manifest.teams["a"].members == ("a-agent-2", "a-agent")
    assert [found.manifest.agents[name].instructions for name in ("a-agent-2", "a-agent")] == ["one", "two"]
    (renamed,) = found.manifest.teams[long].members
    assert len(renamed) <= 64
    assert found.manifest.agents[renamed].instructions == "three"


def test_such_teams_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # R-12, M-05
    (tmp_path / "r.yaml").write_text("rules: [{reply: hello}]")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "t.yaml").write_text("---\n".join([A, B, team("a", "agent:a", "agent:b")]))
    assert main(["run", str(tmp_path / "t"), "task", "--model", f"scripted:{tmp_path / 'r.yaml'}", "--json"]) == 0
    assert '"name": "a-agent"' in capsys.readouterr().out.replace('"name":"', '"name": "')
