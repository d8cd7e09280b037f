"""Kinds of tools that packages register: the schema for editors, code that is not loaded, and unknown names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from teamwright import Engine, ModelAgent, ScriptedAgent, load_team
from teamwright.agents.functions.imports import code_not_loaded
from teamwright.agents.scripted import Script
from teamwright.agents.tools.python import PythonTool, tool
from teamwright.agents.tools.registry import ToolLike, UnloadedSource
from teamwright.errors import ManifestError, NotResumable, UsageError
from teamwright.teams.builder import Builder
from teamwright.teams.manifests.code_references import code_in
from teamwright.teams.manifests.schema import manifest_schema
from teamwright.teams.team_loader import team_from_source
from teamwright.values.specs.manifest import Manifest
from tests.kit.entry_points import registered_tools


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with registered_tools(monkeypatch, almanac="tests.extending.almanac:AlmanacKind"):
        yield


@pytest.mark.usefixtures("registered")
def test_the_schema_for_editors_knows_its_settings() -> None:
    found = cast("dict[str, dict[str, dict[str, JsonValue]]]", manifest_schema()["$defs"])["tool.almanac"]
    assert "what it always says" in json.dumps(found)


@pytest.mark.usefixtures("registered")
def test_where_no_code_is_loaded_it_is_reported_and_not_imported() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"almanac": {"weather": 3}}]}}})
    assert [str(one) for one in code_in(manifest)] == ["tool 'almanac' of agent 'a'"]
    with code_not_loaded():
        (member,) = Builder(manifest).team("a").members
    (source,) = cast("ModelAgent", member).toolbox.sources
    assert isinstance(source, UnloadedSource)


def test_an_unregistered_kind_is_reported_with_the_nearest() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"mpc": {"url": "http://x"}}]}}})
    with pytest.raises(UsageError, match=r"mpc.*did you mean 'mcp'"):
        Builder(manifest).team("a")


def look_up(article: str) -> str:
    """Look up an article."""
    return f"{article}: 3"


REPLIES = """\
rules:
  - {agent: clerk, times: 1, tool: {name: stock, args: {article: lamp}}}
  - {agent: clerk, reply: Done.}
"""


def clerk(folder: Path, stock: ToolLike) -> ScriptedAgent:
    """An agent that the record can rebuild, if its tool can be rebuilt."""
    path = folder / "replies.yaml"
    path.write_text(REPLIES, encoding="utf-8")
    return ScriptedAgent("clerk", Script.load(path), source=str(path), tools=[stock])


def closure(folder: Path) -> ToolLike:
    def stock(article: str) -> str:
        """Look up an article."""
        return f"{folder}: {article}"

    return stock


@pytest.mark.parametrize("settings", [False, True])
async def test_a_tool_that_the_record_cannot_rebuild_is_refused_by_its_name(tmp_path: Path, settings: bool) -> None:
    inner = closure(tmp_path)
    assert callable(inner)
    agent = clerk(tmp_path, tool(inner, timeout=3) if settings else inner)
    async with Engine("memory") as engine:
        assert (await engine.run(agent, "Look.", run_id="r")).status == "completed"
        with pytest.raises(NotResumable, match="The tool 'stock' can't be rebuilt from the record"):
            await engine.fork("r", at=2)
        assert (await engine.fork("r", at=2, team=agent)).status == "completed"


@pytest.mark.parametrize(
    "stock",
    [tool(look_up, name="stock"), ("stock", look_up), tool(look_up, name="stock", timeout=3, once=["article"])],
    ids=["tool", "pair", "settings"],
)
async def test_a_tool_keeps_its_name_and_settings_when_its_run_is_resumed(tmp_path: Path, stock: ToolLike) -> None:
    agent = clerk(tmp_path, stock)
    async with Engine("memory") as engine:
        await engine.run(agent, "Look.", run_id="r")
        assert (await engine.fork("r", at=2)).status == "completed"
        rebuilt = team_from_source((await engine.runs.history("r")).record.source(), recorded=True)
    (member,) = rebuilt.members
    assert isinstance(member, ScriptedAgent)
    assert member.toolbox.specs == agent.toolbox.specs
    before, after = (one.toolbox.sources[0] for one in (agent, member))
    assert isinstance(before, PythonTool)
    assert isinstance(after, PythonTool)
    assert (after.name, after.policy.timeout) == ("stock", before.policy.timeout)
    assert (after.policy.once is None) == (before.policy.once is None)


def test_settings_of_a_tool_in_a_manifest_are_checked_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        """\
agents:
  clerk:
    model: openai:gpt-5-mini
    tools: [stock, {function: "tests.agents.tools.test_registry:look_up", timeout: 0}]
tools:
  stock: {function: "tests.agents.tools.test_registry:look_up", once: [article], retry: 2}
""",
        encoding="utf-8",
    )
    with pytest.raises(ManifestError) as raised:
        load_team(tmp_path / "team.yaml")
    text = str(raised.value)
    assert "team.yaml:4:" in text
    assert "must be more than 0" in text
    assert "team.yaml:6:" in text
    assert "add  check  or  idempotent: true" in text
