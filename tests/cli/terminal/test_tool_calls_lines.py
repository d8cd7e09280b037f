"""Tool calls in the views of a run: a line for each in every width, or whole values."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from pydantic import JsonValue
from rich.console import Console

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.cli.runs.logs import LogBook
from teamwright.cli.terminal.explanation import explain, explanation_text
from teamwright.cli.terminal.line_views import PlainLines
from teamwright.cli.terminal.live import LiveView
from teamwright.cli.terminal.tool_calls import tool_texts
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event

SECRET = "sk-proj-abcdefghijklmnop123456"
HUGE = 600_000


def weather(city: str) -> str:
    """Tell the weather."""
    return f"12° in {city}.\n\x1b[31mWind\x07: 3 m/s, token={SECRET}"


def dump() -> str:
    """Return far too much."""
    return "wide 宽 " * HUGE


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(f"the station is closed, for {why}")


RULES = [
    Rule(match="closed", reply="Mild."),
    Rule(match="tool dump", tool=ToolRule(name="fail", args={"why": "no reason"})),
    Rule(match="tool weather:", tool=ToolRule(name="dump")),
    Rule(match="wether failed", tool=ToolRule(name="weather", args={"city": "Oslo"})),
    Rule(tool=ToolRule(name="wether", args={"city": "Oslo"})),
]


async def recorded() -> tuple[MemoryJournal, list[Event]]:
    """Run a team that makes every kind of tool call."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        ada = ScriptedAgent("ada", RULES, tools=[weather, dump, fail])
        await engine.run(Team("forecast", members=[ada]), "How warm is it?", run_id="r")
    return journal, await journal.read("r")


async def test_plain_lines_show_each_call_with_its_arguments_and_its_result() -> None:
    journal, events = await recorded()
    lines: list[str] = []
    view = PlainLines(journal, lines.append)
    for event in events:
        await view.show(event)
    said = [" ".join(line.split()) for line in lines if "tool" in line or "⚙" in line]
    rejected = "ada ! the tool wether was not called: There is no tool 'wether' here; did you mean 'weather'?"
    assert said[0] == f'{rejected} ({{"city": "Oslo"}})'
    assert said[1].startswith('ada ⚙ weather {"city": "Oslo"} → 12° in Oslo. Wind: 3 m/s, token=[redacted] ')
    assert "(3 111 112 characters)" in said[2]
    assert said[3].startswith('ada ! fail {"why": "no reason"}: tool call failed: The tool \'fail\' failed: ValueError')
    assert all(len(line) < 300 for line in lines)


async def test_whole_values_are_below_their_call() -> None:
    journal, events = await recorded()
    lines: list[str] = []
    view = PlainLines(journal, lines.append, full=True)
    for event in events:
        await view.show(event)
    call = next(line for line in lines if "⚙ weather" in line).splitlines()
    assert [line.strip() for line in call[1:]] == [
        '{"city": "Oslo"}',
        "→ 12° in Oslo.",
        "Wind: 3 m/s, token=[redacted]",
    ]
    assert max(map(len, lines)) > 3_000_000


@pytest.mark.parametrize("width", [12, 40, 200])
async def test_the_live_view_folds_a_call_to_one_line_of_the_terminal(width: int) -> None:
    journal, events = await recorded()
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=True, color_system=None)
    view = LiveView(journal, console)
    for event in events:
        await view.show(event)
    view.close()
    file = console.file
    assert isinstance(file, io.StringIO)
    shown = [line.rpartition("\x1b[2K")[2] for line in file.getvalue().splitlines()]
    calls = [line for line in shown if line.startswith("ada ⚙ ")]
    assert len(calls) == 2
    assert all(Console().measure(line).maximum <= width for line in calls)


async def test_an_explanation_and_the_log_show_arguments_and_results() -> None:
    journal, events = await recorded()
    async with Engine(journal) as engine:
        history, result = await engine.runs.history("r"), await engine.runs.result("r")
    for full in (False, True):
        tools = await tool_texts(journal, events, full=full)
        story = explanation_text(explain(history, result, tools=tools), full=full)
        book = LogBook(journal, full=full)
        log = "\n".join([line.text for event in events if (line := await book.line(event))])
        for text in (story, log):
            assert 'calls the tool weather: {"city": "Oslo"}' in text
            assert ("12° in Oslo. Wind" in text) is not full
            assert "(3 111 112 characters)" in text or full
            assert SECRET not in text
            assert "\x1b" not in story
    tools = await tool_texts(journal, events, full=False)
    entries = [entry.to_json() for entry in explain(history, result, tools=tools).entries]
    results = [entry["result"] for entry in entries if "result" in entry]
    assert results == [texts["result"] for texts in tools.values() if "result" in texts]
    assert len(results) == 2


class Shop(ToolSource):
    """Stands in for an MCP server, which lists a tool."""

    kind, name, spec = "mcp", "shop", None

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        tools: list[JsonValue] = [{"name": "count", "description": "Count.", "parameters": {}}]

        async def call(_: Attempt) -> Returned:
            return Returned(tools)

        await ctx.effect("tools-shop", Effect(kind="tool", name="shop", request="", call=call, method="tools/list"))
        return [ToolDefinition("count", "Count.", {"type": "object"})]

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        return 3


async def asked() -> tuple[Engine, list[Event]]:
    """Run a writer that asks a researcher as a tool, who uses an MCP server."""
    engine = Engine("memory")
    finds = [Rule(match="tool count", reply="Tea is old.\nVery old."), Rule(tool=ToolRule(name="count"))]
    writes = [
        Rule(match="tool researcher", reply="An essay."),
        Rule(tool=ToolRule(name="researcher", args={"task": "What is tea?"})),
    ]
    researcher = ScriptedAgent("researcher", finds, tools=[Shop()])
    writer = ScriptedAgent("writer", writes, tools=[researcher])
    async with engine:
        await engine.run(Team("tea", members=[writer]), "Write about tea.", run_id="r")
        return engine, await engine.journal.read("r")


async def test_an_agent_that_is_asked_as_a_tool_and_the_requests_to_a_server_have_lines_of_their_own() -> None:  # L-S-6
    engine, events = await asked()
    lines: list[str] = []
    view = PlainLines(engine.journal, lines.append)
    for event in events:
        await view.show(event)
    said = [re.sub(r" +[\d.]+ s$| +\d+ tok .*", "", line) for line in lines]
    assert said == [
        "tea  sequential of writer",
        "writer      ⚙ asks researcher: What is tea?",
        "  researcher  ⚙ lists the tools of shop → count",
        "  researcher  ⚙ count → 3",
        "  researcher  ▸ Tea is old. …",
        "writer      ▸ An essay.",
    ]


async def test_the_live_view_shows_whom_a_member_asks() -> None:
    engine, events = await asked()
    shown = io.StringIO()
    view = LiveView(engine.journal, Console(file=shown, width=100, force_terminal=False))
    for event in events:
        await view.show(event)
    view.close()
    assert "writer ⚙ asks researcher: What is tea?" in shown.getvalue()
    assert "  researcher ⚙ lists the tools of shop → count" in shown.getvalue()


async def test_a_story_and_a_log_show_whom_a_member_asks_as_a_tool() -> None:  # L-S-6
    engine, events = await asked()
    book = LogBook(engine.journal)
    logged = [" ".join(line.to_text().split()[3:]) for event in events if (line := await book.line(event))]
    assert "writer > researcher is asked: What is tea?" in logged
    assert "writer > researcher lists the tools of shop" in logged
    async with Engine(engine.journal) as again:
        history, result = await again.runs.history("r"), await again.runs.result("r")
    story = explanation_text(explain(history, result, tools=await tool_texts(engine.journal, events, full=False)))
    assert "writer · asks researcher: What is tea?" in story
    assert "shop returned: count\n" in story
