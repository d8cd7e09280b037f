"""Durations as people write them."""

from __future__ import annotations

import re

from teamwright.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(text: str, what: str = "an age") -> float:
    """Return the seconds of a duration such as 7d; messages call it `what`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not {what}; write a number and a unit, for example 90s, 30m, 12h, 7d or 4w.")
    return float(found[1]) * UNITS[found[2]]
