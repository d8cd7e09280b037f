"""Critical paths of small runs made by hand, and topologies that agree with the model."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from teamwright import FunctionAgent, Team
from teamwright.history.kpis import TurnFigures
from teamwright.lab import simulate
from teamwright.lab.simulation.simulated_agents import Simulator
from teamwright.lab.simulation.trials import (
    OWN,
    Bottleneck,
    CommonPath,
    PathStep,
    Trial,
    bottleneck,
    common_path,
    critical_path,
    in_topology,
    step_name,
)
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings, Topology, evaluate_topology
from tests.lab.simulated_teams import constant, messages, team_of


def turn(step: str, began: float, ended: float | None, member: str = "m") -> TurnFigures:
    status = "open" if ended is None else "passed"
    return TurnFigures(key=f"team/{step}/work", member=member, purpose="work", began=began, ended=ended, status=status)


def names(path: tuple[PathStep, ...]) -> str:
    return "".join(one.step for one in path)


def test_the_path_leads_over_what_the_next_had_to_wait_for() -> None:
    turns = [turn("a", 0, 2), turn("b", 2, 3), turn("c", 2, 7), turn("d", 7, 9), turn("e", 3, 8)]
    assert names(critical_path(turns)) == "acd"
    assert [one.seconds for one in critical_path(turns)] == [2, 5, 2]


def test_a_wait_between_two_turns_is_stepped_over() -> None:
    assert names(critical_path([turn("a", 0, 2), turn("b", 5, 6)])) == "ab"


def test_an_open_turn_is_on_no_path() -> None:
    assert names(critical_path([turn("a", 0, 2), turn("b", 2, None)])) == "a"
    assert critical_path([]) == ()


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=20))
def test_turns_of_a_path_never_overlap_and_end_with_the_last(times: list[tuple[float, float]]) -> None:
    turns = [turn(str(place), began, began + long) for place, (began, long) in enumerate(times)]
    path = critical_path(turns)
    ends = {step_name(one.key): (one.began, one.ended or 0.0) for one in turns}
    assert ends[path[-1].step][1] == max(ended for _, ended in ends.values())
    for before, after in pairwise(path):
        assert ends[before.step][1] <= ends[after.step][0] + 1e-6


def test_a_place_is_reported_without_the_team_attempts_and_escapes() -> None:
    assert step_name("team/a/work") == "a"
    assert step_name("team/a/step/work#2") == "a"
    assert step_name("team/round-1/writer") == "round-1/writer"
    assert step_name("team/a%20b/work") == "a b"
    assert step_name("team") == "team"


def test_the_most_common_path_has_the_average_times_of_its_runs() -> None:
    one = critical_path([turn("a", 0, 2), turn("b", 2, 4)])
    other = critical_path([turn("a", 0, 4), turn("b", 4, 5)])
    rare = critical_path([turn("c", 0, 9)])
    steps = (PathStep(step="a", member="m", seconds=3.0), PathStep(step="b", member="m", seconds=1.5))
    assert common_path([one, rare, other]) == CommonPath(steps=steps, share=0.6667)
    assert common_path([]) == CommonPath(steps=(), share=0.0)


def test_the_bottleneck_has_the_most_time_over_all_runs() -> None:
    paths = [critical_path([turn("a", 0, 2), turn("b", 2, 8)]), critical_path([turn("a", 0, 3)])]
    assert bottleneck(paths, 11.0) == Bottleneck(
        step="b", member="m", seconds=6.0, share_of_time=round(6 / 11, 4), share_of_runs=0.5
    )
    assert bottleneck([()], 0.0) is None


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
    star_team:
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


@pytest.mark.experts
@pytest.mark.parametrize("topology", ["star_team", "mesh_team"])
def test_steps_of_roles_that_are_members_and_an_answer_of_their_own_fit_a_topology(topology: Topology) -> None:
    """As in the plan that `teamwright ask` makes: members are roles, and the last step is called `answer`."""
    steps = [{"id": "find", "role": "b"}, {"id": "answer", "role": "a", "needs": ["find"]}]
    members = [FunctionAgent(name, lambda turn: turn.task) for name in "abc"]
    options: dict[str, Any] = {"lead": "a", "steps": steps}
    team = Team("t", members=members, strategy="expert", options=options)
    other = in_topology(team, topology)
    assert other.settings.options["steps"] == [
        {"id": "find", "agent": "b"},
        {"id": "answer", "agent": "a", "needs": ["find"]},
    ]
    shape = simulate(team, "Find it.", topologies=[topology], runs=2, seed=1).shape(topology)
    assert shape.completed == 1.0
