"""Advice: one agent for a chain, a team for what can be divided, own runs over findings, and how sure it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import ModelAgent, Team
from teamwright.errors import UsageError
from teamwright.lab import advise
from teamwright.lab.advice import Advice, work_of
from teamwright.lab.calibration import Calibration, Fit
from teamwright.lab.topology_decision import MEASURED
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings, Protocol, TopologyProfiles, evaluate_topology
from tests.lab.simulated_teams import PLAN, team_of


def team(steps: list[dict[str, object]]) -> Team:
    members = [ModelAgent(name, model="openai:x") for name in ("a", "b", "c")]
    return Team("t", members=members, strategy="dag", options={"steps": steps})  # pyright: ignore[reportArgumentType]


def chain(length: int, **more: object) -> Team:
    steps = [{"id": f"s{n}", "agent": "a", "needs": [f"s{n - 1}"] if n else [], **more} for n in range(length)]
    return team(steps)


def side_by_side(many: int, **more: object) -> Team:
    return team([{"id": f"s{n}", "agent": "a", **more} for n in range(many)])


OF_TWO: TopologyProfiles = {**TOPOLOGIES, "star_team": TOPOLOGIES["star_team"]._replace(participants=2)}
"""The topologies of the team in `PLAN`, which has two members."""


def shape(advice: Advice, topology: str) -> tuple[float, int, float]:
    found = next(one for one in advice.shapes if one.topology == topology)
    return found.pass_rate, found.total_tokens, found.seconds


def test_steps_that_stand_on_each_other_are_for_one_agent() -> None:
    advice = advise(chain(12), "write it")
    assert advice.recommended == "single"
    assert advice.sentence.startswith("Use one agent for this work")
    assert (advice.work.longest_chain, advice.work.divisible) == (12, 0.0)
    alone = shape(advice, "single")[0]
    assert shape(advice, "star_team")[0] == pytest.approx(alone * (1 - MEASURED.lost), abs=1e-3)


def test_many_steps_that_need_nothing_are_for_a_team_with_a_lead() -> None:
    advice = advise(side_by_side(48, execution_tokens=20_000), "review it")
    assert advice.recommended == "star_team"
    assert advice.work.divisible == 1.0
    assert shape(advice, "star_team")[2] < shape(advice, "single")[2]


def test_no_team_is_faster_than_its_longest_chain() -> None:
    advice = advise(chain(12), "write it")
    assert shape(advice, "star_team")[2] >= shape(advice, "single")[2]


def test_where_one_agent_is_seldom_right_a_team_gains_on_what_can_be_divided(tmp_path: Path) -> None:
    steps = ", ".join(f"{{id: s{number}, agent: a}}" for number in range(12))
    text = f"""\
agents:
  a: {{model: openai:x, simulation: {{skill: 0.2}}}}
  b: {{model: openai:x}}
  c: {{model: openai:x}}
teams:
  t: {{strategy: dag, members: [a, b, c], simulation: {{skill: 0.35}}, dag: {{steps: [{steps}]}}}}
"""
    advice = advise(team_of(tmp_path, text), "solve it", recommend="quality")
    assert shape(advice, "single")[0] == pytest.approx(0.3)
    assert shape(advice, "star_team")[0] == pytest.approx(0.3 + 0.7 * MEASURED.removed)
    assert advice.recommended != "single"


@pytest.mark.parametrize(("members", "possible"), [(1, 1), (2, 2), (3, 4)])
def test_only_topologies_for_which_there_are_members_are_offered(members: int, possible: int) -> None:
    agents = [ModelAgent(name, model="openai:x") for name in "abc"[:members]]
    for strategy in ("sequential", "round_robin"):
        made = Team("t", members=agents, strategy=strategy, max_turns=9)
        assert {one.topology for one in advise(made, "x").shapes} == set(list(TOPOLOGIES)[:possible])


def test_steps_that_name_several_members_are_not_for_one_agent_even_if_it_would_be_better(tmp_path: Path) -> None:
    advice = advise(team_of(tmp_path), "x", divisible=0.0)
    assert [one.topology for one in advice.shapes] == ["star_team"]
    assert advice.sentence == (
        "Use a star_team for this work because no other topology is possible with these members and steps."
        " One agent would suit it better, but the steps name several members."
    )
    assert any(one.startswith("the steps name several members; one agent for all of them: ") for one in advice.reasons)


def test_own_runs_outweigh_published_findings_as_they_add_up() -> None:
    rates: list[float] = []
    for runs in (0, 10, 90):
        fit = Fit(runs=max(1, runs), steps=100, judged=100, pass_rate=0.95)
        profile = Calibration(topologies={"star_team": fit}) if runs else None
        advice = advise(chain(12), "write it", profile=profile)
        rates.append(shape(advice, "star_team")[0])
    prior, half, most = rates
    own = 0.95 + 0.01  # what the protocol brings
    assert half == pytest.approx((prior + own) / 2, abs=1e-3)
    assert most == pytest.approx(0.9 * own + 0.1 * prior, abs=1e-3)


def test_own_runs_without_judgements_say_nothing_of_quality() -> None:
    fit = Fit(runs=500, steps=5000, judged=0, pass_rate=0.99)
    advice = advise(chain(12), "write it", profile=Calibration(topologies={"star_team": fit}))
    assert shape(advice, "star_team")[0] == shape(advise(chain(12), "write it"), "star_team")[0]


def test_advice_says_how_many_judged_steps_it_rests_on() -> None:
    fit = Fit(runs=3, steps=30, judged=12, pass_rate=0.9)
    advice = advise(chain(12), "x", profile=Calibration(topologies={"star_team": fit, "single": Fit(runs=1, steps=1)}))
    assert "judged steps (star_team 12) give their pass rates" in advice.reasons[-2]
    assert "runs of single count only for tokens and time" in advice.reasons[-2]


def test_own_runs_without_judgements_make_no_advice_more_certain() -> None:
    fit = Fit(runs=90, steps=900, pass_rate=0.9)
    profile = Calibration(topologies={"single": fit, "lead_subagent": fit, "star_team": fit, "mesh_team": fit})
    advice, without = advise(chain(12), "x", profile=profile), advise(chain(12), "x")
    assert (advice.confidence.weight, advice.confidence.own_runs) == (0, 90)
    assert advice.confidence.level == without.confidence.level == "medium"
    assert advice.reasons[-2].endswith("count only for tokens and time, because none of their steps was judged")


def test_advice_is_surer_with_own_runs_and_a_clear_lead() -> None:
    close = advise(side_by_side(6), "x").confidence
    profile = Calibration(
        topologies={
            "single": Fit(runs=90, steps=900, judged=900, pass_rate=0.9),
            "lead_subagent": Fit(runs=90, steps=900, judged=900, pass_rate=0.3),
            "star_team": Fit(runs=90, steps=900, judged=900, pass_rate=0.3),
            "mesh_team": Fit(runs=90, steps=900, judged=900, pass_rate=0.3),
        }
    )
    sure = advise(chain(12), "x", profile=profile).confidence
    assert (sure.level, sure.own_runs, sure.weight) == ("high", 90, 0.9)
    assert sure.value > close.value
    assert close.weight == 0


def test_what_the_advice_rests_on_is_cited() -> None:
    advice = advise(chain(5), "x")
    assert {one.source for one in advice.priors} == {"arXiv 2512.08296", "arXiv 2604.02460"}
    findings = " ".join(one.finding for one in advice.priors)
    for number in ("42%", "44%", "45%", "1.30 times", "1.11 times", "0.032", "0.103"):
        assert number in findings
    assert "17 and 4 times are ratios of overhead tokens" in findings
    assert "in 9 of 9 cases of sequential work (PlanCraft), and in 26 of 36 overall" in advice.reasons[-1]
    assert list(advice.to_json()) == [
        "team", "task", "strategy", "recommended", "sentence", "confidence", "work", "shapes", "reasons", "priors",
    ]  # fmt: skip


def test_the_parallel_share_is_taken_from_the_plan_that_declares_it() -> None:
    selector = Team(
        "t", members=[ModelAgent(name, model="openai:x") for name in "ab"], helpers=[ModelAgent("c", model="openai:x")],
        strategy="selector", max_turns=4, options={"agent": "c"},
    )  # fmt: skip
    assert work_of(selector).divisible == 0.5
    assert "--divisible" in work_of(selector).known
    assert work_of(selector, 0.9).divisible == 0.9
    assert work_of(chain(11), 1.0).longest_chain == 1
    with pytest.raises(UsageError, match="divisible is 2, expected a number from 0 to 1"):
        advise(selector, "x", divisible=2)


@pytest.mark.parametrize(
    ("share", "protocol"), [("", "a2a_lite"), ("transcript", "transcript"), ("output", "transcript")]
)
def test_members_share_as_the_team_says_else_as_topologies_do(tmp_path: Path, share: str, protocol: Protocol) -> None:
    text = PLAN.replace("strategy: dag", f"strategy: dag\n    share: {share}" if share else "strategy: dag")
    told = evaluate_topology("star_team", EvaluationSettings(tasks=10, protocol=protocol), OF_TWO)
    assert shape(advise(team_of(tmp_path, text), "x"), "star_team")[1] == told.total_tokens


def test_the_budget_is_that_of_the_teams_envelopes_unless_one_is_given(tmp_path: Path) -> None:
    made = team_of(
        tmp_path, PLAN.replace("strategy: dag", "strategy: dag\n    share: a2a_lite\n    envelope: {budget: low}")
    )
    low, high = (
        evaluate_topology("star_team", EvaluationSettings(tasks=10, budget=one), OF_TWO) for one in ("low", "high")
    )
    assert shape(advise(made, "x"), "star_team")[1] == low.total_tokens
    assert shape(advise(made, "x", budget="high"), "star_team")[1] == high.total_tokens
