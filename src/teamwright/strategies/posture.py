"""The one place where strategies read how freely their team may work: at the moment of use, and they keep nothing."""

from __future__ import annotations

from teamwright.agents.protocol import Context


def width_of(ctx: Context, most: int) -> int:
    """How many may work at once now, of so many."""
    now = ctx.posture.workers
    return most if now is None else max(1, min(most, now))
