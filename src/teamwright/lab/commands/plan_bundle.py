"""`teamwright plan --bundle`: evaluates topologies for a plan, and schedules it for the best one."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.lab.auto_topology import orchestrate
from teamwright.lab.evaluation.report import section_of
from teamwright.lab.evaluation.tables import section_table
from teamwright.lab.topology.model import TopologyReport
from teamwright.strategies.plan.planner import PlannerSettings, Prepared
from teamwright.values.specs.plan import Plan
from teamwright.values.text.display import count_text


def bundle_plan(plan: Plan, settings: PlannerSettings) -> tuple[Prepared, dict[str, JsonValue], str]:
    """Return the prepared plan, the whole bundle as JSON, and the evaluation as text."""
    bundle = orchestrate(plan, planner=settings)
    return bundle.prepared, bundle.to_json(), _evaluation(bundle.evaluation)


def _evaluation(report: TopologyReport) -> str:
    settings, choice = report.settings, report.recommendation
    head = (
        f"{count_text(settings.tasks, 'task')} of about {count_text(settings.average_tokens, 'token')},"
        f" {settings.workload} work, {settings.budget} budget, {settings.protocol}"
    )
    pool = "of those that pass their gates" if choice.pool == "passing" else "of all, because none passes its gates"
    table = section_table(section_of(report)).text()
    return f"{head}\n{table}\n{choice.topology}: the best by {choice.preference} score, {pool}"
