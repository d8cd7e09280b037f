"""The schema that editors use says the same as the loader."""

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from teamwright.errors import ManifestError
from teamwright.strategies.registry import strategy_names
from teamwright.teams.manifests.schema import manifest_schema
from teamwright.values.specs.manifest import AgentSpec, JsonSchema, TeamSpec
from teamwright.values.value import Value
from tests.teams.manifests.manifests import loaded

RELAY = "agents: {a: {model: local}, b: {model: local}}\nteams: {t: {members: [a, b], strategy: relay-race"
GOOD = [
    "agents: {a: {model: local}}",
    "agents: {a: }\nmodels: {m: local}",
    "agents: {a: {function: 'm:f', tools: [terminate]}}\ntools: {t: 'm:f', u: {mcp: {url: 'http://x'}}}",
    "agents: {a: {model: local, tools: [terminate, {function: 'm:g'}]}}",
    "agents: {a: {model: {url: 'http://x/v1', name: n}}}\nteams: {t: {members: [a], limits: {tokens: 5}}}",
    "agents: {a: {model: local, limits: {strict: true}}}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], limits: {tokens: 5, strict: true}}}",
    "x-notes: {anything: 1}\nagents: {a: {model: local}}",
    "agents: {a: {model: local, optional: true, critical: false}}",
    f"{RELAY}, relay-race: {{legs: [{{from: a, to: b, metres: 9}}]}}}}}}",
    f"{RELAY}, relay_race: {{legs: [], model: local}}}}}}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], strategy: anything, anything: {x: [1]}}}",
]
BAD = [
    "agent: {}",
    "agents: {a: {modle: local}}",
    "agents: {'a b': {model: local}}",
    "agents: {a: {model: local, function: 'm:f'}}",
    "agents: {a: {model: 5}}",
    "agents: {a: {model: local, max_tokens: 0}}",
    "agents: {a: {model: local}}\nteams: {t: {members: []}}",
    "agents: {a: {model: local}}\nteams: {t: {}}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], share: all}}",
    "tools: {t: nonsense}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], limits: {strict: bytes}}}",
    "agents: {a: {model: local, limits: {message: {tokens: 5, strict: true}}}}",
    "agents: {a: {model: local, optional: true, critical: true}}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], optional: true, critical: true}}",
    f"{RELAY}, relay-race: {{}}}}}}",
    f"{RELAY}, relay-race: {{legs: [{{from: a, to: b, metres: 0}}]}}}}}}",
    f"{RELAY}, relay_race: {{legs: [], model: 5}}}}}}",
    "agents: {a: {model: local}}\nteams: {t: {members: [a], relay-rase: {}}}",
]


@pytest.mark.usefixtures("third_parties")
@pytest.mark.parametrize("text", GOOD)
def test_what_loads_fits_the_schema(tmp_path: Path, text: str) -> None:
    loaded(tmp_path, text)
    Draft202012Validator(manifest_schema()).validate(yaml.safe_load(text))


@pytest.mark.usefixtures("third_parties")
@pytest.mark.parametrize("text", BAD)
def test_what_does_not_fit_the_schema_does_not_load(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError):
        loaded(tmp_path, text)
    assert not Draft202012Validator(manifest_schema()).is_valid(yaml.safe_load(text))


def test_the_schema_is_valid_and_closed() -> None:
    schema = manifest_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    for name in ("AgentSpec", "TeamSpec", "ServerModel", "FunctionTool", "McpTool", "McpSpec", "Limits", "RetryPolicy"):
        definition = definitions[name]
        assert isinstance(definition, dict)
        assert definition["additionalProperties"] is False
        assert definition["description"]


def fields_of(spec: type[Value]) -> JsonSchema:
    definition = manifest_schema()["$defs"]
    assert isinstance(definition, dict)
    found = definition[spec.__name__]
    assert isinstance(found, dict)
    properties = found["properties"]
    assert isinstance(properties, dict)
    return properties


def test_every_field_of_a_spec_is_in_the_schema() -> None:
    assert fields_of(AgentSpec).keys() == AgentSpec.model_fields.keys()
    assert fields_of(TeamSpec).keys() == {*TeamSpec.model_fields, *strategy_names()}


@pytest.mark.usefixtures("third_parties")
def test_every_strategy_is_listed_with_its_block() -> None:
    fields = fields_of(TeamSpec)
    assert isinstance(fields["strategy"], dict)
    assert fields["strategy"]["examples"] == strategy_names()
    assert {"relay_race", "anything", "broken", "sequential"} <= fields.keys()
    definitions = manifest_schema()["$defs"]
    assert isinstance(definitions, dict)
    assert {"relay_race.options", "relay_race.Leg"} <= definitions.keys()


def test_changing_the_answer_changes_nothing_here() -> None:
    manifest_schema().clear()
    assert manifest_schema()["title"] == "Teamwright manifest"
