"""What models cost, and how large their context windows are, as far as that is known without asking them.

Declared prices come first, then the data that genai-prices includes, which is imported at its first use; a local model
costs nothing. Nothing accesses the network.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Protocol

from teamwright.values.specs.models import AnyModel, NamedModel, ServerModel
from teamwright.values.usage_and_prices import MOST_USD, PICODOLLARS, Price, Rate, Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

MILLION = 1_000_000
LOCAL_PROVIDERS = ("local", "scripted")
"""Providers that run on the user's machine and cost no money."""


def is_local_model(name: str) -> bool:
    """Whether a model of this name runs on the user's machine."""
    return name.partition(":")[0] in LOCAL_PROVIDERS


def declared_price(model: AnyModel) -> Price | None:
    """The price that the manifest declares for a model."""
    return None if isinstance(model, str) else model.price


def rate_of(model: AnyModel, prompt: int) -> Rate | None:
    """The highest price of a token for a prompt of this size; `None` if the price is not known."""
    if price := declared_price(model):
        highest = max(price.input, price.cache or 0.0)
        return Rate(_picodollars_per_token(Decimal(str(highest))), _picodollars_per_token(Decimal(str(price.output))))
    name = model.model if isinstance(model, NamedModel) else model
    if isinstance(name, str) and is_local_model(name):
        return Rate(0, 0)
    return _known_rate(model, prompt)


def cost_of(model: AnyModel, usage: Usage) -> float | None:
    """The cost of a request by its usage; `None` if the price is not known or no usage was reported."""
    if not usage.total_tokens:
        return None
    if price := declared_price(model):
        return price.cost(usage)
    total = _known_cost(model, usage.input_tokens, usage.output_tokens, cache_read_tokens=usage.cached_tokens)
    return None if total is None else round(float(total), 12)


class Priceable(Protocol):
    """A response whose library knows what it cost, by the name of its model in the same data."""

    def cost(self) -> PriceCalculation: ...


def cost_of_response(response: Priceable) -> float | None:
    """Return the cost of a response by the model that it names; `None` if it is not known, or not plausible."""
    try:
        usd = round(float(response.cost().total_price), 12)
    except (AssertionError, ArithmeticError, LookupError, ValueError):
        return None
    return usd if 0 <= usd <= MOST_USD else None


def _known_rate(model: AnyModel, prompt: int) -> Rate | None:
    """The highest known price: prices may depend on the prompt's size, and cache writes may cost more than reads."""
    plain, output = _known_cost(model, prompt, 0), _known_cost(model, prompt, MILLION)
    if plain is None or output is None:
        return None
    stored = _known_cost(model, prompt, 0, cache_write_tokens=prompt) or plain
    return Rate(
        _picodollars_per_token(max(plain, stored) / max(1, prompt) * MILLION), _picodollars_per_token(output - plain)
    )


def _known_cost(model: AnyModel, input_tokens: int, output_tokens: int, **cached: int) -> Decimal | None:
    try:
        from genai_prices import Usage as Priced, calc_price
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    url, provider = None, None
    if isinstance(model, ServerModel):
        name, url = model.name, model.url
    else:
        provider, _, name = (model.model if isinstance(model, NamedModel) else model).partition(":")
        provider = provider.rpartition("/")[2]
    try:
        get_snapshot().find_provider_model(name, None, provider, url)  # fails sooner than a usage is made
        usage = Priced(input_tokens=input_tokens, output_tokens=output_tokens, **cached)
        if url is not None:
            return calc_price(usage, name, provider_api_url=url).total_price
        return calc_price(usage, name, provider_id=provider).total_price if name else None
    except (LookupError, ValueError):
        return None


def published_window(name: str, provider: str = "", url: str | None = None) -> int | None:
    """The published size of a model's context window in tokens; `None` if it is not known."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(name, None, provider or None, url)
    except (LookupError, ValueError):
        return None
    return found.context_window


def known_models(provider: str) -> list[str]:
    """The models of a provider whose prices are known, as `provider:name`; of all providers if it is unknown."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return []
    providers = get_snapshot().providers
    chosen = [one for one in providers if one.id == provider] or providers
    return [f"{one.id}:{model.id}" for one in chosen for model in one.models]


def _picodollars_per_token(usd_for_a_million: Decimal) -> int:
    return int((usd_for_a_million * PICODOLLARS / MILLION).to_integral_value(ROUND_CEILING))
