"""Facade of planning: plans, schedules, and the choice of a topology before a run.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.planning.plan_bundle import Bundle, orchestrate
    from teamwright.planning.schedule.diagnostics import diagnose
    from teamwright.planning.schedule.handoffs import batch_handoffs, handoff_tokens
    from teamwright.planning.schedule.planner import PlannerSettings, make_schedule
    from teamwright.planning.schedule.schedule import Schedule, validate_schedule
    from teamwright.planning.topology.model import EvaluationSettings, TopologyReport, evaluate
    from teamwright.teams.auto_topology import auto_team
    from teamwright.values.specs.plan import Plan, Step

__all__ = [
    "Bundle",
    "EvaluationSettings",
    "Plan",
    "PlannerSettings",
    "Schedule",
    "Step",
    "TopologyReport",
    "auto_team",
    "batch_handoffs",
    "diagnose",
    "evaluate",
    "handoff_tokens",
    "make_schedule",
    "orchestrate",
    "validate_schedule",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.planning.schedule.diagnostics": "diagnose",
        "teamwright.planning.schedule.handoffs": "batch_handoffs handoff_tokens",
        "teamwright.planning.plan_bundle": "Bundle orchestrate",
        "teamwright.planning.schedule.planner": "PlannerSettings make_schedule",
        "teamwright.planning.schedule.schedule": "Schedule validate_schedule",
        "teamwright.planning.topology.model": "EvaluationSettings TopologyReport evaluate",
        "teamwright.teams.auto_topology": "auto_team",
        "teamwright.values.specs.plan": "Plan Step",
    },
)
