"""ARK's `selector` and `graph` become the options of our strategies."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from teamwright.teams.builder import Builder
from teamwright.teams.manifests.manifest_loader import Loaded
from tests.teams.manifests.manifests import loaded, only_problem

HEAD = "apiVersion: ark.mckinsey.com/v1alpha1\n"
AGENTS = "---\n".join(
    f"{HEAD}kind: Agent\nmetadata: {{name: {name}}}\nspec: {{prompt: Hello}}\n"
    for name in ("researcher", "analyst", "writer", "chair")
)
MEMBERS = """
  members:
  - {name: researcher, type: agent}
  - {name: analyst, type: agent}
  - {name: writer, type: agent}
"""
CHAIN = "graph: {edges: [{from: researcher, to: analyst}, {from: analyst, to: writer}]}"
SAMPLE = """\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata:
  name: selector-team
spec:
  strategy: selector
  maxTurns: 10
  selector:
    model: gpt-4
    selectorPrompt: |
      Choose the best participant for the next response based on conversation context.
      Available: {{.Participants}}
      History: {{.History}}
  members:
  - name: researcher
    type: agent
  - name: analyst
    type: agent
  - name: writer
    type: agent
"""


def team(strategy: str, *fields: str) -> str:
    lines = "".join(f"  {field}\n" for field in fields)
    return f"{AGENTS}---\n{HEAD}kind: Team\nmetadata: {{name: t}}\nspec:\n  strategy: {strategy}\n{lines}{MEMBERS}"


def ark(folder: Path, text: str) -> Loaded:
    return loaded(folder, text, replaced=True)


def options(folder: Path, text: str) -> dict[str, JsonValue]:
    return ark(folder, text).manifest.teams["t"].options


def test_the_selector_sample_loads_as_it_is(tmp_path: Path) -> None:
    found = ark(tmp_path, f"{AGENTS}---\n{SAMPLE}")
    spec = found.manifest.teams["selector-team"]
    assert found.warnings == ()
    assert (spec.strategy, spec.max_turns) == ("selector", 10)
    assert spec.options["agent"] == "selector-team-selector"
    assert str(spec.options["prompt"]).endswith("Available: {{.Participants}}\nHistory: {{.History}}\n")
    assert found.manifest.agents["selector-team-selector"].model_dump(exclude_unset=True) == {"model": "gpt-4"}


def test_an_undeclared_model_is_only_a_warning(tmp_path: Path) -> None:
    text = f"{AGENTS}---\n{SAMPLE}---\nmodels: {{default: local, other: local}}\n"
    (warning,) = loaded(tmp_path, text).warnings
    assert warning.message == "No file declares the model 'gpt-4', which 'selector-team-selector' would use"


@pytest.mark.parametrize("name", ["model: {name: gpt-4}", "model: gpt-4"])
def test_a_model_may_be_a_reference(tmp_path: Path, name: str) -> None:
    found = ark(tmp_path, team("selector", "maxTurns: 3", f"selector: {{{name}}}"))
    assert found.manifest.agents["t-selector"].model == "gpt-4"


def test_an_agent_may_select(tmp_path: Path) -> None:
    found = options(tmp_path, team("selector", "maxTurns: 3", "selector: {agent: chair, enableTerminateTool: false}"))
    assert found == {"agent": "chair"}


def test_edges_narrow_a_selectors_choice(tmp_path: Path) -> None:
    graph = "graph: {edges: [{from: researcher, to: analyst}, {from: researcher, to: writer}]}"
    found = ark(tmp_path, team("selector", "maxTurns: 3", "selector: {agent: chair}", graph))
    assert found.manifest.teams["t"].options == {
        "agent": "chair",
        "edges": [{"from": "researcher", "to": "analyst"}, {"from": "researcher", "to": "writer"}],
    }
    assert found.warnings == ()


def test_a_graph_is_its_edges(tmp_path: Path) -> None:
    found = ark(tmp_path, team("graph", "maxTurns: 5", CHAIN))
    assert found.manifest.teams["t"].options == {
        "edges": [{"from": "researcher", "to": "analyst"}, {"from": "analyst", "to": "writer"}]
    }
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (["selector: {agent: chair, terminatePrompt: x}"], "'terminatePrompt' of the selector of team 't'"),
        (["selector: {agent: chair, enableTerminateTool: true}"], "give the selecting agent the tool 'terminate'"),
        (["selector: {agent: chair, selectrPrompt: x}"], "(did you mean 'selectorPrompt'"),
        (["selector: {agent: chair}", CHAIN.replace("}]}", "}], loops: 1}")], "'loops' of the graph of team 't'"),
        (["selector: {agent: chair}", CHAIN.replace("}]", ", when: x}]")], "'when' of an edge of team 't'"),
    ],
)
def test_what_is_not_supported_is_a_warning(tmp_path: Path, fields: list[str], told: str) -> None:
    (warning,) = ark(tmp_path, team("selector", "maxTurns: 3", *fields)).warnings
    assert warning.message.startswith("Ignored: ")
    assert told in str(warning)


@pytest.mark.parametrize("strategy", ["sequential", "round-robin"])
def test_parts_for_another_strategy_are_a_warning(tmp_path: Path, strategy: str) -> None:
    turns = ["maxTurns: 3"] if strategy == "round-robin" else []
    found = ark(tmp_path, team(strategy, *turns, "selector: {agent: chair}", CHAIN)).warnings
    assert [one.message for one in found] == [
        "Ignored: 'selector' of team 't' is not supported",
        "Ignored: 'graph' of team 't' is not supported",
    ]


@pytest.mark.parametrize(
    ("strategy", "fields", "told", "there"),
    [
        ("selector", ["maxTurns: 3"], "'selector' needs an agent that chooses", "strategy: selector"),
        ("selector", ["selector: {agent: chair}"], "'selector' needs maxTurns", "strategy: selector"),
        ("selector", ["maxTurns: 3", "selector: {agent: chiar}"], "no agent or team 'chiar' (did you mean", "chiar"),
        ("selector", ["maxTurns: 3", "selector: {agent: 5}"], "'agent' expects text", "5}"),
        ("selector", ["maxTurns: 3", "selector: {agent: chair, selectorPrompt: 5}"], "'selectorPrompt' expects", "5}"),
        ("selector", ["maxTurns: 3", "selector: {agent: chair, model: m}"], "has 'agent' and 'model'", "model: m"),
        ("selector", ["maxTurns: 3", "selector: chair"], "'selector' expects a mapping", "chair"),
        (
            "selector",
            ["maxTurns: 3", "selector: {agent: chair}", "graph: {edges: [{from: x, to: writer}]}"],
            "'x' is not a member of team 't'",
            "x, to",
        ),
        ("graph", ["maxTurns: 3"], "'graph' needs edges, unless members have handoffs", "strategy: graph"),
        ("graph", ["maxTurns: 3", "graph: {edges: []}"], "'edges' is empty", "[]}"),
        ("graph", ["maxTurns: 3", "graph: {}"], "'graph' needs edges", "{}"),
        ("graph", ["maxTurns: 3", "graph: [1]"], "'graph' expects a mapping", "[1]"),
        ("graph", ["maxTurns: 3", "graph: {edges: [1]}"], "expects a mapping, found the number 1", "1]"),
        ("graph", ["maxTurns: 3", "graph: {edges: [{from: writer}]}"], "'to' is missing", "{from"),
        ("graph", ["maxTurns: 3", CHAIN.replace("to: writer", "to: writter")], "(did you mean 'writer'?)", "writter"),
        (
            "graph",
            ["maxTurns: 3", CHAIN.replace("from: analyst", "from: researcher")],
            "team 't': 'researcher' has more than one outgoing edge (ARK allows one",
            "researcher, to: writer",
        ),
        (
            "graph",
            [CHAIN.replace("}]}", "}, {from: writer, to: researcher}]}")],
            "'graph' needs maxTurns, since its edges lead back: researcher → analyst → writer → researcher",
            "[{from",
        ),
    ],
)
def test_mistakes_are_reported_at_their_place(
    tmp_path: Path, strategy: str, fields: list[str], told: str, there: str
) -> None:
    text = team(strategy, *fields)
    problem = only_problem(tmp_path, text)
    assert told in str(problem)
    assert text.splitlines()[problem.line - 1][problem.column - 1 :].startswith(there)


@pytest.mark.parametrize("block", ["{}", "{selectorPrompt: 'Choose one of {{.Participants}}'}"])
def test_a_selector_without_model_or_agent_takes_the_default_model(tmp_path: Path, block: str) -> None:  # R-12, M-05
    found = ark(tmp_path, team("selector", "maxTurns: 5", f"selector: {block}"))
    assert found.manifest.teams["t"].options["agent"] == "t-selector"
    assert found.manifest.agents["t-selector"].model == "default"
    text = team("selector", "maxTurns: 5", f"selector: {block}")
    declared = ark(tmp_path, f"{text}---\nmodels: {{primary: 'openai:x'}}\n")
    assert declared.manifest.agents["t-selector"].model == "primary"


def test_a_member_that_no_edge_leads_to_is_a_warning(tmp_path: Path) -> None:  # R-12, M-05
    found = ark(tmp_path, team("graph", "maxTurns: 5", "graph: {edges: [{from: researcher, to: analyst}]}"))
    (warning,) = found.warnings
    assert "no edge leads to 'writer'" in warning.message
    assert len(found.manifest.teams["t"].members) == 3
    assert Builder(found.manifest).team("t").warnings[0].message.endswith(warning.message.partition(": ")[2])


def test_in_a_native_manifest_it_is_a_problem(tmp_path: Path) -> None:
    agents = "agents: {a: {model: local}, b: {model: local}, c: {model: local}}\n"
    spec = "{strategy: graph, members: [a, b, c], graph: {edges: [{from: a, to: b}]}}"
    assert "no edge leads to 'c'" in only_problem(tmp_path, f"{agents}teams: {{t: {spec}}}\n").message
