"""Data that is still being written: what has arrived is parsed, and what fits is a valid value of its type."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, JsonValue

from teamwright.errors import UsageError
from teamwright.values.typed_data import PartialReader, parse_partial


class Section(BaseModel):
    heading: str
    words: int


class Report(BaseModel):
    title: str
    tone: Literal["dry", "warm"] = "dry"
    sections: list[Section] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pets: list[Cat | Dog] = Field(default=[])


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("No JSON", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": tru', {}),
        ('{"a": "12', {"a": "12"}),
        ('```json\n{"a": [1,', {"a": [1]}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("```js", None),
    ],
)
def test_a_text_is_parsed_as_far_as_it_has_arrived(text: str, data: JsonValue) -> None:
    assert parse_partial(text) == data


@pytest.mark.parametrize(
    ("data", "sections"),
    [
        ({}, None),
        ({"title": "T"}, 0),
        ({"title": "T", "tone": "wa"}, 0),
        ({"title": "T", "sections": [{}]}, 0),
        ({"title": "T", "sections": [{"heading": "A"}]}, 0),
        ({"title": "T", "sections": [{"heading": "A", "words": 1}, {"heading": "B"}]}, 1),
        ({"title": 5, "sections": [{"heading": "A", "words": 1}]}, None),
        ({"title": "T", "sections": [{"heading": "A"}, {"heading": "B", "words": 1}]}, None),
    ],
)
def test_what_does_not_fit_yet_is_left_out_and_what_never_will_fits_nothing(
    data: JsonValue, sections: int | None
) -> None:
    report = PartialReader(Report).read(data)
    assert (None if report is None else len(report.sections)) == sections


def test_items_of_a_union_are_left_out_until_they_fit_one_of_its_members() -> None:
    read = PartialReader(Home).read
    assert read({"pets": [{"kind": "dog", "name": "Rex"}, {"kind": "ca"}]}) == Home(pets=[Dog(kind="dog", name="Rex")])
    whole = read({"pets": [{"kind": "cat", "lives": 9}]})
    assert whole == Home(pets=[Cat(kind="cat", lives=9)])


def test_a_list_grows_item_by_item() -> None:
    read = PartialReader(list[Section]).read
    assert read([{"heading": "A", "words": 1}, {"heading": "B"}]) == [Section(heading="A", words=1)]


def test_final_data_fits_whole_or_not_at_all() -> None:
    assert PartialReader(Report).read({"title": "T", "tone": "wa"}, is_final=True) is None


def test_a_type_that_is_no_type_of_data_is_refused() -> None:
    with pytest.raises(UsageError, match="can't be used as a type of structured data"):
        PartialReader(object().__class__.__subclasses__)  # pyright: ignore[reportArgumentType]


@given(
    st.builds(
        Report,
        title=st.text(),
        tone=st.sampled_from(["dry", "warm"]),
        sections=st.lists(st.builds(Section, heading=st.text(), words=st.integers(-(2**40), 2**40)), max_size=4),
    )
)
def test_every_beginning_of_an_answer_reads_as_a_beginning_of_the_whole(report: Report) -> None:
    text, reader = json.dumps(report.model_dump(), ensure_ascii=False), PartialReader(Report)
    for end in range(len(text) + 1):
        value = reader.read(parse_partial(text[:end]))
        if value is not None:
            assert report.title.startswith(value.title)
            assert (
                value.sections == report.sections[: len(value.sections)]
                or value.sections[:-1] == (report.sections[: len(value.sections) - 1])
            )
    assert reader.read(parse_partial(text)) == report
