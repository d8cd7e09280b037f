"""The receipt that a customer gets."""

from prices import total
from taxes import with_tax


def receipt(items: list[tuple[float, int]], rate: float) -> str:
    """Return what a customer pays, as a line of text."""
    amount = with_tax(total(items), rate)
    return f"You pay {amount} with tax."
