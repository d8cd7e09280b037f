"""Declarations: P-01's fields with their bounds."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from pydantic_core import to_json

from teamwright.values.limits import PerMinute
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source, TeamSpec
from teamwright.values.specs.models import NamedModel, ServerModel, model_key


def test_an_agent_declares_both_schemas_and_how_it_is_called() -> None:  # P-01
    spec = AgentSpec.model_validate(
        {
            "model": "openai:gpt-5-mini",
            "description": "writes",
            "capabilities": ["writing"],
            "input_schema": {"type": "object"},
            "output_schema": {"type": "object"},
            "settings": {"temperature": 0.3},
            "max_tokens": 100,
            "timeout": 5,
            "retry": {"times": 1, "backoff": 0},
        }
    )
    assert spec.retry == RetryPolicy(times=1, backoff=0)
    assert AgentSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    "bad",
    [
        {"settings": {"temperature": 2.5}},
        {"settings": {"temperature": -1}},
        {"max_tokens": 0},
        {"timeout": 0},
        {"isolate": "cloud"},
        {"modle": "x"},
    ],
)
def test_a_setting_out_of_bounds_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AgentSpec.model_validate(bad)


def test_names_in_a_manifest_are_names() -> None:
    with pytest.raises(ValidationError):
        Manifest.model_validate({"agents": {"a b": {}}})


def test_a_source_is_the_same_after_a_round_trip() -> None:
    manifest = Manifest(agents={"a": AgentSpec(function="m:f")}, teams={"t": TeamSpec(members=("a",))})
    source = Source(manifest=manifest, team="t", base="somewhere")
    assert Source.model_validate(source.model_dump(mode="json", exclude_unset=True)) == source


def test_a_source_says_what_was_set_and_names_members_that_say_nothing_in_their_place() -> None:
    agents = {"a": AgentSpec(), "b": AgentSpec(description="writes"), "c": AgentSpec()}
    for given in (agents, {"b": agents["b"]}, {"a": agents["a"]}):
        source = Source(manifest=Manifest(agents=given, teams={"t": TeamSpec(members=tuple(given))}), team="t")
        assert to_json(source.to_json()) == to_json(source.model_dump(mode="json", exclude_unset=True))


def test_a_model_is_written_in_three_forms_and_known_by_what_it_is() -> None:  # P-13
    written = {
        "short": "openai:gpt-5-mini",
        "long": {"model": "openai:gpt-5-mini", "per_minute": {"calls": 500}, "max_parallel": 8},
        "server": {"url": "http://localhost:8000/v1", "name": "house", "per_minute": {"tokens": 9000}},
    }
    models = Manifest.model_validate({"models": written}).models
    assert models["long"] == NamedModel(model="openai:gpt-5-mini", per_minute=PerMinute(calls=500), max_parallel=8)
    assert isinstance(models["server"], ServerModel)
    assert models["server"].per_minute.tokens == 9000
    assert model_key(models["short"]) == model_key(models["long"]) == "openai:gpt-5-mini"
    assert model_key(models["server"]) == "house at http://localhost:8000/v1"
