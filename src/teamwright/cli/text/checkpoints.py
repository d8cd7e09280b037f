"""Checkpoints as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from teamwright.cli.text.table import columns
from teamwright.values.text.display import NOTHING, number_text, price_text

if TYPE_CHECKING:
    from teamwright.history.checkpoints import Checkpoint

HEADS = ("EVENT", "NAME", "AT", "TOKENS", "PRICE", "AFTER")


def points_table(points: Sequence[Checkpoint]) -> str:
    """One line per checkpoint, oldest first."""
    return columns([HEADS, *(_cells(point) for point in points)])


def _cells(point: Checkpoint) -> tuple[str, ...]:
    clock = datetime.fromisoformat(point.at).astimezone().strftime("%H:%M:%S")
    price = NOTHING if point.usd is None else price_text(point.usd)
    return (str(point.number), point.name, clock, number_text(point.total_tokens), price, point.after)
