"""The decision for a topology: dependencies, gates, own runs, the simpler of two, and how certain it is."""

from __future__ import annotations

import pytest

from teamwright.lab.topology_decision import (
    ABOUT_AS_WELL,
    PRIOR_RUNS,
    USUAL_TOKENS,
    Decision,
    OwnRuns,
    assumed_work,
    decide,
    own_weight,
    plan_work,
)
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings, Protocol, Topology, evaluate
from teamwright.values.specs.plan import Plan, Step


def decided(divisible: float, skill: float | None = None, members: int = 5, **more: object) -> Decision:
    settings = EvaluationSettings.model_validate(more)
    return decide(assumed_work(settings.tasks, divisible, "as given"), settings, members=members, skill=skill)


@pytest.mark.parametrize(("protocol", "topology"), [("a2a_lite", "star_team"), ("transcript", "lead_subagent")])
def test_divisible_work_is_for_a_star_and_with_transcripts_for_a_lead(
    protocol: Protocol, topology: Topology
) -> None:  # Z-15
    """The decision agrees with the model's two findings."""
    assert decided(1.0, protocol=protocol).topology == topology
    assert evaluate(EvaluationSettings(protocol=protocol)).recommendation.topology == topology


@pytest.mark.parametrize("protocol", ["a2a_lite", "transcript"])
@pytest.mark.parametrize("tasks", [2, 6, 24, 100])
def test_a_chain_is_for_one_agent(protocol: Protocol, tasks: int) -> None:
    assert decided(0.0, protocol=protocol, tasks=tasks).topology == "single"


def test_no_team_is_faster_than_its_longest_chain() -> None:
    seconds = {one.topology: one.seconds for one in decided(0.0).shapes}
    assert min(seconds.values()) == seconds["single"]


def test_a_team_that_talks_too_much_is_not_chosen() -> None:
    decision = decided(1.0, tasks=6, average_tokens=300)
    assert decision.topology != "star_team"
    assert {one.topology for one in decision.shapes if not one.within_gates} == {"star_team", "mesh_team"}


def test_if_all_talk_too_much_all_are_considered() -> None:
    decision = decided(1.0, tasks=6, average_tokens=300, topologies=["star_team", "mesh_team"])
    assert decision.topology == "star_team"


def test_one_agent_is_chosen_over_a_team_that_is_hardly_ahead() -> None:
    decision = decided(0.88, tasks=6, average_tokens=300)
    best = next(one for one in decision.shapes if one.within_gates)
    assert 0 < best.score - decision.chosen.score < ABOUT_AS_WELL
    assert decision.topology == "single"
    assert decision.why.endswith("and one agent is simpler")
    assert decision.confidence.value == 0


def test_a_small_team_is_not_evaluated_as_a_large_one() -> None:
    seconds = [decided(1.0, members=many, topologies=["star_team"]).chosen.seconds for many in (3, 4, 5, 9)]
    assert seconds == sorted(set(seconds), reverse=True) + seconds[-1:]


def test_one_agent_is_named_where_it_would_be_better_but_steps_name_several() -> None:
    chain = decided(0.0, topologies=["star_team", "mesh_team"])
    assert chain.one_agent_is_better
    wide = decided(1.0, topologies=["star_team", "mesh_team"])
    assert wide.one_agent is not None
    assert not wide.one_agent_is_better
    assert decided(1.0).one_agent is None


@pytest.mark.parametrize(("divisible", "level"), [(0.0, "medium"), (0.5, "low"), (1.0, "medium")])
def test_without_own_runs_a_decision_is_as_certain_as_advice_was_on_such_work(divisible: float, level: str) -> None:
    found = decided(divisible).confidence
    assert (found.level, found.weight) == (level, 0)
    assert found.value <= found.published


def test_own_judged_runs_make_a_clear_decision_certain() -> None:
    fitted: dict[Topology, OwnRuns] = {
        name: OwnRuns(90, 900, profile._replace(pass_rate=0.9 if name == "single" else 0.3))
        for name, profile in TOPOLOGIES.items()
    }
    found = decide(assumed_work(24, 1.0, "as given"), EvaluationSettings(), own_runs=fitted)
    assert found.topology == "single"
    assert (found.confidence.level, found.confidence.weight) == ("high", 0.9)


def test_own_runs_count_half_when_they_are_as_many_as_findings_count_for() -> None:
    assert (own_weight(0), own_weight(PRIOR_RUNS), own_weight(9 * PRIOR_RUNS)) == (0, 0.5, 0.9)


def plan(*needs: str) -> Plan:
    """Steps `0`, `1` and so on, each with its needs as digits."""
    return Plan(steps=tuple(Step(id=str(number), needs=tuple(one)) for number, one in enumerate(needs)))


@pytest.mark.parametrize(
    ("given", "chain", "divisible"),
    [
        (plan(""), 1, 0.0),
        (plan("", "0", "1"), 3, 0.0),
        (plan("", ""), 1, 1.0),
        (plan("", "0", "0", "12"), 3, 0.3333),
    ],
)
def test_a_chain_cannot_be_divided_and_steps_without_needs_can(given: Plan, chain: int, divisible: float) -> None:
    work = plan_work(given)
    assert (work.steps, work.longest_chain) == (len(given.steps), chain)
    assert work.divisible == pytest.approx(divisible, abs=1e-4)


def test_the_size_of_a_step_is_the_plans_else_the_usual_one() -> None:
    estimated = Plan(steps=(Step(id="a", execution_tokens=300), Step(id="b", execution_tokens=500)))
    assert plan_work(estimated, usual_tokens=9).average_tokens == 400
    assert plan_work(plan("", ""), usual_tokens=9).average_tokens == 9
    assert plan_work(plan("", "")).average_tokens == USUAL_TOKENS


def test_a_given_share_implies_the_longest_chain() -> None:
    assert [assumed_work(11, share, "as given").longest_chain for share in (0.0, 0.5, 1.0)] == [11, 6, 1]
