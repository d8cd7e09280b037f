"""Facade of plans: plans and their schedules before a run.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.strategies.plan.schedule.diagnostics import diagnose
    from teamwright.strategies.plan.schedule.envelopes import batch_envelopes, envelopes_tokens
    from teamwright.strategies.plan.schedule.planner import PlannerSettings, make_schedule
    from teamwright.strategies.plan.schedule.schedule import Schedule, validate_schedule
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
        "teamwright.strategies.plan.schedule.diagnostics": "diagnose",
        "teamwright.strategies.plan.schedule.envelopes": "batch_envelopes envelopes_tokens",
        "teamwright.strategies.plan.schedule.planner": "PlannerSettings make_schedule",
        "teamwright.strategies.plan.schedule.schedule": "Schedule validate_schedule",
        "teamwright.values.specs.plan": "Plan Step",
    },
)
