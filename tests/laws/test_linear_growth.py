"""Law 10: N turns cost O(N) bytes, and no turn's record copies the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.agents.function import FunctionAgent
from teamwright.journal.memory import MemoryJournal
from teamwright.journal.rows import to_text
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.specs import Share
from teamwright.values.turns import Turn
from tests.laws.orchestra import RUN_ID, TASK, log_of

SAID = 500


def chain(turns: int, share: Share = "transcript") -> Team:
    async def speak(turn: Turn) -> str:
        return f"{turn.number:06d}".ljust(SAID, "x")

    return Team("t", members=[FunctionAgent("a", speak)], strategy="round_robin", max_turns=turns, share=share)


async def recorded(turns: int) -> tuple[int, list[int]]:
    """The bytes of all events and bodies, and the bytes of each turn's events."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(chain(turns), TASK, run_id=RUN_ID)
    per_turn: dict[str, int] = {}
    for event in log_of(journal):
        turn = event.key.split("/")[1] if "round-" in event.key else ""
        per_turn[turn] = per_turn.get(turn, 0) + len(to_text(event.fact))
    bodies = sum(map(len, journal._bodies.values()))
    return sum(per_turn.values()) + bodies, [size for turn, size in per_turn.items() if turn]


async def test_the_bytes_of_a_turn_stay_flat() -> None:
    few, few_turns = await recorded(50)
    many, many_turns = await recorded(400)
    assert many / 400 <= few / 50 * 1.05
    assert max(many_turns) <= max(few_turns) + 10
    assert max(many_turns) < 2 * SAID


async def test_a_body_is_stored_once_however_often_it_is_said() -> None:
    journal = MemoryJournal()

    async def same(turn: Turn) -> str:
        return "y" * 10_000

    team = Team("t", members=[FunctionAgent("a", same)], strategy="round_robin", max_turns=30)
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id=RUN_ID)
    assert sum(map(len, journal._bodies.values())) < 25_000


async def test_no_event_of_a_turn_holds_what_was_said_before() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(chain(20), TASK, run_id=RUN_ID)
    for event in log_of(journal):
        assert "xxxx" not in to_text(event.fact)
    assert sum("xxxx" in body for body in journal._bodies.values()) == 20


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_the_database_grows_by_the_same_for_each_turn(share: Share, tmp_path: Path) -> None:
    sizes: dict[int, int] = {}
    for turns in (50, 400):
        path = tmp_path / f"{turns}.db"
        async with Engine(path) as engine:
            await engine.run(chain(turns, share), TASK, run_id=RUN_ID)
        sizes[turns] = path.stat().st_size
    assert sizes[400] - sizes[50] <= 350 * 4 * SAID
