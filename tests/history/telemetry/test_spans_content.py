from __future__ import annotations

import json

from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.otlp import encode
from teamwright.history.telemetry.run_spans import spans_of
from teamwright.history.telemetry.spans import LONGEST_TEXT, Span, bodies_needed, with_content
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcd"


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} is {KEY} and \ud800 odd"


async def exported(*, content: bool) -> dict[str, Span]:
    rules = (
        Rule.model_validate({"tool": {"name": "lookup", "args": {"word": f"token={KEY}"}}, "times": 1}),
        Rule.model_validate({"reply": f"found {KEY} " + "long " * LONGEST_TEXT}),
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        team = Team("t", members=[ScriptedAgent("a", rules, tools=[lookup])])
        await engine.run(team, f"What is {KEY}?", run_id="r")
    spans = spans_of(await journal.read("r"))
    if content:
        spans = with_content(spans, RecordedBodies(await journal.bodies(bodies_needed(spans))))
    assert encode(spans)
    return {one.name: one for one in spans}


async def test_without_content_nothing_that_was_said_leaves() -> None:
    body = encode((await exported(content=False)).values())
    for said in (b"What is", b"found", b"long", b"word", KEY.encode()):
        assert said not in body


async def test_with_content_it_is_masked_and_bounded() -> None:
    spans = await exported(content=True)
    body = encode(spans.values())
    assert KEY.encode() not in body
    tool = spans["execute_tool lookup"].attributes
    assert "token=" in str(tool[names.TOOL_ARGUMENTS])
    assert " is " in str(tool[names.TOOL_RESULT])
    asked = json.loads(str(spans["invoke_agent a"].attributes[names.INPUT_MESSAGES]))
    assert asked[0]["role"] == "user"
    assert asked[0]["parts"][0]["content"].startswith("What is")
    said = json.loads(str(spans["chat scripted"].attributes[names.OUTPUT_MESSAGES]))
    assert said[0]["finish_reason"] == "stop"
    assert len(said[0]["parts"][0]["content"]) <= LONGEST_TEXT


async def test_the_spans_are_the_same_but_for_what_was_said() -> None:
    plain, full = await exported(content=False), await exported(content=True)
    assert {one.span_id for one in plain.values()} == {one.span_id for one in full.values()}
    more = {name for one in full.values() for name in one.attributes} - {
        name for one in plain.values() for name in one.attributes
    }
    assert more == {names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.TOOL_ARGUMENTS, names.TOOL_RESULT}
