"""What is known of models without asking them: prices, context windows and tokenizers.

Declared prices come first, then the data that genai-prices includes, which is imported at its first use; a local model
costs nothing. The tokenizers are those of the extra `tokens`: bpe-openai is imported only once a limit needs it, which
takes a second of CPU. Nothing accesses the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from importlib.util import find_spec
from typing import Final
from warnings import catch_warnings, simplefilter

from teamwright.values.specs.models import AnyModel, NamedModel, ServerModel, TokenizerName
from teamwright.values.usage_and_prices import PICODOLLARS, Price, Rate, Usage

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


CountTokens = Callable[[str], int]


ENCODINGS: Final[tuple[tuple[TokenizerName, re.Pattern[str]], ...]] = (
    (
        "o200k_base",
        re.compile(r"(?:^|[:/.])(?:gpt-(?:4o|4\.1|4\.5|5|oss)|chatgpt-4o|o[134])(?![a-z0-9])"),
    ),
    ("cl100k_base", re.compile(r"(?:^|[:/.])gpt-(?:4|3\.5|35)(?![a-z0-9])")),
)
"""The encoding of each family of models, by the name after a provider; the first match counts."""
LARGEST_CHUNK: Final = 32_768
"""Characters that are tokenized at once: bpe-openai refuses long texts, and the event loop waits meanwhile."""


def encoding_of(model: str) -> TokenizerName | None:
    """Return the encoding of a model by its name, such as `openai:gpt-5-mini`; `None` if it is not known.

    A name that lists several models, of which any may answer, has none.
    """
    if "," in model:
        return None
    return next((name for name, pattern in ENCODINGS if pattern.search(model.lower())), None)


@lru_cache
def is_installed() -> bool:
    """Whether the extra is installed; imports nothing."""
    return find_spec("bpe_openai") is not None


@lru_cache
def load_tokenizer(encoding: TokenizerName) -> CountTokens | None:
    """Return a function that counts the tokens of a text; `None` if the extra is not installed.

    The text is ordinary text to the model, so what looks like a special token is counted as its characters.
    """
    try:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # it reads its data by a function that Python has deprecated
            from bpe_openai import get_encoding  # pyright: ignore[reportMissingTypeStubs]

            encode = get_encoding(encoding).encode_ordinary
    except (ImportError, OSError):  # the second, if its data is missing
        return None

    def count(text: str) -> int:
        return sum(len(encode(chunk)) for chunk in chunks(text))

    return count


def chunks(text: str) -> list[str]:
    """Split a long text after line ends or spaces, where tokenizers split too, so that the count stays the same."""
    found: list[str] = []
    start = 0
    while len(text) - start > LARGEST_CHUNK:
        end = start + LARGEST_CHUNK
        at = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
        end = at if at > start else end
        found.append(text[start:end])
        start = end
    found.append(text[start:])
    return found
