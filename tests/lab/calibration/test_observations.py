"""Observations from past runs, and which runs give none."""

from __future__ import annotations

from pathlib import Path

from teamwright import Engine, FunctionAgent, Team
from teamwright.journal.memory import MemoryJournal
from teamwright.lab.calibration.observations import observe
from teamwright.lab.topology.model import EvaluationSettings
from teamwright.lab.topology.profiles import TOPOLOGIES
from teamwright.values.turns.turn import Turn
from tests.kit.evaluators import WordEvaluator, words
from tests.kit.records import damage_first_event
from tests.lab.journals import Record


async def echo(turn: Turn) -> str:
    return "fine"


async def test_a_run_is_read_in_the_words_of_the_model() -> None:
    journal = MemoryJournal()
    settings = EvaluationSettings(tasks=6, rounds=2, average_tokens=1000, workload="implementation")
    record = Record("r", "star_team", TOPOLOGIES["star_team"], settings, failed=2)
    record.write(journal)
    [run] = (await observe(journal, ["r"])).runs
    assert (run.topology, run.protocol, run.participants, run.tasks, run.rounds) == ("star_team", "a2a_lite", 5, 6, 2)
    assert (run.average_tokens, run.execution, run.messages) == (1000, record.told.execution_tokens, 24)
    assert (run.coordination, run.cached) == (record.told.coordination_tokens, record.told.cache_savings)
    assert (run.steps, run.passed, run.seconds, run.whole) == (6, 4, record.told.p95_latency_s, True)
    assert run.figure("total_tokens") == record.told.total_tokens
    assert run.figure("pass_rate") == 4 / 6


async def test_one_agent_counts_as_single_and_other_strategies_as_what_is_said() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("alone", members=[FunctionAgent("a", echo)]), "go", run_id="alone")
        two = Team("two", members=[FunctionAgent("a", echo), FunctionAgent("b", echo)])
        await engine.run(two, "go", run_id="two")
    seen = await observe(journal, ["alone", "two"])
    assert [one.topology for one in seen.runs] == ["single"]
    assert seen.left_out == {"two": "its strategy 'sequential' is not a topology; name one with --as"}
    assert sorted(seen.learnt.members) == ["a", "b"]
    seen = await observe(journal, ["alone", "two"], as_topology="star_team")
    assert [one.topology for one in seen.runs] == ["single", "star_team"]


async def test_a_run_that_has_not_ended_says_nothing() -> None:
    journal = MemoryJournal()
    Record("r", "star_team", TOPOLOGIES["star_team"], EvaluationSettings(tasks=2)).write(journal)
    journal._logs["r"].pop()
    seen = await observe(journal, ["r"])
    assert (seen.runs, seen.left_out) == ((), {"r": "it has not ended (interrupted)"})
    assert not seen.learnt.members


async def test_a_run_without_events_says_nothing() -> None:  # S-08
    seen = await observe(MemoryJournal(), ["gone"])
    assert (seen.runs, seen.left_out) == ((), {"gone": "it has no events"})


async def test_a_damaged_record_without_the_start_of_its_team_says_nothing() -> None:  # S-08
    journal = MemoryJournal()
    Record("r", "star_team", TOPOLOGIES["star_team"], EvaluationSettings(tasks=2)).write(journal)
    journal._logs["r"][:] = [event for event in journal._logs["r"] if event.kind != "team.started"]
    seen = await observe(journal, ["r"])
    assert (seen.runs, list(seen.left_out)) == ((), ["r"])
    assert "is damaged" in seen.left_out["r"]


async def test_a_run_whose_record_is_damaged_is_left_out(tmp_path: Path) -> None:  # S-08
    file = tmp_path / "runs.db"
    team = Team("t", members=[FunctionAgent("a", lambda prompt: "done")])
    async with Engine(file) as engine:
        for run_id in ("bad", "good"):
            await engine.run(team, "go", run_id=run_id)
    damage_first_event(file)
    async with Engine(file) as engine:
        seen = await observe(engine.journal, ["bad", "good"], as_topology="single")
    assert [one.run_id for one in seen.runs] == ["good"]
    assert "The record of run 'bad' is damaged" in seen.left_out["bad"]


async def test_steps_that_were_judged_are_counted_with_those_that_passed() -> None:
    journal, texts = MemoryJournal(), iter(("first", "a good text", "bad", "unjudged"))
    members = [
        FunctionAgent("a", lambda _: next(texts), evaluate=WordEvaluator(words(rounds=2))),
        FunctionAgent("b", lambda _: next(texts), evaluate=WordEvaluator(words(risk="low"))),
        FunctionAgent("c", lambda _: next(texts)),
    ]
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=members), "go", run_id="r")
    seen = await observe(journal, ["r"], as_topology="star_team")
    [run] = seen.runs
    assert (run.steps, run.passed, run.judged, run.right, run.participants) == (3, 2, 2, 1, 3)
    assert run.figure("pass_rate") == 0.5
    assert [seen.learnt.members[name].skill for name in "abc"] == [1.0, 0.0, None]
