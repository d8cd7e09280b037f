"""Simulations: the model's own figures where its assumptions hold, the same by the same seed, policies that hold."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from teamwright import Team
from teamwright.errors import UnknownName, UsageError
from teamwright.lab import simulate
from teamwright.lab.simulation.simulate import Spread, summarise
from teamwright.lab.simulation.simulated_agents import Learnt, Simulator
from teamwright.lab.simulation.trials import OWN, Trial, in_topology
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings, Topology, evaluate_topology
from teamwright.strategies.registry import strategy_names
from teamwright.values.limits import Limits
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.specs.simulation import Simulation
from tests.lab.simulated_teams import PLAN, ModelledWork, constant, messages, simulated_agents, team_of
from tests.profiles import sampled

RUNS = sampled(120, 500)


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_constant_members_give_the_result_of_the_model(topology: Topology) -> None:  # Z-14
    settings = EvaluationSettings(
        tasks=8, average_tokens=1400, rounds=1, workload="implementation", protocol="transcript"
    )
    told = evaluate_topology(
        topology, settings, {topology: TOPOLOGIES[topology]._replace(execution=1.0, participants=5)}
    )
    names = [f"a{number}" for number in range(told.parallelism)]
    summary = told.coordination_tokens // told.messages if told.messages else 1
    behaviour = constant(coordinate=messages(summary, 0.032))
    strategy = ModelledWork(settings.tasks, told.messages, told.parallelism)
    team = Team("t", members=simulated_agents(names, behaviour), strategy=strategy)
    runs = RUNS if topology == "star_team" else 20
    play = Trial(team, "go", 7, Simulator(dict.fromkeys(names, behaviour)))
    seen = {
        (one.kpis.work_tokens, one.kpis.coordination_tokens, one.kpis.asks, one.kpis.seconds, one.right)
        for one in play.runs(range(runs))
    }
    asks = told.messages + settings.tasks
    assert seen == {(told.execution_tokens, told.coordination_tokens, asks, told.p95_latency_s, settings.tasks)}


def test_a_team_that_works_on_files_is_simulated_without_them(tmp_path: Path) -> None:
    team = Team("t", members=simulated_agents(["a"], constant()), workspace=TeamWorkspace(git=str(tmp_path / "none")))
    assert simulate(team, "build it", runs=2).to_json()["runs"]


def test_the_same_seed_gives_the_same_figures(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    first = simulate(team, "build it", runs=24, seed=7)
    assert simulate(team, "build it", runs=24, seed=7).to_json() == first.to_json()
    assert simulate(team, "build it", runs=24, seed=8).to_json() != first.to_json()


async def test_a_simulation_runs_where_a_loop_runs_already_as_in_a_notebook(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    here = simulate(team, "build it", runs=3, seed=7)
    elsewhere = await anyio.to_thread.run_sync(lambda: simulate(team, "build it", runs=3, seed=7))
    assert here.to_json() == elsewhere.to_json()


def test_a_topology_shares_as_the_team_says_even_where_its_strategy_would_anyway(tmp_path: Path) -> None:
    silent = in_topology(team_of(tmp_path), "star_team")
    text = PLAN.replace("strategy: dag", "strategy: dag\n    share: transcript")
    said = in_topology(team_of(tmp_path, text), "star_team")
    assert (silent.settings.share, said.settings.share) == ("a2a_lite", "transcript")


def test_a_run_is_the_same_whatever_runs_beside_it(tmp_path: Path) -> None:
    play = Trial(team_of(tmp_path), "build it", 3, Simulator({}))
    assert list(play.runs(range(6)))[4:] == list(play.runs(range(4, 6)))


def test_skill_tokens_prices_and_times_come_out_as_they_were_given(tmp_path: Path) -> None:
    shape = simulate(team_of(tmp_path), "build it", runs=RUNS, seed=1).shape(OWN)
    assert shape.strategy == "dag"
    assert (shape.runs, shape.statuses, shape.completed, shape.steps) == (RUNS, {"completed": RUNS}, 1.0, 10.0)
    # Two of ten steps are the lead's, at 0.9, and the others the worker's, at 0.7.
    assert shape.pass_rate == pytest.approx(0.74, abs=3 * (0.74 * 0.26 / (10 * RUNS)) ** 0.5)
    assert shape.total_tokens.p50 > 10 * 300
    assert shape.usd is not None
    assert shape.usd.p50 > 0
    assert shape.seconds.p90 > shape.seconds.p50 > 5 * 4


def test_runs_that_cost_nothing_count_in_the_mean_price(tmp_path: Path) -> None:  # M-08
    play = Trial(team_of(tmp_path), "build it", 1, Simulator({}, Learnt()))
    paid, free = (next(iter(play.runs([number]))) for number in (1, 2))
    runs = [
        paid.changed(kpis=paid.kpis.changed(usd=2.0)),
        free.changed(kpis=free.kpis.changed(usd=None, total_tokens=0)),
        free.changed(kpis=free.kpis.changed(usd=0.0)),
        free.changed(kpis=free.kpis.changed(usd=None)),
    ]
    usd = summarise(OWN, "dag", runs).usd
    assert usd == Spread(p50=0.0, p90=2.0, mean=0.5)
    assert summarise(OWN, "dag", runs[1:2]).usd is None


def test_the_critical_path_and_the_bottleneck_are_found(tmp_path: Path) -> None:
    slow = {"worker": constant(100, 1.0), "lead": constant(100, 5.0)}
    shape = simulate(team_of(tmp_path), "build it", runs=3, members=slow).shape(OWN)
    assert shape.bottleneck is not None
    assert (shape.bottleneck.member, shape.bottleneck.share_of_time) == ("lead", round(5 / 13, 4))
    path = shape.critical_path
    assert (path.share, path.steps[0].step, path.steps[-1].step) == (1.0, "a", "j")
    assert sum(one.seconds for one in path.steps) == shape.seconds.p50 == 13.0


def test_budgets_stop_simulated_runs_as_they_stop_real_ones(tmp_path: Path) -> None:
    shape = simulate(team_of(tmp_path), "build it", runs=20, limits=Limits(tokens=4000)).shape(OWN)
    assert shape.total_tokens.p90 <= 4000
    assert shape.completed < 1
    assert set(shape.statuses) & {"degraded (budget)"}


def test_a_limit_on_time_ends_simulated_runs(tmp_path: Path) -> None:
    slow = {"lead": constant(10, 100.0), "worker": constant(10, 100.0)}
    shape = simulate(team_of(tmp_path), "build it", runs=2, members=slow, limits=Limits(seconds=250)).shape(OWN)
    assert shape.statuses == {"timeout (deadline)": 2}
    assert shape.seconds.p50 == 250.0


def test_calls_that_fail_are_made_again_by_the_teams_own_policy(tmp_path: Path) -> None:
    failing = {"worker": constant(10, 1.0, error={"server": 0.5}), "lead": constant(10, 1.0)}
    patient = simulate(team_of(tmp_path), "build it", runs=40, members=failing).shape(OWN)
    text = (tmp_path / "team.yaml").read_text(encoding="utf-8")
    hasty = text.replace("strategy: dag", "strategy: dag\n    retry: {times: 0}")
    broken = simulate(team_of(tmp_path, hasty), "build it", runs=40, members=failing).shape(OWN)
    assert patient.completed > broken.completed
    assert patient.seconds.p50 > 5.0


def test_owned_keys_keep_simulated_steps_apart(tmp_path: Path) -> None:
    text = """\
agents: {a: {model: openai:x}, b: {model: openai:x}}
teams:
  t:
    strategy: dag
    members: [a, b]
    simulation: {latency: 5, output: 10}
    dag: {steps: [{id: one, agent: a, owns: [src]}, {id: two, agent: b, owns: [src]}]}
"""
    assert simulate(team_of(tmp_path, text), "go", runs=2).shape(OWN).seconds.p50 == 10.0
    apart = text.replace("agent: b, owns: [src]", "agent: b, owns: [docs]")
    assert simulate(team_of(tmp_path, apart), "go", runs=2).shape(OWN).seconds.p50 == 5.0


def test_a_models_pace_holds_for_simulated_calls(tmp_path: Path) -> None:
    text = """\
agents: {a: {model: {model: openai:x, per_minute: {calls: 1}}}, b: {model: {model: openai:x, per_minute: {calls: 1}}}}
teams:
  t:
    strategy: dag
    members: [a, b]
    simulation: {latency: 5, output: 10}
    dag: {steps: [{id: one, agent: a}, {id: two, agent: b}]}
"""
    assert simulate(team_of(tmp_path, text), "go", runs=2).shape(OWN).seconds.p50 == 65.0


def test_topologies_stand_beside_the_team_or_it_is_said_why_not(tmp_path: Path) -> None:
    report = simulate(team_of(tmp_path), "build it", runs=2, topologies=["single", "lead", "star", "mesh"])
    known = [name for name in TOPOLOGIES if name in strategy_names()]
    assert [one.shape for one in report.shapes] == [OWN, *(one for one in known if one not in report.missing)]
    assert set(report.missing) | {one.shape for one in report.shapes} == {OWN, *TOPOLOGIES}
    for name in set(TOPOLOGIES) - set(known):
        assert report.missing[name] == f"there is no strategy {name!r}"


def test_what_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    with pytest.raises(UsageError, match="runs is 0, expected a whole number from 1"):
        simulate(team, "go", runs=0)
    with pytest.raises(UnknownName, match="'ring'"):
        simulate(team, "go", runs=1, topologies=["ring"])


def test_approvals_are_assumed_and_reported(tmp_path: Path) -> None:
    text = """\
agents: {a: {model: openai:x, confirm: {before: true}}}
teams: {t: {members: [a]}}
"""
    report = simulate(team_of(tmp_path, text), "go", runs=1)
    assert report.shape(OWN).completed == 1
    assert report.notes == ("approvals of a are granted at once",)


def test_progress_is_reported_until_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    simulate(team_of(tmp_path), "go", runs=12, progress=lambda done, total: told.append((done, total)))
    assert told == [(10, 12), (12, 12)]


def test_percentiles_are_by_nearest_rank() -> None:
    assert Spread.of([4, 1, 3, 2]) == Spread(p50=2, p90=4, mean=2.5)
    assert Spread.of(range(1, 11)) == Spread(p50=5, p90=9, mean=5.5)


def test_a_member_that_judges_wrong_sends_work_back(tmp_path: Path) -> None:
    text = """\
agents: {writer: {model: openai:x}, critic: {model: openai:x}}
teams:
  t:
    strategy: graph
    members: [writer, critic]
    max_turns: 20
    graph:
      edges:
        - {from: writer, to: critic}
        - {from: critic, to: writer, when: "'REVISE' in text"}
"""
    says = {"critic": Simulation(skill=0.5, right="APPROVED", wrong="REVISE")}
    shape = simulate(team_of(tmp_path, text), "go", runs=60, seed=2, members=says).shape(OWN)
    # Half of all reviews pass: on average two rounds of two turns.
    assert shape.steps == pytest.approx(4.0, abs=0.9)
