"""Recorded runs are checked against what is installed now, and nothing is called."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team, load_team
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.location import default_journal
from teamwright.teams.team_loader import read_manifest, source_of
from teamwright.testing.resume_check import ResumeCheck, check_resume
from tests.kit.terminal import REPLIES, TEAM, Call, call, team, write_team

__all__ = ["call", "team"]
WRITER, CRITIC = "report/step-1", "report/step-2"


def checked(folder: Path, declared: str | None = None, kept: int | None = None) -> ResumeCheck:
    """Run the team of a folder, keep so many of its events, and check them with the team that is declared now."""

    async def work() -> ResumeCheck:
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            await engine.run(load_team(folder), "Explain", run_id="r")
            events = journal._logs["r"]
            if kept is not None:
                keys = [event.number for event in events if event.kind == "agent.replied"]
                del events[keys[kept] :]
            source = None
            if declared is not None:
                (folder / "team.yaml").write_text(declared)
                source = source_of(read_manifest([folder]))
            before = list(events)
            found = await check_resume(journal, "r", source)
            assert journal._logs["r"] == before
            return found

    return anyio.run(work)


@pytest.mark.parametrize("kept", [None, 0, 1])
def test_a_run_that_nothing_touched_resumes_as_before(team: Path, kept: int | None) -> None:
    assert checked(team, kept=kept).verdict == "same"


def test_another_prompt_is_shown_for_each_turn(team: Path) -> None:
    found = checked(team, TEAM.replace("Judge.", "Judge kindly."))
    assert (found.verdict, found.passes) == ("other_prompt", True)
    assert [turn.key for turn in found.turns] == [f"{CRITIC}/request-1"]
    assert {"-Judge.", "+Judge kindly."} <= set(found.turns[0].difference)


@pytest.mark.parametrize("kept", [None, 0, 1])
def test_a_run_whose_turns_are_others_would_not_resume(team: Path, kept: int | None) -> None:
    found = checked(team, TEAM.replace("[writer, critic]", "[critic, writer]"), kept)
    assert (found.verdict, found.passes) == ("would_not_resume", False)
    assert f"that 'writer' was asked at '{WRITER}'" in found.why
    assert "the team now asks 'critic' there" in found.why


def test_code_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = write_team(tmp_path / "t", "agents: {one: {function: 'own_code:one'}}", REPLIES)
    (folder / "own_code.py").write_text("def one(task: str) -> str:\n    return 'first'\n")
    found = checked(folder, "agents: {one: {function: 'own_code:two'}}")
    assert found.verdict == "would_not_resume"
    assert "own_code:two" in found.why


def test_the_command_names_each_run_and_fails_for_one(call: Call, team: Path) -> None:
    assert call("runs", "check").code == 2
    call("run", team, "Explain", "--run-id", "one")
    done = call("runs", "check", "--since", "1h")
    assert (done.code, done.out) == (0, "one  resumes as before\n1 run: 1 would resume, 0 would not\n")
    (team / "team.yaml").write_text(TEAM.replace("[writer, critic]", "[critic, writer]"))
    assert call("runs", "check", "one").code == 0
    done = call("runs", "check", "one", "--from", team / "team.yaml", "--json")
    assert (done.code, done.json[0]["verdict"]) == (1, "would_not_resume")


def test_a_record_that_can_not_be_read_is_named_and_the_others_are_checked(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    call("run", team, "Explain", "--run-id", "two")
    with closing(sqlite3.connect(default_journal())) as database:
        database.execute("DELETE FROM events WHERE position = (SELECT min(position) + 2 FROM events)")
        database.commit()
    done = call("runs", "check", "one", "two")
    assert done.code == 1
    assert "one  can't be read" in done.out
    assert "two  resumes as before" in done.out


def test_a_run_of_a_team_made_in_python_is_not_checked_and_is_no_reason_to_fail(call: Call, team: Path) -> None:
    async def made() -> None:
        async with Engine(default_journal()) as engine:
            await engine.run(Team("made", members=[FunctionAgent("a", lambda task: task)]), "Go", run_id="made")

    anyio.run(made)
    alone = call("runs", "check")
    assert (alone.code, "made  is not checked: " in alone.out, "can be checked" in alone.err) == (2, True, True)
    assert call("run", team, "Explain", "--run-id", "one").code == 0
    both = call("runs", "check")
    assert (both.code, both.out.splitlines()[-1]) == (0, "2 runs: 1 would resume, 0 would not, 1 not checked")
