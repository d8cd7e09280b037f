"""Figures of all runs over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.journal import MemoryJournal
from teamwright.server.page import figures
from teamwright.server.page.figures import DailyFigures, FiguresOverTime
from teamwright.teams.team_loader import load_team
from tests.kit.terminal import write_team

TEAM = """\
agents:
  a: {model: "scripted:replies.yaml"}
  b: {model: "scripted:replies.yaml"}
teams:
  %s: {members: [a, b]}
"""
REPLIES = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, reply: two}\n"
BROKEN = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, error: refused}\n"


async def run_teams(journal: MemoryJournal, folder: Path) -> None:
    for name, replies in (("good", REPLIES), ("bad", BROKEN)):
        write_team(folder / name, TEAM % name, replies)
    async with Engine(journal) as engine:
        for name, count in (("good", 2), ("bad", 1)):
            for _ in range(count):
                await engine.run(load_team(folder / name / "team.yaml"), "Go")


def today() -> str:
    return datetime.now(UTC).date().isoformat()


async def test_runs_are_added_up_by_day_team_and_model(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await run_teams(journal, tmp_path)
    found = await DailyFigures(journal).read(7)
    assert found.since == (datetime.now(UTC).date() - timedelta(days=6)).isoformat()
    assert (found.runs, found.measured, found.unread, found.is_cut) == (3, 3, 0, False)
    bad, good = found.teams
    assert (good.team, good.runs, good.ended, good.completed) == ("good", 2, 2, 2)
    assert (good.steps, good.passed, good.judged, good.measured) == (4, 4, 0, 2)
    assert (bad.team, bad.runs, bad.completed, bad.steps, bad.passed) == ("bad", 1, 0, 2, 1)
    assert good.tokens == sum(one.total_tokens for one in await journal.top_runs() if one.team == "good") > 0
    requests = {(one.team, one.model): one.requests for one in found.models}
    assert requests == {("good", "scripted"): 4, ("bad", "scripted"): 2}
    assert sum(one.tokens for one in found.models if one.team == "good") == good.tokens


async def test_older_runs_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    await run_teams(journal, tmp_path)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Later:
            return cls.fromtimestamp(datetime.now(UTC).timestamp() + 5 * 86_400, UTC)

    monkeypatch.setattr(figures, "datetime", Later)
    assert (await DailyFigures(journal).read(5)).runs == 0
    assert (await DailyFigures(journal).read(7)).runs == 3


async def test_events_are_read_once_and_for_a_moment_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    await run_teams(journal, tmp_path)
    reads: list[str] = []
    read = journal.read

    async def counted(run_id: str, *args: int) -> object:
        reads.append(run_id)
        return await read(run_id, *args)

    monkeypatch.setattr(journal, "read", counted)
    clock = iter(range(10_000))
    monkeypatch.setattr(figures, "monotonic", lambda: next(clock) * figures.READ_SECONDS / 1.5)
    reading = DailyFigures(journal)
    seen: list[FiguresOverTime] = [await reading.read(1)]
    while seen[-1].unread:
        seen.append(await reading.read(1))
    assert [one.unread for one in seen] == [2, 1, 0]
    assert [one.runs for one in seen] == [3, 3, 3]
    await reading.read(1)
    assert len(reads) == 3


async def test_a_list_that_is_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    await run_teams(journal, tmp_path)
    monkeypatch.setattr(figures, "PAGE", 1)
    assert (await DailyFigures(journal).read(1)).runs == 3
    monkeypatch.setattr(figures, "MOST_RUNS", 2)
    cut = await DailyFigures(journal).read(1)
    assert (cut.runs, cut.is_cut) == (2, True)
