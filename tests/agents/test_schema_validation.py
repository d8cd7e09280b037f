from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest
from pydantic import BaseModel

from teamwright import FunctionAgent, ModelAgent, ScriptedAgent, Team, run_sync
from teamwright.agents.schema_validation import as_schema, check, check_input, with_data, with_preferred_data
from teamwright.agents.scripted import Rule
from teamwright.errors import InvalidInput, InvalidOutput, UsageError
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Reply


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
    program = "import sys, teamwright.agents.schema_validation; sys.exit('jsonschema' in sys.modules)"
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
