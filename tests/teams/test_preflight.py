"""Before anything runs: models that are not known, extras and keys that are missing."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from teamwright import Engine
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import ManifestError, UsageError
from teamwright.teams.preflight import check_ready
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.testing.model_server import ModelServer
from teamwright.values.limits import Limits
from teamwright.values.specs.models import NamedModel, ServerModel
from teamwright.values.specs.tools import McpSpec, McpTool

FORMS = "write provider:name, local or scripted:FILE, or declare it under 'models'"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


async def lacking(*members: Any) -> list[str]:
    async with Models() as models:
        with pytest.raises(ManifestError) as raised:
            await check_ready(Team("t", members=members), models)
    return [one.message for one in raised.value.problems]


CLUSTER = """\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {prompt: Help., modelRef: {name: gpt}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: t}
spec: {members: [{name: helper, type: agent}], strategy: sequential}
"""
"""An agent whose model no file declares."""


async def test_everything_that_is_missing_is_reported_at_once_with_the_agents() -> None:
    found = await lacking(
        ScriptedAgent("a", [Rule(reply="x")]),
        ModelAgent("b", model="openai:gpt-5"),
        Team("inner", members=[ModelAgent("c", model="test2"), ModelAgent("d", model=NamedModel(model="test2"))]),
        ModelAgent("e", model="default"),
        ModelAgent("f", model="local:/no/such.gguf", economy="openai:gpt-5"),
    )
    assert found == [
        "agents 'b', 'f': The model 'openai:gpt-5' can't be used: set OPENAI_API_KEY in the environment",
        f"agents 'c', 'd': The model 'test2' can't be used: nothing declares it; {FORMS}",
        f"agent 'e': The model 'default' can't be used: nothing declares it; {FORMS}",
        "agent 'f': The local model '/no/such.gguf' can't be read (No such file or directory); name a GGUF file.",
    ]


async def test_a_run_of_a_team_made_in_python_does_not_start_with_a_name_that_is_no_model() -> None:
    members = [ModelAgent("a", model="openai"), ModelAgent("b", model="local", economy=NamedModel(model="gpt-5"))]
    async with Engine("memory") as engine:
        with pytest.raises(ManifestError) as raised:
            await engine.run(Team("t", members=members), "go", run_id="r")
        assert [one.message for one in raised.value.problems] == [
            "the agent 'a': 'openai' is a provider without a model; write  openai:NAME",
            "the agent 'b': 'gpt-5' is not a model; write provider:name, local or local:FILE",
        ]
        assert await engine.runs.list() == []


async def test_a_run_of_a_loaded_team_does_not_start_with_a_model_that_only_a_cluster_knows(tmp_path: Path) -> None:
    (tmp_path / "ark.yaml").write_text(CLUSTER, encoding="utf-8")
    team = load_team(tmp_path / "ark.yaml")
    async with Engine("memory") as engine:
        with pytest.raises(ManifestError, match="the agent 'helper': 'gpt' is not a model"):
            await engine.run(team, "go")
        assert await engine.runs.list() == []


async def test_a_model_of_the_callers_own_may_have_any_name() -> None:
    own = TestModel(custom_output_text="fine", model_name="gpt-5")
    async with Engine("memory") as engine:
        assert (await engine.run(ModelAgent("a", model=own), "go")).output == "fine"


async def test_a_fallback_is_checked_too() -> None:
    with ModelServer() as server:
        fine = ServerModel(url=server.url, name="tiny")
        for name in ("a", "other"):
            agent = ModelAgent("a", model=fine, fallback=ModelAgent(name, model="openai:gpt-5"))
            assert len(await lacking(agent)) == 1
        assert not server.requests


async def test_a_missing_extra_is_reported_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        return None

    for place in ("clients.providers", "tools.mcp_source"):
        monkeypatch.setattr(f"teamwright.agents.{place}.find_spec", find)
    server = McpSpec(mcp=McpTool(url="http://127.0.0.1:1/"))
    found = await lacking(
        ModelAgent("a", model="anthropic:x"),
        ModelAgent("b", model=ServerModel(url="http://127.0.0.1:1/v1", name="tiny")),
        ScriptedAgent("c", [Rule(reply="x")], tools=[("far", server)]),
    )
    assert [one.rpartition("[")[2] for one in found] == ["anthropic]'", "models]'", "mcp]'"]
    assert "agent 'c': The MCP server 'far'" in found[2]


async def test_a_team_that_can_answer_is_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with Models() as models:
        await check_ready(Team("t", members=[ModelAgent("b", model="openai:gpt-5")]), models)


async def test_a_model_in_place_of_every_one_is_in_place_of_the_cheap_one_too(tmp_path: Path) -> None:
    spec = "{model: 'openai:a', economy: cheap, stronger: cheap}"
    (tmp_path / "team.yaml").write_text(f"agents: {{a: {spec}}}\nmodels: {{cheap: 'openai:b'}}")
    team = load_team(tmp_path / "team.yaml", model="local")
    assert isinstance(agent := team.members[0], ModelAgent)
    assert (agent.model, agent.policy.economy, agent.policy.stronger) == ("local", None, None)


def test_the_models_of_other_tiers_have_defaults_by_their_names(tmp_path: Path) -> None:
    models = "{economy: 'openai:small', stronger: 'openai:large'}"
    agents = "{a: {model: 'openai:x'}, b: {model: 'openai:large', stronger: 'openai:huge'}, c: {model: 'openai:large'}}"
    (tmp_path / "team.yaml").write_text(f"models: {models}\nagents: {agents}\nteams: {{t: {{members: [a, b, c]}}}}")
    found = [member.policy for member in load_team(tmp_path / "team.yaml").members]
    assert [one.economy for one in found] == ["openai:small"] * 3
    assert [one.stronger for one in found] == ["openai:large", "openai:huge", None]


def test_a_limit_that_is_set_beside_the_policy_is_refused_and_not_ignored() -> None:
    team = Team("t", members=[FunctionAgent("a", lambda _: "x")])
    setattr(team, "limits", Limits(calls=1))  # noqa: B010 - a type checker refuses the plain form
    with pytest.raises(UsageError, match=r"'t' has an attribute 'limits', which has no effect; set {2}policy="):
        team.check_start()
