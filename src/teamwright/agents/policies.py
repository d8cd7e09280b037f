"""What a member's failure means to its team, and who stands in for it."""

from __future__ import annotations

from teamwright.agents.protocol import Agent
from teamwright.errors import UsageError
from teamwright.values.manifest import FallbackModel


def check_standing(name: str, *, optional: bool, critical: bool) -> None:
    """Refuse a member that a team could do without and could not."""
    if optional and critical:
        raise UsageError(
            f"{name!r} is optional and critical: a failure can't be both skipped and a reason to pause; keep one."
        )


def fallback_spec(name: str, fallback: Agent | None) -> str | FallbackModel | None:
    """A fallback as a declaration: another agent by its name, the same agent on another model by that."""
    if fallback is None or fallback.name != name:
        return fallback.name if fallback else None
    model = getattr(fallback, "model", None)
    return FallbackModel(model=model) if model is not None else None
