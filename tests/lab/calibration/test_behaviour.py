"""Learning from past runs: simulated runs return the behaviour that they were made with."""

from __future__ import annotations

import pytest

from teamwright import ModelAgent, Team
from teamwright.lab.calibration.behaviour import MOST_VALUES, from_data, learn
from teamwright.lab.simulation.agents import Learnt, SimulatedAgent, Simulator
from teamwright.lab.simulation.trials import Trial
from teamwright.values.specs.simulation import Behaviour, Data, Simulation, Uniform, quantile

MEMBERS = ["a", "b"]
BEHAVIOUR = Simulation(
    skill=0.7, latency=Uniform(uniform=(2, 6)), input=100.0, output=Uniform(uniform=(10, 30)), rate_limit=0.2, error=0.1
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
    assert found.rate_limit == pytest.approx(0.2, abs=0.06)
    assert found.error == pytest.approx(0.1, abs=0.05)
    assert found.timeout == 0
    for learnt, made in ((found.latency, BEHAVIOUR.latency), (found.output, BEHAVIOUR.output)):
        assert learnt is not None
        assert made is not None
        for chance in (0.1, 0.5, 0.9):
            # Time that was lost by failures, and by waiting after them, is no part of what a turn takes.
            assert quantile(learnt, chance) == pytest.approx(quantile(made, chance), rel=0.15)
    assert found.input == Data(data=(100.0,) * MOST_VALUES)


def test_talk_is_learnt_apart_from_work() -> None:
    behaviour = BEHAVIOUR.model_copy(update={"coordinate": Behaviour(latency=1.0, output=5.0, input=7.0)})
    made = team("selector", max_turns=4, options={"agent": "chooser"})
    play = Trial(made, "go", 5, Simulator(dict.fromkeys((*MEMBERS, "chooser"), behaviour)))
    learnt = learn(play.events(play.simulator.team(made), number) for number in range(5))
    chooser = learnt.members["chooser"]
    assert chooser.coordinate is not None
    assert isinstance(chooser.coordinate.latency, Data)
    assert set(chooser.coordinate.latency.data) == {1.0}
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
    assert (len(data.data), data.data[0], data.data[-1]) == (MOST_VALUES, 0.0, 9999.0)
    assert data.quantile(0.5) == pytest.approx(5000, abs=60)


def test_nothing_is_learnt_of_nothing() -> None:
    learnt = learn([])
    assert (learnt.members, learnt.everybody) == ({}, None)
    stand_in = Simulator({}, Learnt(everybody=learnt.everybody)).team(team()).members[0]
    assert isinstance(stand_in, SimulatedAgent)
