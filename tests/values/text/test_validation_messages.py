"""Every validation error is reported in Teamwright's own words."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, JsonValue, ValidationError, model_validator

from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.tools import Name
from teamwright.values.text.validation_messages import Misfit, found_text, misfits_of, misfits_text
from teamwright.values.value import Value

LIBRARY = (
    "Input should",
    "valid ",
    "json-or-python",
    "function-",
    "constrained",
    "tagged-union",
    "Tuple",
    "Value error",
)


class Inner(Value):
    size: int = Field(default=1, gt=0, le=9)


class Outer(Value):
    name: Name = "a"
    word: Literal["one", "two"] = "one"
    amount: float = Field(default=1, allow_inf_nan=False)
    either: str | Inner | None = None
    many: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=3)
    pair: tuple[int, int] = (1, 2)
    rows: dict[str, Inner] = {}
    anything: tuple[JsonValue, ...] = ()
    flag: bool = False
    nothing: None = None

    @model_validator(mode="after")
    def _rule(self) -> Outer:
        if self.name == "bad":
            raise ValueError("the name 'bad' is taken")
        return self


def wrong(data: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(data)
    return [str(one) for one in misfits_of(caught.value, data)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"name": 5}, ["name: expects text, found the number 5"]),
        ({"name": "ä b"}, [("name: 'ä b' is no name: use letters, digits, '.', '_' and '-', at most 64, starting with a"
                           " letter or digit; for example 'b'")]),
        ({"word": "three"}, ["word: is 'one' or 'two', and this is the text 'three'"]),
        ({"amount": "x"}, ["amount: expects a number, found the text 'x'"]),
        ({"amount": float("inf")}, ["amount: expects a finite number, found the number inf"]),
        ({"either": 5}, ["either: expects text or a mapping, found the number 5"]),
        ({"either": {"size": 10}}, ["either.size: must be at most 9, and 10 is not"]),
        ({"either": {"size": 0}}, ["either.size: must be more than 0, and 0 is not"]),
        ({"either": {"what": 0}}, ["either.what: is not a field here"]),
        ({"many": []}, ["many: is empty"]),
        ({"many": [1, 2, 3, 4]}, ["many: is too long: at most 3 are possible"]),
        ({"many": ["x"]}, ["many.0: expects a whole number, found the text 'x'"]),
        ({"many": 5}, ["many: expects a list, found the number 5"]),
        ({"many": [1.5]}, ["many.0: expects a whole number, found the number 1.5"]),
        ({"pair": [1]}, ["pair.1: is missing"]),
        ({"rows": []}, ["rows: expects a mapping, found a list"]),
        ({"rows": {"a": 1, "b": {"size": "x"}}}, ["rows.a: expects a mapping, found the number 1",
                                                  "rows.b.size: expects a whole number, found the text 'x'"]),
        ({"anything": "x"}, ["anything: expects a list, found the text 'x'"]),
        ({"flag": "maybe"}, ["flag: expects true or false, found the text 'maybe'"]),
        ({"nothing": 1}, ["nothing: must be left out, and this is the number 1"]),
        ({"name": "bad"}, ["the name 'bad' is taken"]),
        ({"what": 1}, ["what: is not a field here"]),
    ],
)  # fmt: skip
def test_each_mistake_is_reported_once_at_its_place(data: dict[str, Any], expected: list[str]) -> None:  # M-10
    assert wrong(data) == expected


def test_values_are_described_in_plain_words() -> None:  # M-10
    said = [found_text(one) for one in (None, True, "x" * 100, 10**80, [1], {"a": 1}, object())]
    assert said[:2] == ["nothing", "true"]
    assert len(said[2]) < 80
    assert said[3:] == ["a number of more than 50 digits", "a list", "a mapping", "a value of type 'object'"]


def test_a_few_are_reported_and_the_rest_is_counted() -> None:  # M-10
    assert misfits_text([Misfit("is missing", ("a", 1)), Misfit("no")]) == "a.1: is missing; no"
    assert misfits_text([Misfit("no")] * 5) == "no; no; no; and 2 more"


JUNK: tuple[Any, ...] = (None, True, 5, -1, 1.5, "x", "", [], [1], ["x"], [[]], {}, {"x": 1}, {"x": {"y": []}}, [{}])


@pytest.mark.parametrize("field", AgentSpec.model_fields)
def test_no_field_of_an_agent_tells_a_librarys_words(field: str) -> None:  # M-10
    for junk in JUNK:
        try:
            AgentSpec.model_validate({field: junk})
        except ValidationError as error:
            texts = [str(one) for one in misfits_of(error, {field: junk})]
            assert texts
            assert not [text for text in texts if any(word in text for word in LIBRARY)]
