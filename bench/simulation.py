"""Measures simulated runs of every topology with constant members, and checks that they agree with the model.

Run it with  python -m bench.simulation [RUNS]  (10 000 without a number).
"""

import sys
import tempfile
import time
from pathlib import Path

from bench.workload import WrongAnswer
from teamwright.lab.simulation.simulate import SimulatedShape, simulate
from teamwright.lab.simulation.trials import OWN, declared_team
from teamwright.lab.topology_model import TOPOLOGIES, Evaluation, EvaluationSettings, Topology, evaluate_topology
from teamwright.teams.team_loader import read_manifest, source_of

RUNS, SEED = 10_000, 7
TASKS, WORKERS, TOKENS, MESSAGE = 8, 4, 1400, 100
MEMBERS = ("lead", *(f"w{number}" for number in range(1, WORKERS + 1)))
STEPS = ", ".join(f"{{id: s{number}, execution_tokens: {TOKENS}}}" for number in range(TASKS))
MANIFEST = f"""\
agents: {{{", ".join(f"{name}: {{model: openai:x}}" for name in MEMBERS)}}}
teams:
  t:
    strategy: STRATEGY
    members: [{", ".join(MEMBERS)}]
    simulation: {{skill: 1, latency: 6, input: 1000, output: 400, coordinate: {{latency: 0, input: 90, output: 10}}}}
    options: {{steps: [{STEPS}]}}
"""
ROUNDS: dict[Topology, int] = {"single": 0, "lead_subagent": TASKS, "star_team": 2, "mesh_team": 2}


def told(topology: Topology) -> Evaluation:
    """Return the figures of the model for the same work."""
    workers = WORKERS if topology in {"star_team", "mesh_team"} else 1
    profile = TOPOLOGIES[topology]._replace(execution=1.0, participants=workers + 1, seconds_per_message=0.0)
    settings = EvaluationSettings(
        tasks=TASKS, average_tokens=TOKENS, rounds=ROUNDS[topology], workload="implementation"
    )
    return evaluate_topology(topology, settings, {topology: profile})


def check(topology: Topology, shape: SimulatedShape) -> None:
    """Check that simulation and model agree exactly."""
    model = told(topology)
    work = shape.total_tokens.mean - (shape.asks - shape.steps) * MESSAGE
    simulated = (work, shape.messages, shape.seconds.p50, shape.seconds.p90)
    expected = (model.execution_tokens, model.messages, model.p95_latency_s, model.p95_latency_s)
    if simulated != expected:
        raise WrongAnswer(f"{topology}: the simulation says {simulated}, and the model {expected}")


def main() -> None:
    """Simulate every topology and print the time."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "team.yaml"
        for topology in TOPOLOGIES:
            file.write_text(MANIFEST.replace("STRATEGY", topology), encoding="utf-8")
            team = declared_team(source_of(read_manifest([file])))
            started = time.perf_counter()
            shape = simulate(team, "build it", runs=runs, seed=SEED).shape(OWN)
            seconds = time.perf_counter() - started
            check(topology, shape)
            print(f"{topology}: {runs} runs in {seconds:.1f} s, {seconds / runs * 1000:.2f} ms each", flush=True)


if __name__ == "__main__":
    main()
