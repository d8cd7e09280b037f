"""The strategies of topologies, run with constant members, agree with the model that tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.lab import simulate
from teamwright.planning.profiles import TOPOLOGIES, Topology
from teamwright.planning.topology import EvaluationSettings, evaluate_topology
from tests.lab.troupes import team_of

TASKS, WORKERS, TOKENS = 8, 4, 1400
MEMBERS = ["lead", *(f"w{number}" for number in range(1, WORKERS + 1))]
STEPS = "".join(f"        - {{id: s{number}, execution_tokens: {TOKENS}}}\n" for number in range(TASKS))
MANIFEST = f"""\
agents: {{{", ".join(f"{name}: {{model: openai:x}}" for name in MEMBERS)}}}
teams:
  t:
    strategy: star_team
    members: [{", ".join(MEMBERS)}]
    simulation: {{skill: 1, latency: 6, input: 1000, output: 400, coordinate: {{latency: 0, input: 90, output: 10}}}}
    options:
      steps:
{STEPS}"""
ROUNDS = {"single": 0, "lead_subagent": TASKS, "star_team": TASKS // WORKERS, "mesh_team": TASKS // WORKERS}


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_a_topology_takes_the_tokens_messages_and_time_of_its_model(topology: Topology, tmp_path: Path) -> None:
    report = simulate(team_of(tmp_path, MANIFEST), "build it", runs=5, topologies=[topology])
    assert not report.missing
    shape = report.shape(topology)
    workers = 1 if topology in {"single", "lead_subagent"} else WORKERS
    profile = TOPOLOGIES[topology]._replace(execution=1.0, participants=workers + 1, seconds_per_message=0.0)
    settings = EvaluationSettings(
        tasks=TASKS, average_tokens=TOKENS, rounds=ROUNDS[topology], workload="implementation"
    )
    told = evaluate_topology(topology, settings, {topology: profile})
    work = shape.total_tokens.p50 - shape.coordination_tokens.p50
    assert (work, shape.messages) == (told.execution_tokens, told.messages)
    assert (shape.seconds.p50, shape.seconds.p90) == (told.p95_latency_s, told.p95_latency_s)
    assert (shape.pass_rate, shape.steps, shape.completed) == (1.0, TASKS, 1.0)
