"""Expert teams by their known names: defaults of the plan engine, with roles, reviews and recovery.

Every setting can be changed in each of them.
"""

from __future__ import annotations

from teamwright.strategies.plan.engine import PlanStrategy
from teamwright.strategies.plan.options import LEAD, options_with
from teamwright.values.specs.evaluation import Evaluate

NOT_BLANK = Evaluate.model_construct()
LADDER = ("retry", "upgrade_model", "downgrade_model", "skip_step")
TOGETHER = ("adjust", "upgrade_model", "finish")
"""A step is tried once more, as the lead changes it; then one agent finishes the task."""


class Expert(PlanStrategy):
    """A plan of steps with roles, each reviewed; the failure ladder and the risk say what a failure does."""

    name = "expert"
    options = options_with("ExpertOptions", evaluate=NOT_BLANK, on_failure=LADDER, timeout=600.0)


class Dispatch(PlanStrategy):
    """Each step goes to the least busy member, or the one that it names; a retry goes to another member."""

    name = "dispatch"
    options = options_with(
        "DispatchOptions",
        evaluate=NOT_BLANK,
        on_failure=("other_member", "upgrade_model", "skip_step"),
        pool=True,
        timeout=600.0,
    )


class React(PlanStrategy):
    """Decisions of one lead, each on steps that run at once, until it has enough for the answer."""

    name = "react"
    options = options_with(
        "ReactOptions",
        answer=LEAD,
        decide="stepwise",
        evaluate=NOT_BLANK,
        max_steps=10,
        on_failure=LADDER,
        timeout=600.0,
    )


class Collaborate(PlanStrategy):
    """Steps in turn, in parts and in competition, with milestones; the lead plans, decides and answers."""

    name = "collaborate"
    options = options_with(
        "CollaborateOptions",
        answer=LEAD,
        on_failure=TOGETHER,
        on_planner_failure="finish",
        proposals=3,
        shared_steps=True,
    )


class Live(PlanStrategy):
    """Members talk while they work, and people can change everything: the plan, the members, the direction."""

    name = "live"
    options = options_with(
        "LiveOptions",
        answer=LEAD,
        on_failure=TOGETHER,
        on_planner_failure="step_each",
        rounds_of_talk=3,
        sees="all",
        talk="all",
    )
    peers = True
