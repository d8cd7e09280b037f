"""The strategies of topologies, run with constant members, agree with the model that tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.lab import simulate
from teamwright.lab.simulation.agents import Simulator
from teamwright.lab.simulation.topologies import in_topology
from teamwright.lab.simulation.trials import OWN, Trial
from teamwright.lab.topology.model import EvaluationSettings, evaluate_topology
from teamwright.lab.topology.profiles import TOPOLOGIES, Topology
from tests.lab.simulated_teams import constant, messages, team_of

TASKS, WORKERS, TOKENS, MESSAGE = 8, 4, 1400, 100
CONSTANT = constant(TOKENS, 6.0, coordinate=messages(MESSAGE, 0.0))
MEMBERS = ["lead", *(f"w{number}" for number in range(1, WORKERS + 1))]
STEPS = "".join(f"        - {{id: s{number}, execution_tokens: {TOKENS}}}\n" for number in range(TASKS))
MANIFEST = f"""\
agents: {{{", ".join(f"{name}: {{model: openai:x}}" for name in MEMBERS)}}}
teams:
  t:
    strategy: star_team
    members: [{", ".join(MEMBERS)}]
    options:
      steps:
{STEPS}"""
ROUNDS = {"single": 0, "lead_subagent": TASKS, "star_team": TASKS // WORKERS, "mesh_team": TASKS // WORKERS}


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_a_topology_takes_the_tokens_messages_and_time_of_its_model(topology: Topology, tmp_path: Path) -> None:
    team = in_topology(team_of(tmp_path, MANIFEST), topology)
    runs = list(Trial(team, "build it", 7, Simulator({"t": CONSTANT})).runs(range(5)))
    workers = 1 if topology in {"single", "lead_subagent"} else WORKERS
    profile = TOPOLOGIES[topology]._replace(execution=1.0, participants=workers + 1, seconds_per_message=0.0)
    settings = EvaluationSettings(
        tasks=TASKS, average_tokens=TOKENS, rounds=ROUNDS[topology], workload="implementation"
    )
    told = evaluate_topology(topology, settings, {topology: profile})
    for run in runs:
        kpis = run.kpis
        talk = (kpis.asks - kpis.steps) * MESSAGE
        assert (kpis.total_tokens - talk, run.messages) == (told.execution_tokens, told.messages)
        assert (kpis.seconds, run.right, kpis.steps, kpis.status) == (told.p95_latency_s, TASKS, TASKS, "completed")


def test_every_topology_is_simulated_beside_the_team(tmp_path: Path) -> None:
    report = simulate(team_of(tmp_path, MANIFEST), "build it", runs=2, topologies=list(TOPOLOGIES))
    assert [one.shape for one in report.shapes] == [OWN, *TOPOLOGIES]
    assert not report.missing
    assert report.shape("star_team").to_json() | {"shape": OWN} == report.shape(OWN).to_json()
