"""Law 10: N turns cost O(N) bytes, and no turn's record copies the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.codec import to_text
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.specs.members import Share
from teamwright.values.turns.turn import Turn
from tests.laws.random_programs import RUN_ID, TASK, log_of

SAID = 500


async def speak(turn: Turn) -> str:
    return f"{turn.number:06d}".ljust(SAID, "x")


def chain(turns: int, share: Share = "transcript") -> Team:
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


async def test_no_event_of_a_turn_holds_earlier_messages() -> None:
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


async def decide(turn: Turn) -> JsonValue:
    return {"action": "delegate", "delegations": [{"specialist": "a", "task": "more"}]}


async def choose(turn: Turn) -> str:
    return "b" if turn.number % 2 else "a"


def _selector(turns: int) -> Team:
    members = [FunctionAgent(name, speak) for name in "ab"]
    helpers = [FunctionAgent("chair", choose)]
    options: dict[str, JsonValue] = {"agent": "chair", "allow_repeat": True}
    return Team("t", members=members, helpers=helpers, strategy="selector", max_turns=turns, options=options)


def _graph(turns: int) -> Team:
    edges: list[JsonValue] = [{"from": "a", "to": "a", "when": "text != ''"}]
    members = [FunctionAgent("a", speak)]
    return Team("t", members=members, strategy="graph", max_turns=turns, options={"edges": edges})


def _fan_out(turns: int) -> Team:
    chunks: list[JsonValue] = [f"chunk {number}" for number in range(turns)]
    members = [FunctionAgent(name, speak) for name in "az"]
    return Team("t", members=members, strategy="fan_out", options={"chunks": chunks, "answer": "z"})


def _dag(turns: int) -> Team:
    steps: list[JsonValue] = [
        {"id": f"s{number}", "agent": "a", "needs": [f"s{number - 1}"] if number else []} for number in range(turns)
    ]
    return Team("t", members=[FunctionAgent("a", speak)], strategy="dag", options={"steps": steps}, share="output")


def _hierarchical(turns: int) -> Team:
    members, helpers = [FunctionAgent("a", speak)], [FunctionAgent("boss", decide)]
    options: dict[str, JsonValue] = {"lead": "boss", "max_iterations": turns}
    return Team("t", members=members, helpers=helpers, strategy="hierarchical", options=options)


def _reactive(turns: int) -> Team:
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": on, "emits": [{"type": "go"}]} for on in ("workflow.started", "go")
    ]
    options: dict[str, JsonValue] = {"subscriptions": subscriptions, "max_events": turns, "max_depth": turns}
    return Team("t", members=[FunctionAgent("a", speak)], strategy="reactive", options=options)


@pytest.mark.parametrize("make", [chain, _selector, _graph, _fan_out, _dag, _hierarchical, _reactive])
async def test_every_strategy_records_as_much_for_each_turn(make: Callable[[int], Team]) -> None:
    """Keys count too; the declaration with its chunks and steps is linear anyway."""
    sizes: dict[int, int] = {}
    for turns in (40, 320):
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            result = await engine.run(make(turns), TASK, run_id=RUN_ID)
        assert len(result.messages) >= turns
        events = sum(len(event.key) + len(to_text(event.fact)) for event in log_of(journal))
        sizes[turns] = events + sum(map(len, journal._bodies.values()))
    assert sizes[320] / 320 <= sizes[40] / 40 * 1.2
