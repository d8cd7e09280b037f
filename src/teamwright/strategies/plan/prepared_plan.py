"""Computes the schedule of a plan before it runs, with its diagnostics and the envelopes for workers.

Deterministic, and starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.errors import PlanError
from teamwright.strategies.plan.schedule.diagnostics import Diagnostics, diagnose
from teamwright.strategies.plan.schedule.envelopes import USUAL, batch_envelopes, envelopes_tokens
from teamwright.strategies.plan.schedule.planner import USUAL as PLANNED
from teamwright.strategies.plan.schedule.planner import PlannerSettings, make_schedule
from teamwright.strategies.plan.schedule.schedule import Schedule, validate_schedule
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits

UNNAMED = "plan"
"""The run id in envelopes before a run exists."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schedule with its diagnostics, the envelopes for workers, and their approximate size in tokens."""

    settings: PlannerSettings
    schedule: Schedule
    diagnostics: Diagnostics
    envelopes: tuple[Envelope, ...]
    envelope_tokens: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON, without the settings, which the caller knows."""
        return {
            **self.schedule.to_json(),
            "diagnostics": self.diagnostics.to_json(),
            "envelopes": [envelope.model_dump(mode="json") for envelope in self.envelopes],
            "envelope_tokens": self.envelope_tokens,
        }


def prepare(
    plan: Plan, settings: PlannerSettings = PLANNED, *, run_id: str = UNNAMED, policy: EnvelopeLimits = USUAL
) -> Prepared:
    """Schedule a plan and validate the schedule; compute its diagnostics and its envelopes."""
    schedule = make_schedule(plan, settings)
    if problems := validate_schedule(schedule, plan):
        raise PlanError(problems)
    envelopes = batch_envelopes(run_id, schedule, plan, policy)
    return Prepared(settings, schedule, diagnose(schedule, plan), envelopes, envelopes_tokens(envelopes))
