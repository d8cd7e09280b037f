"""Which rung of the failure ladder comes next, without any ask."""

from __future__ import annotations

import pytest

from teamwright.agents.contract.agent import Agent, Policy
from teamwright.strategies.plan.options import FailureLadder
from teamwright.strategies.plan.steps.rungs import Climb
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers

STEP = Step(id="a")


class Alone:
    """A team that can do nothing about a failure."""

    can_replan = can_adjust = False

    def exchange(self, step: Step, failed: Agent) -> Agent:
        return failed


def member(**policy: str) -> Agent:
    made = FakeMembers().member("a")
    made.policy = Policy(**policy)  # type: ignore[arg-type]
    return made


def failed(error: str = "refused") -> Failure:
    return Failure(member="a", error=error, message="")


def rungs(climb: Climb, agent: Agent, failure: Failure) -> list[str]:
    """Climb to the end; return each rung, after those that were passed over."""
    found: list[str] = []
    while True:
        if climb.successor(failure, agent, STEP) is not None:
            climb.retries += 1
            found.append("retry")
            continue
        rung, passed_over = climb.next_rung(failure, agent, STEP, is_shared=False)
        found += [*(f"no {one}" for one in passed_over), rung]
        if rung not in ("upgrade_model", "downgrade_model"):
            return found
        climb.change_model(rung)


@pytest.mark.parametrize(
    ("policy", "error", "expected"),
    [
        ({}, "refused", ["retry", "no upgrade_model", "no downgrade_model", "skip_step"]),
        ({"stronger": "s/x"}, "refused", ["retry", "upgrade_model", "no downgrade_model", "skip_step"]),
        ({"economy": "s/y"}, "refused", ["retry", "no upgrade_model", "downgrade_model", "no upgrade_model",
                                          "skip_step"]),
        ({"stronger": "s/x", "economy": "s/y"}, "refused", ["retry", "upgrade_model", "downgrade_model", "skip_step"]),
        ({"stronger": "s/x", "economy": "s/y"}, "budget", ["no retry", "no upgrade_model", "downgrade_model",
                                                            "no retry", "no upgrade_model", "skip_step"]),
        ({"stronger": "s/x"}, "invalid_request", ["no retry", "no upgrade_model", "no downgrade_model", "skip_step"]),
    ],
)  # fmt: skip
def test_rungs_come_in_their_order_and_those_that_do_not_apply_are_named(
    policy: dict[str, str], error: str, expected: list[str]
) -> None:
    assert rungs(Climb(FailureLadder(), Alone()), member(**policy), failed(error)) == expected


def test_a_ladder_without_other_models_tries_none() -> None:
    ladder = FailureLadder(retry=0, upgrade_model=False, downgrade_model=False, skip_step=False)
    assert rungs(Climb(ladder, Alone()), member(stronger="s/x", economy="s/y"), failed()) == ["abort_team"]


def test_members_who_share_a_step_have_no_one_model_to_change() -> None:
    climb = Climb(FailureLadder(retry=0), Alone())
    rung, passed_over = climb.next_rung(failed(), member(stronger="s/x"), STEP, is_shared=True)
    assert (rung, passed_over) == ("skip_step", ("upgrade_model", "downgrade_model"))
