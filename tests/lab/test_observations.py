"""Observations from past runs, which runs give none, and the behaviour that is learnt from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, ModelAgent, Team
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.observations import MOST_VALUES, from_data, learn, observe
from teamwright.lab.simulation.simulated_agents import Learnt, SimulatedAgent, Simulator
from teamwright.lab.simulation.trials import Trial
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings
from teamwright.values.specs.simulation import Behaviour, Simulation, quantile
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
    assert seen.left_out == {"two": "its strategy 'sequential' is not a topology; name one with --topology"}
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
        FunctionAgent("a", lambda _: next(texts), evaluate=WordEvaluator(words(revisions=1))),
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


MEMBERS = ["a", "b"]
EVENLY = [place / 199 for place in range(200)]
BEHAVIOUR = Simulation(
    skill=0.7,
    latency=tuple(2 + 4 * one for one in EVENLY),
    input=100.0,
    output=tuple(10 + 20 * one for one in EVENLY),
    error={"rate_limit": 0.2, "server": 0.1},
)


def team(strategy: str = "sequential", **more: object) -> Team:
    agents = [ModelAgent(name, model="openai:x") for name in (*MEMBERS, "chooser")]
    members = agents[:2] if strategy == "selector" else agents
    return Team("t", members=members, helpers=agents[2:], strategy=strategy, **more)  # pyright: ignore[reportArgumentType]


def taught(made: Team, behaviour: Simulation, runs: int) -> Simulation:
    play = Trial(made, "go", 5, Simulator(dict.fromkeys((*MEMBERS, "chooser"), behaviour)))
    played = play.simulator.team(made)
    learnt = learn(play.events(played, number) for number in range(runs))
    assert set(learnt.members) == {*MEMBERS, "chooser"}
    return learnt.members["a"]


def test_behaviour_is_found_again_in_the_runs_that_it_made() -> None:
    found = taught(team(), BEHAVIOUR, 300)
    assert found.skill == pytest.approx(0.7, abs=0.08)
    assert found.error is not None
    assert found.error["rate_limit"] == pytest.approx(0.2, abs=0.06)
    assert found.error["server"] == pytest.approx(0.1, abs=0.05)
    assert found.error["timeout"] == 0
    for learnt, made in ((found.latency, BEHAVIOUR.latency), (found.output, BEHAVIOUR.output)):
        assert learnt is not None
        assert made is not None
        for chance in (0.1, 0.5, 0.9):
            # Time that was lost by failures, and by waiting after them, is no part of what a turn takes.
            assert quantile(learnt, chance) == pytest.approx(quantile(made, chance), rel=0.15)
    assert found.input == (100.0,) * MOST_VALUES


def test_talk_is_learnt_apart_from_work() -> None:
    behaviour = BEHAVIOUR.model_copy(update={"coordinate": Behaviour(latency=1.0, output=5.0, input=7.0)})
    made = team("selector", max_turns=4, options={"agent": "chooser"})
    play = Trial(made, "go", 5, Simulator(dict.fromkeys((*MEMBERS, "chooser"), behaviour)))
    learnt = learn(play.events(play.simulator.team(made), number) for number in range(5))
    chooser = learnt.members["chooser"]
    assert chooser.coordinate is not None
    assert isinstance(chooser.coordinate.latency, tuple)
    assert set(chooser.coordinate.latency) == {1.0}
    assert chooser.latency is None
    assert learnt.everybody is not None
    assert learnt.everybody.latency is not None


def test_a_simulation_that_learnt_does_as_the_runs_did() -> None:
    made = team()
    first = Trial(made, "go", 5, Simulator(dict.fromkeys((*MEMBERS, "chooser"), BEHAVIOUR)))
    learnt = learn(first.events(first.simulator.team(made), number) for number in range(200))
    again = Trial(made, "go", 6, Simulator({}, learnt))
    before = sorted(one.kpis.seconds for one in first.runs(range(200)))
    after = sorted(one.kpis.seconds for one in again.runs(range(200)))
    assert after[100] == pytest.approx(before[100], rel=0.1)


def test_many_values_are_kept_as_so_many_at_even_distances() -> None:
    data = from_data(float(value) for value in range(10_000))
    assert (len(data), data[0], data[-1]) == (MOST_VALUES, 0.0, 9999.0)
    assert quantile(data, 0.5) == pytest.approx(5000, abs=60)


def test_nothing_is_learnt_of_nothing() -> None:
    learnt = learn([])
    assert (learnt.members, learnt.everybody) == ({}, None)
    stand_in = Simulator({}, Learnt(everybody=learnt.everybody)).team(team()).members[0]
    assert isinstance(stand_in, SimulatedAgent)
