"""Facade of plans: plans and their schedules before a run.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.strategies.plan.planner import PlannerSettings, make_schedule
    from teamwright.strategies.plan.schedule import (
        Schedule,
        batch_envelopes,
        diagnose,
        envelopes_tokens,
        validate_schedule,
    )
    from teamwright.values.specs.plan import Plan, Step

__all__ = [
    "Plan",
    "PlannerSettings",
    "Schedule",
    "Step",
    "batch_envelopes",
    "diagnose",
    "envelopes_tokens",
    "make_schedule",
    "validate_schedule",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.strategies.plan.schedule": "Schedule batch_envelopes diagnose envelopes_tokens validate_schedule",
        "teamwright.strategies.plan.planner": "PlannerSettings make_schedule",
        "teamwright.values.specs.plan": "Plan Step",
    },
)
