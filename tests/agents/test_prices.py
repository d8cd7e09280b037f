"""The prices of models: declared, publicly known, or unknown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from teamwright.agents.prices import cost_of, rate_of
from teamwright.values.specs.models import AnyModel, NamedModel, ServerModel
from teamwright.values.usage_and_prices import Price, Rate, Usage, dollars

USED = Usage(requests=1, input_tokens=1000, output_tokens=200, cached_tokens=400)
OWN_SERVER = ServerModel(url="http://127.0.0.1:9/v1", name="tiny")


def test_a_declared_price_comes_first() -> None:  # Z-10
    price = Price(input=2, output=8, cache=0.5)
    for model in (
        NamedModel(model="openai:gpt-5-mini", price=price),
        OWN_SERVER.model_copy(update={"price": price}),
    ):
        assert rate_of(model, 1000) == Rate(2_000_000, 8_000_000)
        assert cost_of(model, USED) == pytest.approx((600 * 2 + 400 * 0.5 + 200 * 8) / 1e6)


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "anthropic:claude-sonnet-4-5", "google-gla:gemini-2.5-pro"])
@pytest.mark.parametrize("prompt", [10, 1000, 400_000])
def test_what_was_reserved_at_a_known_price_pays_for_whatever_is_used(model: str, prompt: int) -> None:  # Z-10
    rate = rate_of(model, prompt)
    assert rate is not None
    for cached in (0, prompt // 2, prompt):
        cost = cost_of(model, Usage(requests=1, input_tokens=prompt, output_tokens=777, cached_tokens=cached))
        assert cost is not None
        assert 0 < cost <= dollars(rate.cost(prompt, 777))


def test_cached_tokens_are_cheaper() -> None:
    fresh, cached = (cost_of("openai:gpt-5-mini", USED.changed(cached_tokens=count)) for count in (0, 1000))
    assert fresh is not None
    assert cached is not None
    assert cached < fresh


@pytest.mark.parametrize(
    "model", ["nobody:knows", "unheard", OWN_SERVER, NamedModel(model="openai:no-such-model-at-all")]
)
def test_the_price_of_an_unknown_model_is_unknown(model: AnyModel) -> None:
    assert rate_of(model, 1000) is None
    assert cost_of(model, USED) is None


@pytest.mark.parametrize("model", ["local", "local:/tmp/model.gguf", "scripted:replies.yaml"])
def test_what_runs_here_costs_nothing(model: str) -> None:
    assert rate_of(model, 1000) == Rate(0, 0)


def test_a_server_whose_address_is_known_has_the_prices_of_its_provider() -> None:
    model = ServerModel(url="https://api.groq.com/openai/v1", name="llama-3.3-70b-versatile")
    assert rate_of(model, 1000) is not None


def test_without_reported_usage_there_is_no_cost() -> None:
    assert cost_of("openai:gpt-5-mini", Usage(requests=1)) is None


def test_prices_are_loaded_when_they_are_needed_and_reach_for_no_network() -> None:
    code = (
        "import socket, sys\n"
        "import teamwright.agents.model.agent, teamwright.runtime.engine\n"
        "from teamwright.agents import prices\n"
        "assert 'genai_prices' not in sys.modules\n"
        "def refuse(*about): raise AssertionError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "assert prices.rate_of('openai:gpt-5-mini', 10)\n"
        "assert 'genai_prices' in sys.modules and 'pydantic_ai' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
