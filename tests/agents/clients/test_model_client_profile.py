from __future__ import annotations

import pytest
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from teamwright.agents.clients.model_client import FAMILIES, has_own_rules, server_profile
from teamwright.values.specs.models import ServerModel


def of(name: str) -> ServerModel:
    return ServerModel(url="http://server.example/v1", name=name)


@pytest.mark.parametrize("vendor", [*sorted({*FAMILIES} - {"deepseek-ai"}), "openai", "unknown"])
@pytest.mark.parametrize("model", ["large", "r1", "qwen3-32b", "claude-opus-4-5", "gpt-oss-120b", "kimi-k2"])
def test_a_model_of_a_vendor_supports_what_pydantic_ai_says(vendor: str, model: str) -> None:
    name = f"{vendor}/{model}"
    theirs = OpenAICompatibleProvider("server", base_url="http://server.example/v1", api_key="k").model_profile(name)
    mine = server_profile(of(name))
    own = {"openai_chat_supports_max_completion_tokens", "supports_json_schema_output"}
    assert {key: value for key, value in mine.items() if key not in own} == {
        key: value for key, value in (theirs or {}).items() if key not in own
    }


@pytest.mark.parametrize(
    ("name", "own_rules"),
    [("gpt-5-mini", True), ("openai/o3", True), ("gpt-4o", False), ("tiny", False), ("meta-llama/Llama-3.1-8B", False)],
)
def test_reasoning_models_of_openai_have_rules_of_their_own(name: str, own_rules: bool) -> None:
    assert has_own_rules(server_profile(of(name))) is own_rules


def test_the_field_for_the_output_cap_is_as_declared() -> None:
    spec = ServerModel(url="http://server.example/v1", name="tiny", max_tokens_field="max_tokens")
    assert server_profile(spec).get("openai_chat_supports_max_completion_tokens") is False


def test_deepseeks_name_on_model_hubs_is_known_too() -> None:
    assert server_profile(of("deepseek-ai/r1")) == server_profile(of("deepseek/r1"))
