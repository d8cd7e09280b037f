"""The taxes on what a customer buys."""


def with_tax(amount: float, rate: float) -> float:
    """Return an amount with the tax on it, at a rate in percent."""
    return amount * rate / 100
