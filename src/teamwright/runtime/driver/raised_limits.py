"""Limits that a person raises while a run is going on."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.values.limits import Limits
from teamwright.values.people import RaiseBudget


def raised(limits: Limits | None, raises: Iterable[RaiseBudget]) -> Limits | None:
    """Return the limits after these raises; a limit that is not set stays unset, and none is lowered."""
    if limits is None:
        return None
    for one in raises:
        present = amounts(limits)
        higher = {name: given for name, given in amounts(one).items() if name in present and given > present[name]}
        limits = limits.model_copy(update=higher) if higher else limits
    return limits


def amounts(limits: Limits | RaiseBudget) -> dict[str, float]:
    """Return the limits that are set and can be raised, by name."""
    found = {"tokens": limits.tokens, "usd": limits.usd, "calls": limits.calls, "seconds": limits.seconds}
    return {name: value for name, value in found.items() if value is not None}
