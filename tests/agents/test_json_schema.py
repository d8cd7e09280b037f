"""Schemas: references stay inside the document, bombs are refused, and equal schemas are looked at once."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from teamwright import FunctionAgent, ModelAgent, ScriptedAgent, Team, run_sync
from teamwright.agents.json_schema import (
    MOST_IN_PLACE,
    as_schema,
    check,
    check_input,
    schema_fault,
    with_data,
    with_preferred_data,
)
from teamwright.agents.scripted import Rule
from teamwright.errors import InvalidInput, InvalidOutput, UsageError
from teamwright.teams.team_loader import load_team
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Reply
from tests.growth import assert_linear_calls
from tests.teams.manifests.manifests import loaded, problems

ELSEWHERE = [
    "http://127.0.0.1:1/schema.json",
    "https://json-schema.org/draft/2020-12/schema",
    "file:///etc/passwd",
    "/etc/passwd",
    "other.json",
    "other.json#/$defs/x",
    "urn:uuid:1",
    "../team.yaml",
    "",
]


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_reference_to_elsewhere_is_refused(target: str, keyword: str) -> None:  # S-04
    for schema in (
        {keyword: target},
        {"type": "object", "properties": {"a": {keyword: target}}},
        {"items": [{"not": {keyword: target}}], "$schema": "http://json-schema.org/draft-07/schema#"},
        {"$defs": {"unused": {keyword: target}}},
        {"$id": "http://127.0.0.1:1/", "anyOf": [{keyword: target}]},
    ):
        fault = schema_fault(schema)
        assert fault is not None
        assert "may only point into the schema itself" in fault.text or "does not fit" in fault.text
        with pytest.raises(UsageError, match="not a valid JSON Schema"):
            as_schema(schema, "the output of 'a'")


def test_manifests_and_python_are_refused_alike(tmp_path: Path) -> None:  # S-04
    text = "agents: {a: {model: local, FIELD: {properties: {x: {$ref: 'http://127.0.0.1:1/x'}}}}}"
    for field in ("input_schema", "output_schema"):
        (problem,) = problems(tmp_path, text.replace("FIELD", field))
        assert "may only point into the schema itself" in problem.message
        assert problem.column > 40
    team = "agents: {a: {model: local}}\nteams: {t: {members: [a], output_schema: {$ref: 'file:///etc/passwd'}}}"
    assert "$ref" in problems(tmp_path, team)[0].message
    agent = FunctionAgent("a", lambda turn: "x")
    with pytest.raises(UsageError, match="may only point"):
        FunctionAgent("a", lambda turn: "x", output_schema={"$ref": "http://127.0.0.1:1/x"})
    with pytest.raises(UsageError, match="may only point"):
        Team("t", members=[agent], output_schema={"$ref": "http://127.0.0.1:1/x"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"$anchor": "here", "type": "string"}}, "$ref": "#here"},
        {"definitions": {"a/b~c": {"type": "string"}}, "$ref": "#/definitions/a~1b~0c"},
        {"properties": {"$ref": {"type": "string"}}},
        {"enum": [{"$ref": "http://127.0.0.1:1/x"}]},
        {"default": {"$ref": "http://127.0.0.1:1/x"}},
        {"properties": {"child": {"$ref": "#"}}},
        {"items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        {"$schema": "http://127.0.0.1:1/unknown", "type": "object"},
    ],
)
def test_references_inside_the_document_are_good(schema: dict[str, Any]) -> None:  # S-04
    assert schema_fault(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"anyOf": [{"$ref": "#"}]}},
        {"if": {"$ref": "#"}, "then": {}},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"x": {"$ref": "#/properties/x"}}},
        {"$dynamicAnchor": "me", "oneOf": [{"$dynamicRef": "#me"}]},
    ],
)
def test_references_without_an_end_are_refused(schema: dict[str, Any]) -> None:  # S-04, S-01
    fault = schema_fault(schema)
    assert fault is not None
    assert "form a cycle without end" in fault.text


def test_references_that_multiply_are_refused() -> None:  # S-04, S-01
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    fault = schema_fault({"$defs": {**steps, "a60": {}}, "$ref": "#/$defs/a0"})
    assert fault is not None
    assert f"more than {MOST_IN_PLACE} schemas to one value" in fault.text


def test_a_missing_target_is_reported() -> None:  # S-04
    fault = schema_fault({"$ref": "#/$defs/gone"})
    assert fault is not None
    assert fault.text == "$ref points to '#/$defs/gone', which is not there"


def test_a_value_that_makes_a_schema_multiply_is_refused() -> None:  # S-01
    part = {"properties": {"c": {"$ref": "#/$defs/n"}}}
    schema = {"$defs": {"n": {"allOf": [part, dict(part)]}}, "$ref": "#/$defs/n"}
    value: Any = {}
    for _ in range(60):
        value = {"c": value}
    assert schema_fault(schema) is None
    with pytest.raises(InvalidOutput, match="far more checks than it has values"):
        check(schema, value, "The reply")


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:  # S-01
    value: Any = []
    for _ in range(3000):
        value = [value]
    with pytest.raises(InvalidOutput, match="nested too deeply"):
        check({"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}, value, "The reply")


def test_checks_grow_with_the_value() -> None:  # S-01
    schema = {"items": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
    assert_linear_calls(lambda size: check(schema, [{"a": n} for n in range(size)], "it"), size=300)


def test_looking_for_equal_items_grows_with_the_list() -> None:  # S-01
    def unique(size: int) -> None:
        check({"uniqueItems": True}, [{"a": n, "b": [n]} for n in range(size)], "it")

    assert_linear_calls(unique, size=500)
    equal: list[Any] = [[{"a": 1}, {"a": 1.0}], [1, 1.0], [[1], [1]], ["a", "a"], [None, None]]
    for items in equal:
        with pytest.raises(InvalidOutput, match="not all different"):
            check({"uniqueItems": True}, items, "it")
    check({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": 2}, 0, False, None], "it")


def test_large_replies_are_checked_whole() -> None:  # S-01
    schema = {"items": {"anyOf": [{"type": "object", "properties": {"n": {"$ref": "#/items"}}}, {"type": "null"}]}}
    check(schema, [{"n": {"n": None}} for _ in range(3000)], "it")
    with pytest.raises(InvalidOutput, match="does not fit"):
        check(schema, [*({"n": None} for _ in range(3000)), 5], "it")


ALIASED = "x-schema: &schema {{type: object, properties: {{{properties}}}}}\nagents:\n{agents}"


def aliased(agents: int, properties: int = 120) -> str:
    fields = ", ".join(f"f{n}: {{type: string, enum: [a, b], description: some text}}" for n in range(properties))
    names = "".join(f"  a{n}: {{model: local, output_schema: *schema}}\n" for n in range(agents))
    return ALIASED.format(properties=fields, agents=names)


def test_a_schema_that_aliases_repeat_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-01
    import teamwright.agents.json_schema as module

    looked: list[object] = []
    original = module._validity_fault
    monkeypatch.setattr(module, "_validity_fault", lambda schema: looked.append(schema) or original(schema))
    module._cached_fault.cache_clear()
    file = tmp_path / "team.yaml"
    file.write_text(aliased(150) + "  last: {model: local}\nteams: {t: {members: [a0, a149]}}\n")
    team = load_team(file)
    assert len(looked) == 1
    assert len(json.dumps(team.members[0].output_schema)) > 6000  # pyright: ignore[reportAttributeAccessIssue]


def test_loading_grows_with_the_agents_that_repeat_a_schema(tmp_path: Path) -> None:  # S-01
    assert_linear_calls(lambda text: loaded(tmp_path, text), prepare=lambda size: aliased(size, 20), size=40)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "strin"}, "at 'type', \"strin\" does not fit there: it must be one of array, boolean"),
        ({"type": 5}, "it must be one of array"),
        ({"properties": []}, "at 'properties', [] does not fit there: it must be a mapping"),
        ({"properties": {"a": {"minLength": -1}}}, "at 'properties/a/minLength', -1 does not fit there"),
        ({"pattern": "("}, "it must be a regular expression"),
        ({"required": "a"}, "it must be a list"),
        ({"required": ["a", "a"]}, "a list without duplicates"),
        ({"anyOf": []}, "a list that is not empty"),
        ({"multipleOf": 0}, "it must be more than 0"),
    ],
)
def test_what_is_wrong_is_reported_clearly(schema: dict[str, Any], told: str) -> None:  # M-10
    fault = schema_fault(schema)
    assert fault is not None
    assert told in fault.text


def test_a_value_that_is_no_json_is_reported() -> None:
    fault = schema_fault({"a": {1: 2, "b": 3}})
    assert fault is not None
    assert "not JSON" in fault.text
    circle: dict[str, Any] = {}
    circle["properties"] = {"a": circle}
    assert schema_fault(circle) is not None


class Verdict(BaseModel):
    good: bool


PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def test_a_value_that_fits_passes() -> None:  # P-01
    check(PERSON, {"age": 3}, "the answer")


def test_a_value_that_does_not_fit_is_reported_with_its_place() -> None:  # P-01
    with pytest.raises(InvalidOutput, match=r"the answer does not fit its schema: at 'age': 'x' is not of type 'integ"):
        check(PERSON, {"age": "x"}, "the answer")


@pytest.mark.parametrize("schema", [Verdict, list[Verdict]])
def test_every_agent_takes_a_class_or_a_list_of_it_as_a_schema(schema: type[object]) -> None:
    made = {"good": True} if schema is Verdict else [{"good": True}]
    agents = (
        FunctionAgent("a", lambda turn: made, output_schema=schema),
        ScriptedAgent("a", [Rule(reply=json.dumps(made))], output_schema=schema),
        Team("a", members=[FunctionAgent("b", lambda turn: made)], output_schema=schema),
    )
    for agent in agents:
        assert run_sync(agent, "go", journal="memory").data == made


@pytest.mark.parametrize("schema", ["Verdict", 5])
def test_a_schema_that_is_neither_a_mapping_nor_a_class_is_refused(schema: object) -> None:
    with pytest.raises(UsageError, match="the output of 'a' must be a JSON Schema or a class"):
        FunctionAgent("a", lambda turn: "x", output_schema=cast("type[object]", schema))
    with pytest.raises(UsageError, match="the output of 'a' must be a JSON Schema or a class"):
        ModelAgent("a", model="local", output_schema=cast("type[object]", schema))


def test_only_the_first_breaches_are_listed() -> None:
    with pytest.raises(InvalidOutput, match="and 3 more"):
        check({"type": "array", "items": {"type": "integer"}}, [*"abcdefgh"], "the answer")


def test_input_is_read_as_json_and_checked() -> None:  # P-01
    assert check_input(PERSON, '{"age": 3}', "the task") == {"age": 3}
    with pytest.raises(InvalidInput, match="the task must be JSON"):
        check_input(PERSON, "three", "the task")
    with pytest.raises(InvalidInput, match="'age' is a required property"):
        check_input(PERSON, "{}", "the task")


def test_a_schema_that_is_none_is_refused_when_it_is_declared() -> None:
    with pytest.raises(UsageError, match="The schema of the input of 'a' is not a valid JSON Schema"):
        as_schema({"type": "objekt"}, "the input of 'a'")


NONE: JsonSchema = {"type": "objekt"}


@pytest.mark.parametrize(
    "declare",
    [
        lambda: FunctionAgent("a", print, input_schema=NONE),
        lambda: FunctionAgent("a", print, output_schema=NONE),
        lambda: ScriptedAgent("a", [Rule(reply="x")], output_schema=NONE),
        lambda: Team("a", members=[FunctionAgent("b", print)], output_schema=NONE),
    ],
    ids=["input", "output", "script", "team"],
)
def test_a_missing_schema_is_reported_before_any_call(declare: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="is not a valid JSON Schema"):
        declare()


def test_a_model_class_gives_its_schema() -> None:
    class Person(BaseModel):
        age: int

    schema = as_schema(Person, "the output")
    assert schema is not None
    check(schema, {"age": 3}, "the answer")


def test_a_schema_in_an_older_draft_is_read_as_that_draft() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    with pytest.raises(InvalidOutput):
        check(schema, ["x"], "the answer")


def test_the_library_is_imported_at_the_first_check() -> None:
    program = "import sys, teamwright.agents.json_schema; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "data"),
    [('{"age": 3}', {"age": 3}), ('{"age": "three"}', None), ("three", None), ("", None), ("{" * 5000, None)],
)
def test_data_that_is_welcome_is_read_where_it_fits(text: str, data: object) -> None:
    assert with_preferred_data(Reply.of("a", text), PERSON).data == data


def test_data_that_is_there_stays() -> None:
    reply = Reply.of("a", '{"age": 3}', data=[1])
    assert with_preferred_data(reply, PERSON) is reply
    unasked = Reply.of("a", '{"age": 3}')
    assert with_preferred_data(unasked, None) is unasked


def test_half_a_surrogate_pair_is_reported_as_no_json() -> None:  # S-03
    reply = Reply.of("a", '{"age": 3, "name": "\ud800"}')
    assert with_preferred_data(reply, PERSON) == reply
    with pytest.raises(InvalidOutput, match="half of a surrogate pair"):
        with_data(reply, PERSON, "The reply")
