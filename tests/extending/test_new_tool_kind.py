"""A kind of tool from outside the package: what one module adds, in Python and as a kind that manifests know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import Confirm, Engine, ModelAgent, Rule, RunResult, ScriptedAgent, Team, load_team
from teamwright.agents import ServerModel, ToolRule, ToolSource
from teamwright.errors import DuplicateName, ManifestError, UsageError
from teamwright.journal import MemoryJournal
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say, ToolCall, ToolSourceConformance
from tests.extending.almanac import AlmanacSource, asked
from tests.kit.entry_points import registered_tools
from tests.kit.records import cut_and_resume


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
        ScriptedAgent("a", RULES, tools=[AlmanacSource()], confirm=Confirm(tools=("forcast",)))
    ScriptedAgent("a", RULES, tools=[AlmanacSource()], confirm=Confirm(tools=("almanac",)))
    with pytest.raises(UsageError, match="'almanac' has a name of its own; pass it without 'mine'"):
        ScriptedAgent("a", RULES, tools=[("mine", AlmanacSource())])  # type: ignore[list-item]


def test_a_source_without_a_declaration_is_recorded_as_one_that_cannot_be_rebuilt() -> None:
    agent = ScriptedAgent("a", RULES, tools=[AlmanacSource(), "terminate"])
    made, built_in = agent.spec.tools
    assert built_in == "terminate"
    assert not isinstance(made, str)
    assert made.model_dump(exclude_defaults=True) == {"function": "<created in Python>", "name": "almanac"}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with registered_tools(monkeypatch, almanac="tests.extending.almanac:AlmanacKind"):
        yield


def write(folder: Path, tools: str, more: str = "") -> Path:
    (folder / "replies.yaml").write_text(
        "rules:\n"
        '  - {match: "# tool forecast:\\nsun", reply: The sun will shine.}\n'
        "  - {tool: {name: forecast, args: {city: Bergen}}, times: 1}\n"
    )
    file = folder / "team.yaml"
    file.write_text(
        f"agents: {{a: {{model: scripted:replies.yaml, tools: {tools}}}}}\nteams: {{t: {{members: [a]}}}}\n{more}"
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
