"""Lines of a live run: what is said twice is shown once."""

from __future__ import annotations

import asyncio
import json
import re

from teamwright import Engine, FunctionAgent, Team
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.cli.terminal.line_views import PULSE_SECONDS, PlainLines, Repeats, live_view
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.event import Delta, Event
from tests.history.test_member_board import noted
from tests.kit.evaluators import WordEvaluator, words


def test_a_repeated_line_is_shown_once_with_a_count() -> None:
    repeats = Repeats()
    said = [line for text in ("a", "b", "b", "b", "a") for line in repeats.lines(text)]
    assert [*said, *repeats.rest()] == ["a", "b", "  … 2 more like this", "a"]


def test_held_lines_are_shown_once_at_the_end() -> None:
    repeats = Repeats()
    assert [*repeats.lines("a"), *repeats.lines("a"), *repeats.rest(), *repeats.rest()] == ["a", "  … 1 more like this"]


def test_an_important_line_is_always_shown() -> None:
    repeats = Repeats()
    assert [line for _ in range(2) for line in repeats.lines("a", once=True)] == ["a", "a"]


async def test_plain_lines_show_a_note_again_after_a_reply() -> None:
    lines: list[str] = []
    view = PlainLines(MemoryJournal(), lines.append)
    for event in noted().events:
        await view.show(event)
    view.close()
    told = [" ".join(line.split()) for line in lines[1:]]
    note, more = "a · it waits for x, queued behind b", "… 1 more like this"
    assert told[:-1] == [note, more, "a ▸ (empty) 0 tok 1.0 s", note, more]
    assert told[-1].startswith("a ! attempt 1 failed")


async def test_a_verdict_has_one_line() -> None:
    lines: list[str] = []
    journal, evaluator = MemoryJournal(), WordEvaluator(words())
    author = FunctionAgent("author", lambda prompt: "It is good.", evaluate=evaluator)
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[author]), "go", run_id="r")
    view = PlainLines(journal, lines.append)
    for event in await journal.read("r"):
        await view.show(event)
    told = [" ".join(line.split()) for line in lines]
    assert [line for line in told if "pass" in line] == ["· the work of author is evaluated: pass, score 1.00"]


async def test_a_call_that_takes_long_shows_that_it_lives() -> None:
    lines: list[str] = []
    journal, beaten = MemoryJournal(), asyncio.Event()

    async def respond(prompt: str) -> str:
        await beaten.wait()
        return "Done."

    def write(line: str) -> None:
        lines.append(line)
        if sum("so far" in one for one in lines) == 2:
            beaten.set()

    async with Engine(journal) as engine:
        handle = await engine.start(Team("t", members=[FunctionAgent("slow", respond)]), "go", run_id="r")
        view = PlainLines(journal, write, pulse=0.05)
        async for item in engine.runs.follow(handle.run_id):
            await view.show(item)
        view.close()
        before = len(lines)
        await asyncio.sleep(0.15)
    told = [" ".join(line.split()) for line in lines]
    assert re.fullmatch(r"slow … thinking, for .* s so far", next(line for line in told if "so far" in line))
    assert told[-1].startswith("slow ▸ Done.")
    assert len(lines) == before


async def test_the_steps_of_a_plan_have_lines_while_it_is_written() -> None:
    plan = {"steps": [{"id": "look", "role": "ana", "task": "Look it up."}]}
    rules = [Rule(agent="p", reply=json.dumps(plan), delay=0.05), Rule(reply="Done.")]
    members = [ScriptedAgent(name, rules) for name in ("ana", "p")]
    team = Team("t", members=members[:1], helpers=members[1:], strategy="expert", options={"lead": "p"})
    journal, lines, numbered = MemoryJournal(), list[str](), list[str]()
    async with Engine(journal) as engine:
        await engine.start(team, "go", run_id="r")
        views = PlainLines(journal, lines.append), PlainLines(journal, numbered.append, numbered=True)
        async for item in engine.runs.follow("r", parts=True):
            for view in views:
                await view.show(item)
    shown = next(place for place, line in enumerate(lines) if "the plan of p has 1 step" in line)
    written = next(place for place, line in enumerate(lines) if "step 1: look – Look it up. (ana)" in line)
    assert lines[written].startswith("p  ")
    assert written < shown
    assert sum("step 1:" in line for line in numbered) == 1


async def test_the_pulse_says_how_much_was_written() -> None:
    lines: list[str] = []
    view = PlainLines(MemoryJournal(), lines.append)
    asked = AgentAsked(member="p", member_kind="model", turn=1, task="", length=0, digest="")
    await view.show(Event("r", 1, 0.0, "", "t", asked.changed(member="t", member_kind="team")))
    await view.show(Event("r", 2, 0.0, "t", "plan", asked))
    await view.show(Delta(run_id="r", key="t/plan", member="p", attempt=1, offset=0, text="word " * 80))
    view._beat(0.0)
    assert re.fullmatch(r"p +… streaming, about 101 tokens, for .* so far", lines[-1])
    view.close()


def test_a_view_in_a_pipe_has_a_pulse() -> None:
    view = live_view(MemoryJournal(), quiet=False)
    assert isinstance(view, PlainLines)
    assert view._pulse == PULSE_SECONDS
