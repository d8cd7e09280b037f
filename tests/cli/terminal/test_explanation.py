"""A run explained: repeated notes are shown once, with a count."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn
from teamwright.cli.terminal.explanation import explain, explanation_text
from teamwright.journal.protocol import Batch, commit
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunLogged, RunPaused
from teamwright.values.people import Question


async def test_a_repeated_note_is_shown_once_and_again_after_a_reply() -> None:
    async def noisy(turn: Turn, ctx: Context) -> str:
        for _ in range(3):
            await ctx.emit(RunLogged(text="still at it"))
        return "still at it"

    async with Engine("memory") as engine:
        members = [FunctionAgent("a", noisy), FunctionAgent("b", noisy)]
        await engine.run(Team("t", members=members), "go", run_id="r")
        account = explain(await engine.runs.history("r"), await engine.runs.result("r"))
    lines = [line.partition("  ")[2].strip() for line in explanation_text(account).splitlines()]
    told = [line.partition(" s ")[2].strip() or line for line in lines if "logged" in line or "more like" in line]
    assert told == ["a logged · still at it", "… 2 more like this", "b logged · still at it", "… 2 more like this"]


async def test_a_run_that_its_driver_paused_says_why() -> None:
    async def ask(turn: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="Which?"), key="which")).text

    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[FunctionAgent("a", ask)]), "go", run_id="r")
        last = (await engine.journal.read("r"))[-1]
        why = "The journal has lost event 9 of run 'r'."
        paused = Event("r", last.number + 1, last.time, "", "", RunPaused(stop_reason="pause", why=why))
        async with engine.journal.drive("r"):
            await commit(engine.journal, Batch([paused], {}))
        account = explain(await engine.runs.history("r"), await engine.runs.result("r"))
    assert account.why == why
    assert f"run paused: {why}" in explanation_text(account)


@pytest.mark.experts
async def test_a_check_is_no_speaker_and_its_verdict_is_told_once() -> None:
    steps: dict[str, Any] = {"steps": [{"id": "a"}], "evaluate": {"criteria": [{"id": "number", "regex": "[0-9]"}]}}
    async with Engine("memory") as engine:
        team = Team("t", members=[FunctionAgent("a", lambda turn: "7 days")], strategy="plan", options=steps)
        await engine.run(team, "go", run_id="r")
        account = explain(await engine.runs.history("r"), await engine.runs.result("r"))
    text = explanation_text(account, full=True)
    assert "a said" in text
    assert "rubric" not in text
    assert text.count("score 1.00") == 1
    assert [entry.member for entry in account.entries if entry.said] == ["a", "rubric"]
