"""The plan of a team before it runs: the steps that its manifest fixes, and the settings of their schedule."""

from __future__ import annotations

from typing import cast

from pydantic import BaseModel

from teamwright.errors import UsageError
from teamwright.strategies.plan.dag import Dag
from teamwright.strategies.plan.planner import PlannerSettings
from teamwright.strategies.plan.step_options import STEPS
from teamwright.strategies.registry import find_strategy
from teamwright.values.specs.manifest import TeamSpec
from teamwright.values.specs.plan import Plan, Step

MAX_PARALLEL = "max_parallel"


def preview_plan(name: str, spec: TeamSpec | None, task: str | None = None) -> tuple[Plan, PlannerSettings]:
    """Return the plan of a team, with its task for steps that have none, and the settings that the team declares.

    Raises `UsageError` if no manifest can say what the steps are. Without a spec, the name is that of an agent.
    """
    if spec is None:
        raise UsageError(f"{name!r} is an agent, so its steps are not known in advance: {_instead()}")
    # A class of the user is imported only where the team is built.
    options = None if ":" in spec.strategy else find_strategy(spec.strategy).options
    if options is None or STEPS not in options.model_fields:
        raise UsageError(
            f"{name!r} uses the strategy {spec.strategy!r}, so its steps are not known in advance: {_instead()}"
        )
    found = _steps(options.model_validate(spec.options))
    if not found:
        raise UsageError(
            f"{name!r} declares no `{STEPS}`, so its steps are not known in advance: its members plan when it runs;"
            " `teamwright show` draws the team."
        )
    steps = [step.model_copy(update={"task": step.task or task}) for step in found]
    own = {one: spec.options[one] for one in PlannerSettings.model_fields if spec.options.get(one) is not None}
    if MAX_PARALLEL not in options.model_fields:
        own[MAX_PARALLEL] = 1  # its steps never run side by side
    return Plan(steps=tuple(steps)), PlannerSettings.model_validate(own)


def _steps(options: BaseModel) -> list[Step]:
    found = dict(options)[STEPS]
    return [one for one in cast("tuple[object, ...]", found) if isinstance(one, Step)]


def _instead() -> str:
    fixed = f"a team with fixed `{STEPS}`, such as `strategy: {Dag.name}`"
    return f"plan a task file, or {fixed}; `teamwright show` draws any team."
