"""A kind of tool from outside the package: what one module adds, in Python and as a kind that manifests know."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel, Field, JsonValue

from teamwright import Engine, ModelAgent, RunResult, ScriptedAgent, Team, load_team
from teamwright.agents import (
    Approve,
    BuildOptions,
    Context,
    Rule,
    ServerModel,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolRule,
    ToolSource,
)
from teamwright.agents.functions.import_guard import code_not_loaded
from teamwright.agents.tools import registry
from teamwright.agents.tools.protocol import Arguments
from teamwright.errors import DuplicateName, ManifestError, ToolError, UsageError
from teamwright.journal import MemoryJournal
from teamwright.manifests import schema
from teamwright.manifests.code_references import code_in
from teamwright.teams.builder import Builder
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say, ToolCall, ToolSourceConformance
from teamwright.values.specs.manifest import CustomTool, Manifest
from tests.kit.records import cut_and_resume

CITY: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
asked: list[str] = []


class Almanac(BaseModel):
    """The settings of the kind."""

    weather: str = Field(default="rain", description="what it always says")


class AlmanacSource(ToolSource):
    """Two tools that know the weather."""

    kind = "almanac"
    tool_names = ("forecast", "season")

    def __init__(self, settings: Almanac | None = None, name: str = "almanac", spec: CustomTool | None = None) -> None:
        self.name, self.spec = name, spec
        self._settings = settings or Almanac()

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition("forecast", "Tell tomorrow's weather in a city.", CITY),
            ToolDefinition("season", "Tell the season.", {"type": "object", "properties": {}}),
        ]

    def validate(self, name: str, arguments: Arguments) -> None:
        if name == "forecast" and not isinstance(arguments.get("city"), str):
            raise ToolError("Name a city.")

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        asked.append(context.idempotency_key)
        return self._settings.weather if name == "forecast" else "autumn"


class AlmanacKind(ToolKind[Almanac]):
    """`{almanac: {weather: …}}` in a manifest."""

    name = "almanac"
    model = Almanac

    def build(self, settings: Almanac, options: BuildOptions) -> ToolSource:
        return AlmanacSource(settings, options.name or self.name, cast("CustomTool", options.spec))

    def code(self, settings: Almanac) -> Iterable[tuple[str, str]]:
        raise AssertionError("code that is only told of is not loaded")


class TestAlmanac(ToolSourceConformance):
    calls = (("forecast", {"city": "Bergen"}), ("season", {}))

    def make(self) -> ToolSource:
        return AlmanacSource()


RULES = (
    Rule(match="# tool forecast:\nrain", reply="It will rain."),
    Rule(match="# tool forecast:\nsun", reply="The sun will shine."),
    Rule(tool=ToolRule(name="forecast", args={"city": "Bergen"}), times=1),
)


@pytest.fixture(autouse=True)
def _nobody_asked() -> None:
    asked.clear()


async def ran(team: Team, journal: MemoryJournal) -> RunResult:
    async with Engine(journal) as engine:
        return await engine.run(team, "go", run_id="r")


async def test_a_custom_source_is_called_once_however_often_its_run_is_resumed() -> None:
    journal = MemoryJournal()
    team = Team("t", members=[ScriptedAgent("a", RULES, tools=[AlmanacSource()])])
    result = await ran(team, journal)
    assert (result.output, result.usage.tool_calls, len(asked)) == ("It will rain.", 1, 1)
    events = await journal.read("r")
    called = next(at for at, event in enumerate(events, 1) if event.kind == "agent.returned" and "tool-" in event.key)
    for at in range(1, len(events)):
        asked.clear()
        again, _ = await cut_and_resume(team, at, journal)
        assert again.output == result.output
        assert len(asked) == (0 if at >= called else 1)


async def test_a_model_is_offered_a_custom_source() -> None:
    def answer(request: ChatRequest) -> CallTools | Say:
        told = any(message.role == "tool" for message in request.messages)
        return Say(text="Done.") if told else CallTools(calls=(ToolCall(name="season", args={}, id="s"),))

    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="m")
        result = await ran(Team("t", members=[ModelAgent("a", model=model, tools=[AlmanacSource()])]), MemoryJournal())
        assert result.output == "Done."
        assert "Tell tomorrow's weather" in repr(server.requests[0])
    assert len(asked) == 1


def test_names_and_approvals_are_checked_as_with_any_tool() -> None:
    def forecast(city: str) -> str:
        """Guess."""
        return city

    with pytest.raises(DuplicateName, match="forecast"):
        ScriptedAgent("a", RULES, tools=[AlmanacSource(), forecast])
    with pytest.raises(DuplicateName, match="almanac"):
        ScriptedAgent("a", RULES, tools=[AlmanacSource(), AlmanacSource()])
    with pytest.raises(UsageError, match="has no tool 'forcast' to approve; did you mean 'forecast'"):
        ScriptedAgent("a", RULES, tools=[AlmanacSource()], approve=Approve(tools=("forcast",)))
    ScriptedAgent("a", RULES, tools=[AlmanacSource()], approve=Approve(tools=("almanac",)))
    with pytest.raises(UsageError, match="'almanac' has a name of its own; pass it without 'mine'"):
        ScriptedAgent("a", RULES, tools=[("mine", AlmanacSource())])  # type: ignore[list-item]


def test_a_source_without_a_declaration_is_left_out_of_the_record() -> None:
    agent = ScriptedAgent("a", RULES, tools=[AlmanacSource(), "terminate"])
    assert agent.spec.tools == ("terminate",)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kind as an installed package registers it."""
    point = EntryPoint("almanac", "tests.extending.test_new_tool_kind:AlmanacKind", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    for cached in (registry._entry_points, registry._load, schema._schema):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (registry._entry_points, registry._load, schema._schema):
        cached.cache_clear()


def write(folder: Path, tools: str, more: str = "") -> Path:
    (folder / "replies.yaml").write_text(
        "rules:\n"
        '  - {match: "# tool forecast:\\nsun", reply: The sun will shine.}\n'
        "  - {tool: {name: forecast, args: {city: Bergen}}, times: 1}\n"
    )
    file = folder / "team.yaml"
    file.write_text(
        f"agents: {{a: {{scripted: replies.yaml, tools: {tools}}}}}\nteams: {{t: {{members: [a]}}}}\n{more}"
    )
    return file


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("tools", "more"),
    [("[{almanac: {weather: sun}}]", ""), ("[sky]", "tools: {sky: {almanac: {weather: sun}}}")],
)
async def test_a_manifest_names_a_kind_that_is_registered(tmp_path: Path, tools: str, more: str) -> None:
    team, journal = load_team(write(tmp_path, tools, more)), MemoryJournal()
    result = await ran(team, journal)
    assert (result.output, len(asked)) == ("The sun will shine.", 1)
    async with Engine(journal) as engine:
        forked = await engine.fork("r", at=1)
    assert forked.output == result.output


@pytest.mark.usefixtures("registered")
def test_mistakes_in_its_settings_are_reported_at_their_place(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as raised:
        load_team(write(tmp_path, "[{almanac: {weather: 3}}, {almanack: {}}]"))
    told = [str(one) for one in raised.value.problems]
    assert any("agent 'a': weather: expects text, found the number 3" in one for one in told), told
    assert any("'almanack' is not a field here" in one for one in told), told


@pytest.mark.usefixtures("registered")
def test_the_schema_for_editors_knows_its_settings() -> None:
    found = cast("dict[str, dict[str, dict[str, JsonValue]]]", schema.manifest_schema()["$defs"])["tool.almanac"]
    assert "what it always says" in json.dumps(found)


@pytest.mark.usefixtures("registered")
def test_where_no_code_is_loaded_it_is_reported_and_not_imported() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"almanac": {"weather": 3}}]}}})
    assert [str(one) for one in code_in(manifest)] == ["tool 'almanac' of agent 'a'"]
    with code_not_loaded():
        (member,) = Builder(manifest).team("a").members
    (source,) = cast("ModelAgent", member).toolbox.sources
    assert isinstance(source, registry.UnloadedSource)


def test_an_unregistered_kind_is_reported_with_the_nearest() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"mpc": {"url": "http://x"}}]}}})
    with pytest.raises(UsageError, match=r"mpc.*did you mean 'mcp'"):
        Builder(manifest).team("a")
