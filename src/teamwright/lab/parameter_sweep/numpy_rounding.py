"""Rounds arrays to decimals exactly as Python rounds floats: by the exact value of the binary number, half to even.

`np.round` scales first, and the error of that product decides numbers close to the middle. Here the error is computed
too, so that the product is exact as a sum of two floats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPLITTER = float(2**27 + 1)
"""Cuts a float into two halves of 26 bits, whose products are exact."""
LARGE = float(2**50)
"""From here on, a scaled number has too few bits left for its decimals, and Python's own `round` is used."""
SMALL = 1e-280


def rounded(values: Floats, digits: int) -> Floats:
    """Each value rounded to so many decimals, as `round(value, digits)` does it."""
    scale = float(10**digits)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * scale
        near = np.rint(scaled)
        close = np.abs(np.abs(scaled - near) - 0.5) <= np.abs(scaled) * 2**-52
    # Values that are not finite, large, or so small that halves lose bits are rare, so they are rounded one by one.
    hard = ~((np.abs(scaled) < LARGE) & ((np.abs(values) > SMALL) | (values == 0)))
    close &= ~hard
    if close.any():
        near[close] = _nearest(np.abs(values[close]), scale, np.abs(scaled[close]))
    # A quotient of two exact floats is the float nearest to the decimal number, which is what reading its digits gives.
    found = np.copysign(near / scale, values)  # which also gives magnitudes from `_nearest` their sign
    if hard.any():
        found[hard] = [round(value, digits) for value in values[hard].tolist()]
    return found


def _nearest(values: Floats, scale: float, scaled: Floats) -> Floats:
    """The whole numbers nearest to the exact products, of which `scaled` are the rounded ones; none may be negative.

    For a negative number just below a half, the distance to its floor would not be exact.
    """
    low = np.floor(scaled)
    # Both parts are exact, and a rounded sum has the sign of the exact one: above the middle, below it, or in it.
    beyond = (scaled - low - 0.5) + _error(values, scale, scaled)
    even = low + np.mod(low, 2)
    return np.where(beyond == 0, even, np.where(beyond > 0, low + 1, low))


def _error(values: Floats, scale: float, product: Floats) -> Floats:
    """The exact product of each value with the scale, minus the rounded one."""
    head, tail = _halves(values)
    scale_head, scale_tail = _halves(np.float64(scale))
    return ((head * scale_head - product) + head * scale_tail + tail * scale_head) + tail * scale_tail


def _halves(value: Floats | np.float64) -> tuple[Floats | np.float64, Floats | np.float64]:
    """The upper and the lower bits of floats, as floats."""
    shifted = value * SPLITTER
    head = shifted - (shifted - value)
    return head, value - head
