"""Manifests become agents and teams, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import ScriptedAgent
from teamwright.errors import ManifestError, NotResumable, UnknownName, UsageError
from teamwright.teams.builder import Builder, replace_models
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.models import NamedModel, ServerModel

FUNCTION = "tests.agents.sample_functions:shout"


def manifest(**parts: Any) -> Manifest:
    return Manifest.model_validate(parts)


def test_each_agent_is_built_once_by_name() -> None:
    declared = manifest(
        agents={"a": {"function": FUNCTION}},
        teams={"inner": {"members": ["a"]}, "outer": {"members": ["inner", "a", "a"]}},
    )
    outer = Builder(declared).team("outer")
    inner = outer.members[0]
    assert isinstance(inner, Team)
    assert inner.members[0] is outer.members[1] is outer.members[2]


@pytest.mark.usefixtures("third_parties")
def test_a_team_gets_all_that_is_declared() -> None:
    declared = manifest(
        agents={"a": {"function": FUNCTION}, "h": {"function": FUNCTION}},
        teams={
            "t": {
                "description": "d", "strategy": "relay-race", "members": ["a"], "share": "output", "max_turns": 2,
                "on_max_turns": "fail", "limits": {"calls": 3}, "output_schema": {"type": "object"},
                "options": {"legs": [], "coaches": ["h", "a", "h"]}, "optional": True,
            }
        },
    )  # fmt: skip
    team = Builder(declared).team()
    assert team.spec == declared.teams["t"].model_copy(update={"strategy": "relay_race"})
    assert [helper.name for helper in team.helpers] == ["h"]


@pytest.mark.usefixtures("third_parties")
def test_a_team_that_helps_another_is_not_the_one_meant() -> None:
    declared = manifest(
        agents={"a": {"function": FUNCTION}},
        teams={
            "coach": {"members": ["a"]},
            "race": {"members": ["a"], "strategy": "relay_race", "options": {"legs": [], "coaches": ["coach"]}},
        },
    )
    team = Builder(declared).team()
    assert team.name == "race"
    assert team.helpers[0].kind == "team"
    assert team.source.manifest.teams.keys() == {"race", "coach"}


def test_an_agent_gets_all_that_is_declared() -> None:  # P-01
    common: dict[str, Any] = {
        "description": "d", "capabilities": ["c"], "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "timeout": 3.0, "retry": {"times": 1, "backoff": 0.0}, "limits": {"calls": 3}, "critical": True,
    }  # fmt: skip
    declared = manifest(
        models={"main": {"url": "http://127.0.0.1:1/v1", "name": "tiny"}},
        agents={
            "m": {
                **common,
                "model": "main",
                "settings": {"temperature": 0.0},
                "max_tokens": 9,
                "tools": ["terminate"],
                "instructions": "i",
            },
            "f": {**common, "function": FUNCTION, "isolate": "process"},
        },
        teams={"t": {"members": ["m", "f"]}},
    )
    model, function = Builder(declared).team("t").members
    assert isinstance(model, ModelAgent)
    assert isinstance(function, FunctionAgent)
    assert model.model == ServerModel(url="http://127.0.0.1:1/v1", name="tiny")
    assert (model.settings, model.max_tokens, model.timeout, model.instructions) == ({"temperature": 0.0}, 9, 3.0, "i")
    assert model.policy.retry == RetryPolicy(times=1, backoff=0.0)
    assert (model.policy.can_terminate, model.policy.critical, model.policy.optional) == (True, True, False)
    assert function.spec.model_dump(exclude_defaults=True) == declared.agents["f"].model_dump(exclude_defaults=True)


def test_which_team_is_meant() -> None:
    agents = {"a": {"function": FUNCTION}}
    nested = manifest(agents=agents, teams={"in": {"members": ["a"]}, "out": {"members": ["in"]}})
    assert Builder(nested).team_name() == "out"
    assert Builder(nested).team_name("in") == "in"
    assert Builder(manifest(agents=agents)).team().name == "a"
    two = manifest(agents=agents, teams={"one": {"members": ["a"]}, "two": {"members": ["a"]}})
    with pytest.raises(UsageError, match="declares one, two; choose one with --team"):
        Builder(two).team_name()
    with pytest.raises(UnknownName, match="no team 'tow'; did you mean 'two'"):
        Builder(two).team_name("tow")


def test_an_unknown_member_is_reported_with_the_nearest() -> None:
    declared = manifest(agents={"writer": {"function": FUNCTION}}, teams={"t": {"members": ["writr"]}})
    with pytest.raises(UnknownName, match="'writr'; did you mean 'writer'"):
        Builder(declared).team()


def test_an_agent_that_was_made_in_python_is_reported_as_such() -> None:
    with pytest.raises(NotResumable, match="'a' was created in Python"):
        Builder(manifest(agents={"a": {}})).team("a")


def test_scripts_lie_beside_the_manifest_and_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("- reply: x")
    declared = manifest(
        agents={"a": {"model": "scripted:replies.yaml"}, "b": {"model": "scripted:replies.yaml"}},
        teams={"t": {"members": ["a", "b"]}},
    )
    one, two = Builder(declared, tmp_path).team().members
    assert isinstance(one, ScriptedAgent)
    assert isinstance(two, ScriptedAgent)
    assert one.script is two.script


def test_a_script_takes_the_place_of_a_model_with_all_else_as_declared(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("- reply: x")
    schema = {"type": "object"}
    declared = manifest(
        models={"main": "openai:gpt-5-mini"},
        agents={
            "m": {
                "model": "main", "tools": ["terminate", FUNCTION], "input_schema": schema, "output_schema": schema,
                "max_tokens": 7, "timeout": 2.0, "retry": {"times": 0}, "limits": {"calls": 2},
                "capabilities": ["c"], "optional": True,
            }
        },
    )  # fmt: skip
    replaced = replace_models(declared, f"scripted:{tmp_path / 'replies.yaml'}")
    (agent,) = Builder(replaced).team("m").members
    assert isinstance(agent, ScriptedAgent)
    spec = agent.spec
    assert (spec.tools, spec.input_schema, spec.output_schema) == (("terminate", FUNCTION), schema, schema)
    assert (spec.max_tokens, spec.timeout, spec.retry.times, spec.limits) == (7, 2.0, 0, Limits(calls=2))
    assert agent.policy.can_terminate
    assert (agent.policy.optional, spec.optional) == (True, True)


def test_replacing_models_leaves_functions_alone() -> None:
    declared = manifest(agents={"f": {"function": FUNCTION}, "s": {"model": "scripted:x.yaml"}}, models={"main": "a:b"})
    replaced = replace_models(declared, "openai:other")
    assert replaced.agents["f"] == declared.agents["f"]
    assert replaced.agents["s"].model == "openai:other"
    with pytest.raises(ManifestError, match="empty"):
        replace_models(declared, "  ")


def test_agents_of_one_model_share_what_is_declared_of_it() -> None:  # P-13
    declared = manifest(
        models={"primary": {"model": "openai:gpt-5-mini", "max_parallel": 8}},
        agents={"a": {"model": "primary"}, "b": {"model": "primary"}, "c": {"model": "openai:gpt-5-mini"}},
        teams={"t": {"members": ["a", "b", "c"]}},
    )
    first, second, third = Builder(declared).team("t").members
    assert isinstance(first, ModelAgent)
    assert isinstance(second, ModelAgent)
    assert isinstance(third, ModelAgent)
    assert first.model is second.model
    assert first.model == NamedModel(model="openai:gpt-5-mini", max_parallel=8)
    assert third.model == "openai:gpt-5-mini"
    assert first.spec.model == first.model
    assert "gpt-5-mini'" in repr(first)
