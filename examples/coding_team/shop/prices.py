"""The prices of what a customer buys."""


def total(items: list[tuple[float, int]]) -> float:
    """Return what all items cost, each with its price and its count."""
    return sum(price for price, count in items)
