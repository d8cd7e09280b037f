"""Limits that a person raises while a run is going on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from teamwright.values.limits.limits import Limits
from teamwright.values.people.interventions import RaiseBudget

RAISABLE = ("tokens", "usd", "calls", "seconds")
"""The names of limits that can be raised."""


def raised(limits: Limits | None, raises: Iterable[RaiseBudget]) -> Limits | None:
    """Return the limits after these raises; a limit that is not set stays unset, and none is lowered."""
    if limits is None:
        return None
    for one in raises:
        higher = {
            name: given
            for name in RAISABLE
            if (given := amount(one, name)) is not None
            and (present := amount(limits, name)) is not None
            and given > present
        }
        limits = limits.model_copy(update=higher) if higher else limits
    return limits


def amount(limits: Limits | RaiseBudget, name: str) -> float | None:
    """Return one limit by its name."""
    return cast("float | None", getattr(limits, name))
