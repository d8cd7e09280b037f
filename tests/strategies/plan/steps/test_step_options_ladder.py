"""Which rung of the failure ladder comes next, without any ask."""

from __future__ import annotations

import re

import pytest

from teamwright.agents.agent import Agent, Policy
from teamwright.errors import InvalidValue
from teamwright.strategies.plan.options import FailureLadder, PlanOptions
from teamwright.strategies.plan.steps.step_options import Climb
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers

STEP = Step(id="a")
USUAL = FailureLadder.of(("retry", "upgrade_model", "downgrade_model", "skip_step"))


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
    assert rungs(Climb(USUAL, Alone()), member(**policy), failed(error)) == expected


def test_a_ladder_without_other_models_tries_none() -> None:
    assert rungs(Climb(FailureLadder(), Alone()), member(stronger="s/x", economy="s/y"), failed()) == ["abort_team"]


def test_members_who_share_a_step_have_no_one_model_to_change() -> None:
    climb = Climb(FailureLadder.of(("upgrade_model", "downgrade_model", "skip_step")), Alone())
    rung, passed_over = climb.next_rung(failed(), member(stronger="s/x"), STEP, is_shared=True)
    assert (rung, passed_over) == ("skip_step", ("upgrade_model", "downgrade_model"))


class Crowd(Alone):
    """A team with a lead and another member."""

    can_adjust = True

    def exchange(self, step: Step, failed: Agent) -> Agent:
        return FakeMembers().member("b")


def test_attempts_are_made_as_they_are_listed() -> None:
    climb, agent = Climb(FailureLadder.of(("retry", "other_member", "adjust", "retry")), Crowd()), member()
    found: list[tuple[str, bool]] = []
    while (successor := climb.successor(failed(), agent, STEP)) is not None:
        found.append((successor.name, climb.adjusts_next))
        climb.retries += 1
    assert found == [("a", False), ("b", False), ("a", True), ("a", False)]


def test_attempts_that_can_not_help_a_wrong_setting_are_passed_over() -> None:
    wrong = failed("invalid_request")
    climb, agent = Climb(FailureLadder.of(("retry", "other_member", "retry", "adjust")), Crowd()), member()
    first = climb.successor(wrong, agent, STEP)
    assert (first.name if first else "", climb.retries) == ("b", 1)
    climb.retries += 1
    assert (climb.successor(wrong, agent, STEP), climb.adjusts_next, climb.retries) == (agent, True, 3)


def test_a_change_of_the_lead_is_sought_after_a_review() -> None:
    climb = Climb(FailureLadder.of(("retry", "adjust")), Crowd())
    assert (climb.will_adjust, climb.adjusts_next) == (True, False)
    assert climb.seek_adjustment()
    climb.retries += 1
    assert not climb.seek_adjustment()


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (["upgrade_model", "retry"], "write  [retry, upgrade_model]"),
        (["finish", "skip_step", "replan"], "write  [replan, skip_step, finish]"),
        (["skip_step", "skip_step"], "has 'skip_step' twice"),
        ([{"finish": "b"}, "finish"], "has 'finish' twice"),
        ([], "on_failure"),
        (["abort"], "on_failure"),
    ],
)
def test_rungs_in_another_order_are_refused_with_the_right_one(written: list[object], problem: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(problem)):
        PlanOptions(on_failure=written)  # pyright: ignore[reportArgumentType]


def test_attempts_are_mixed_and_repeated() -> None:
    rungs = ("retry", "adjust", "retry", "other_member", "replan", "replan", {"finish": "b"})
    found = PlanOptions(on_failure=rungs).ladder  # pyright: ignore[reportArgumentType]
    assert found == FailureLadder(("retry", "adjust", "retry", "other_member"), replans=2, finish="b")
