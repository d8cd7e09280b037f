"""ARK documents load unchanged; what is not supported is named, never dropped in silence."""

from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.errors import ManifestError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.registry import strategy_names
from teamwright.teams.manifests.manifest_loader import Loaded, load
from teamwright.teams.team_loader import load_team
from tests.paths import EXAMPLES
from tests.teams.manifests.manifests import loaded, only_problem, problems

ARK = EXAMPLES / "ark"
HEAD = "apiVersion: ark.mckinsey.com/v1alpha1\n"
AGENT = HEAD + "kind: Agent\nmetadata: {name: a}\nspec: {prompt: Hello}\n"


def ark(folder: Path, *documents: str) -> Loaded:
    return loaded(folder, "---\n".join(documents), replaced=True)


def agent(spec: str) -> str:
    return f"{HEAD}kind: Agent\nmetadata: {{name: b}}\nspec: {spec}\n"


def team(spec: str) -> str:
    return f"{HEAD}kind: Team\nmetadata: {{name: t}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("paths", "team_name", "strategy", "turns"),
    [
        (["sequential.yaml", "agents.yaml"], "sequential-team", "sequential", None),
        (["round_robin.yaml", "agents.yaml"], "roundrobin-team", "round_robin", 3),
        (["selector.yaml", "agents.yaml"], "selector-team", "selector", 10),
        (["graph.yaml", "agents.yaml"], "graph-team", "graph", 5),
        (["banking"], "customer-service-team", "sequential", None),
        (["banking/team.yaml", "banking/agents.yaml"], "customer-service-team", "sequential", None),
        (["."], "roundrobin-team", "round_robin", 3),
    ],
)
def test_the_samples_load(paths: list[str], team_name: str, strategy: str, turns: int | None) -> None:
    result = load([ARK / path for path in paths], models_replaced=True)
    spec = result.manifest.teams[team_name]
    assert (spec.strategy, spec.max_turns) == (strategy, turns)
    assert len(spec.members) == (4 if strategy == "graph" else 3)
    assert result.warnings == ()
    assert all(result.manifest.agents[name].instructions for name in spec.members)


def test_the_question_of_the_banking_demo_comes_along() -> None:
    result = load([ARK / "banking"])
    (query,) = result.queries.values()
    assert query.task == "What's my account balance and what loans do you offer?"
    assert (query.target, query.target_kind) == ("customer-service-team", "team")
    (warning,) = result.warnings
    assert "No file declares the model 'default'" in warning.message


def test_missing_agents_may_come_from_another_file() -> None:
    with pytest.raises(ManifestError) as caught:
        load([ARK / "sequential.yaml"])
    assert [one.line for one in caught.value.problems] == [11, 13, 15]
    assert all("--with FILE" in one.suggestion for one in caught.value.problems)


def test_strategies_that_do_not_exist_here_are_reported(tmp_path: Path) -> None:
    spec = "{strategy: swarm, maxTurns: 5, members: [{name: a, type: agent}]}"
    problem = only_problem(tmp_path, f"{AGENT}---\n{team(spec)}")
    assert f"no strategy 'swarm'; known are {', '.join(strategy_names())}" in problem.message


def test_an_agent_is_translated(tmp_path: Path) -> None:
    spec = """
  description: Coordinates
  prompt: Use the terminate tool when the task is complete.
  modelRef: {name: gpt, namespace: shared}
  tools:
  - {name: terminate, type: built-in}
  outputSchema: {type: object}
"""
    found = ark(tmp_path, agent(spec), "models: {gpt: 'openai:gpt-5'}\n")
    assert found.warnings == ()
    assert found.manifest.agents["b"].model_dump(exclude_unset=True) == {
        "description": "Coordinates",
        "instructions": "Use the terminate tool when the task is complete.",
        "model": "gpt",
        "tools": ("terminate",),
        "output_schema": {"type": "object"},
    }


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (agent("{prompt: x, parameters: []}"), "Ignored: 'parameters' of agent 'b' is not supported"),
        (agent("{prompt: x, executionEngine: {name: e}}"), "'executionEngine'"),
        (agent("{promt: x}"), "Ignored: 'promt' of agent 'b' is not supported (did you mean 'prompt'"),
        (agent("{tools: [{name: noop, type: built-in}]}"), "the tool 'noop' of type 'built-in' is not supported"),
        (agent("{tools: [{name: x, type: mcp}]}"), "declare 'x' under 'tools' of a native manifest"),
        (agent("{tools: [{name: terminate, type: built-in, partial: {}}]}"), "'partial' of the tool 'terminate'"),
        (agent("{modelRef: {name: m, key: x}}"), "'key' of the modelRef"),
        (team("{strategy: sequential, members: [{name: a, type: agent, role: x}]}"), "'role' of the member 'a'"),
        (team("{strategy: sequential, members: [{name: a, type: agent}], graph: {}}"), "'graph' of team 't'"),
        (team("{strategy: sequential, members: [{name: a, type: agent}], maxTurns: 3}"), "'maxTurns' changes nothing"),
        (f"{HEAD}kind: MCPServer\nmetadata: {{name: x}}\n", "documents of kind 'MCPServer' are not supported"),
        ("apiVersion: v1\nkind: Secret\n", "Ignored: 'v1' is not 'ark.mckinsey.com/v1alpha1'"),
        (agent("{prompt: x}") + "status: {}\n", "Ignored: 'status' of the Agent"),
        (agent("{prompt: x}").replace("v1alpha1", "v1beta1"), "is read as 'ark.mckinsey.com/v1alpha1'"),
        (f"{HEAD}kind: Query\nmetadata: {{name: q}}\nspec: {{input: x, timeout: 5m}}\n", "'timeout' of query 'q'"),
        (f"{HEAD}kind: Query\nmetadata: {{name: q}}\nspec: {{input: [x]}}\n", "has no text as 'input'"),
        (
            f"{HEAD}kind: Query\nmetadata: {{name: q}}\nspec: {{input: x, target: {{type: model, name: m}}}}\n",
            "is for 'model', not an agent or team",
        ),
    ],
)
def test_what_is_not_supported_is_a_warning_with_its_place(tmp_path: Path, document: str, told: str) -> None:
    (warning,) = ark(tmp_path, AGENT, document).warnings
    assert told in str(warning)
    assert warning.line > 5


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (team("{strategy: sequential}"), "team 't': 'members' is missing"),
        (team("{strategy: sequential, members: []}"), "team 't': 'members' is empty"),
        (team("{members: [{name: a, type: agent}]}"), "team 't': 'strategy' is missing"),
        (team("{strategy: sequential, members: [a]}"), "each member is a mapping with 'name' and 'type'"),
        (team("{strategy: sequential, members: [{name: a, type: team}]}"), "'a' is of type 'agent', not 'team'"),
        (
            team("{strategy: sequential, members: [{name: a, type: agnet}]}"),
            "is 'agent' or 'team', not 'agnet' (did you",
        ),
        (team("{strategy: sequential, members: [{name: x, type: agent}]}"), "there is no agent 'x'"),
        (team("{strategy: sequential, members: [{name: t, type: team}]}"), "team 't' is a member of itself: t → t"),
        (team("{strategy: round-robin, members: [{name: a, type: agent}]}"), "'round_robin' needs maxTurns, unless"),
        (team("{strategy: round-robin, maxTurns: x, members: [{name: a, type: agent}]}"), "'maxTurns' expects a whole"),
        (agent("{tools: [terminate]}"), "each tool is a mapping with 'name' and 'type'"),
        (agent("{tools: terminate}"), "'tools' expects a list"),
        (agent("{prompt: 5}"), "agent 'b': 'prompt' expects text, found the number 5"),
        (agent("{prompt: {template: x}}"), "agent 'b': 'prompt' expects text, found a mapping"),
        (agent("{modelRef: gpt}"), "'modelRef.name' is missing"),
        (agent("[]"), "Agent: 'spec' is missing"),
        (f"{HEAD}kind: Agent\nspec: {{}}\n", "Agent: 'metadata.name' is missing"),
        (f"{HEAD}kind: Agnt\nmetadata: {{name: x}}\n", "'Agnt' is not a kind of document (did you mean 'Agent'?)"),
        (f"{HEAD}metadata: {{name: x}}\n", "'kind' is missing (it is one of Agent, Team, Model, Query)"),
        (AGENT, "There is already an agent 'a'"),
        (
            f"{HEAD}kind: Query\nmetadata: {{name: q}}\nspec: {{input: x, target: {{type: team, name: a}}}}\n",
            "query 'q': 'a' is of type 'agent', not 'team'",
        ),
    ],
)
def test_mistakes_are_reported_at_their_place(tmp_path: Path, document: str, told: str) -> None:
    problem = only_problem(tmp_path, f"{AGENT}---\n{document}")
    assert told in str(problem)
    assert problem.line > 5


def test_native_documents_may_supply_tools_and_members(tmp_path: Path) -> None:
    found = ark(
        tmp_path,
        agent("{tools: [{name: search, type: mcp}]}"),
        team("{strategy: sequential, members: [{name: b, type: agent}, {name: n, type: agent}]}"),
        "tools: {search: 'm:f'}\nagents: {n: {model: local}}\n",
    )
    assert found.manifest.agents["b"].tools == ("search",)
    assert found.manifest.teams["t"].members == ("b", "n")
    assert found.warnings == ()


def test_a_sequential_team_that_loops_is_round_robin(tmp_path: Path) -> None:
    spec = "{strategy: sequential, loops: true, maxTurns: 2, members: [{name: a, type: agent}]}"
    assert ark(tmp_path, AGENT, team(spec)).manifest.teams["t"].strategy == "round_robin"


def test_a_round_robin_team_needs_no_turns_when_a_member_can_end_it(tmp_path: Path) -> None:
    spec = "{strategy: round-robin, members: [{name: b, type: agent}]}"
    found = ark(tmp_path, agent("{tools: [{name: terminate, type: built-in}]}"), team(spec))
    assert found.manifest.teams["t"].max_turns is None


def test_the_default_model_may_be_declared(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"{AGENT}---\nmodels: {{default: local, other: local}}\n")
    assert (found.manifest.agents["a"].model, found.warnings) == ("default", ())


def test_a_document_of_other_kinds_alone_is_nothing(tmp_path: Path) -> None:
    found = problems(tmp_path, "apiVersion: arc.mckinsey.com/v1alpha1\nkind: Team\n")
    assert [one.message.split(":")[0] for one in found] == ["Nothing is declared here", "Ignored"]


@pytest.mark.parametrize(
    "document",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: value}\n",
        "kind: ConfigMap\nmetadata: {name: c}\ndata: {key: value}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {5: x, a: 1, a: 2}\nbinaryData: !!binary aGk=\n",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules: [{verbs: [get]}]\n",
        "kind: Role\nmetadata: {name: r}\nrules: []\n",
    ],
)
def test_what_lies_beside_the_documents_is_a_warning(tmp_path: Path, document: str) -> None:  # R-12, M-05
    for documents in ([AGENT, document], [document, AGENT]):
        found = ark(tmp_path, *documents)
        assert list(found.manifest.agents) == ["a"]
        assert any(one.message.startswith("Ignored: ") for one in found.warnings)


def test_a_mistake_in_a_document_of_ours_beside_them_stays_one(tmp_path: Path) -> None:  # M-05
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 1, a: 2}\n"
    (problem,) = problems(tmp_path, "---\n".join([other, AGENT, agent("{prompt: x, prompt: y}")]))
    assert "'prompt' is duplicated" in problem.message


def test_a_document_of_ours_needs_its_version(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "kind: Agent\nmetadata: {name: a}\nspec: {prompt: x}\n")
    assert problem.message == "Agent: 'apiVersion' is missing"


@pytest.mark.parametrize(("turns", "calls"), [(1, 1), (3, 3), (4, 4), (5, 5)])
async def test_loops_counts_single_turns(tmp_path: Path, turns: int, calls: int) -> None:  # R-12, M-05
    members = "members: [{name: a, type: agent}, {name: b, type: agent}]"
    spec = f"{{strategy: sequential, loops: true, maxTurns: {turns}, {members}}}"
    (tmp_path / "team.yaml").write_text("---\n".join([AGENT, agent("{prompt: x}"), team(spec)]))
    (tmp_path / "r.yaml").write_text("rules: [{reply: hello, times: 99}]")
    made = load_team(tmp_path / "team.yaml", model=f"scripted:{tmp_path / 'r.yaml'}")
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(made, "task")
    assert len(result.messages) == calls
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert str(turns) in result.warnings[0]


@pytest.mark.parametrize(
    ("document", "near"),
    [
        (agent("{prompt: x, overides: {}}"), "overrides"),
        (agent("{prompt: x, paramters: []}"), "parameters"),
        (agent("{prompt: x, executionEngin: {}}"), "executionEngine"),
        (team("{strategy: sequential, members: [{name: a, type: agent}], selectr: {}}"), "selector"),
        (f"{HEAD}kind: Query\nmetadata: {{name: q}}\nspec: {{input: x, timeot: 5m}}\n", "timeout"),
        (
            team("{strategy: selector, maxTurns: 3, members: [{name: a}], selector: {enableTerminateTol: 1}}"),
            "enableTerminateTool",
        ),
    ],
)
def test_a_hint_never_names_an_unsupported_field(tmp_path: Path, document: str, near: str) -> None:  # M-10
    assert not any(near in one.suggestion for one in ark(tmp_path, AGENT, document).warnings)
