"""The price of a model's tokens."""

from __future__ import annotations

from pydantic import Field

from teamwright.values.limits.usage import Usage
from teamwright.values.models import Value


class Price(Value):
    """The price of a model, in US dollars per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="a million input tokens")
    output: float = Field(ge=0, allow_inf_nan=False, description="a million output tokens")
    cached: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="a million cached input tokens; the price of input by default",
    )

    def cost(self, usage: Usage) -> float:
        """Return the cost of this usage in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        price_of_cached = self.input if self.cached is None else self.cached
        return round((fresh * self.input + cached * price_of_cached + usage.output_tokens * self.output) / 1e6, 12)

    def saved(self, usage: Usage) -> float:
        """Return what cached tokens saved in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        return 0.0 if self.cached is None else round(cached * (self.input - self.cached) / 1e6, 12)
