"""A run as lines of JSON: events with the texts of tool calls, and pieces of responses with no half of a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.cli.terminal.line_views import EventLines
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCallFailed
from teamwright.values.events.event import ArgumentsDelta, Delta, Event, ThinkingDelta
from tests.cli.terminal.test_tool_calls_lines import recorded


async def test_lines_of_json_have_the_texts_of_tool_calls(capsys: pytest.CaptureFixture[str]) -> None:
    journal, events = await recorded()
    for full in (False, True):
        view = EventLines(journal, full=full)
        for event in events:
            await view.show(event)
        lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        texts = [one["texts"] for one in lines if "texts" in one and "tool-" in one["key"]]
        assert texts[0] == {"arguments": {"city": "Oslo"}}
        assert texts[2]["result"].endswith("token=[redacted]")
        assert (len(texts[4]["result"]) > 3_000_000) is full
        tasks = [one for one in lines if one["kind"] == "agent.asked" and "texts" in one]
        assert bool(tasks) is full, "other events have texts only if they are asked for whole"


async def test_deltas_are_lines_of_json_of_their_own_kind(capsys: pytest.CaptureFixture[str]) -> None:
    view = EventLines(MemoryJournal())
    said = Delta(run_id="r", key="t/step-1", member="ada", attempt=1, offset=0, text="The key is sk-proj-abcdef")
    await view.show(ThinkingDelta(run_id="r", key=said.key, member="ada", attempt=1, offset=0, text="Let me see"))
    await view.show(
        ArgumentsDelta(run_id="r", key=said.key, member="ada", attempt=1, offset=0, text="{}", tool="weather", call=1)
    )
    await view.show(said)
    await view.show(said.changed(offset=25, text="ghijklmnop123456 indeed", steps=("step 1: look",)))
    await view.show(Event("r", 9, 1.0, said.key, "request-1", AgentCallFailed(error="server", message="It broke.")))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    deltas = [(one["kind"], one["offset"], one["text"]) for one in lines if one["domain"] == "delta"]
    assert [one for one in deltas if one[0] == "delta.text"] == [
        ("delta.text", 0, "The key is "),
        ("delta.text", 11, "[redacted] "),
        ("delta.text", 22, "indeed"),
    ]
    assert "".join(text for kind, _, text in deltas if kind == "delta.thinking") == "Let me see"
    assert [one["steps"] for one in lines if one.get("steps")] == [["step 1: look"]], "once, also at the end"
    tools = [one["tool"] for one in lines if one["kind"] == "delta.arguments"]
    assert set(tools) == {"weather"}
