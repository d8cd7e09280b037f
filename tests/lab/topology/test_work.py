"""How much of a plan can be divided follows from its dependencies."""

from __future__ import annotations

import pytest

from teamwright.lab.topology.work import USUAL_TOKENS, assumed_work, plan_work
from teamwright.values.specs.plan import Plan, Step


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
