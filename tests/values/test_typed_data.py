"""Structured data as a pydantic model, a dataclass or a TypedDict, with its type known to a type checker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import assert_type, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from teamwright.errors import InvalidOutput, UsageError
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Failure, Reply
from teamwright.values.typed_data import is_data_type, read_as, schema_of
from teamwright.values.value import JsonValue


class Verdict(BaseModel):
    good: bool
    reasons: list[str] = Field(min_length=1)


class StrictDay(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    pair: tuple[int, int]


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


def test_data_comes_as_a_model_of_the_callers() -> None:
    result = RunResult(run_id="r", status="completed", data={"good": True, "reasons": ["short"]})
    verdict = result.data_as(Verdict)
    assert_type(verdict, Verdict)
    assert verdict == Verdict(good=True, reasons=["short"])
    reply = Reply.of("judge", "…", data={"good": False, "reasons": ["long"]})
    assert_type(reply.data_as(Verdict), Verdict)
    assert not reply.data_as(Verdict).good


def test_dataclasses_typed_dicts_and_lists_of_them_will_do_as_well() -> None:
    point = Reply.of("a", "", data={"x": 1}).data_as(Point)
    assert_type(point, Point)
    assert point == Point(1)
    named = Reply.of("a", "", data={"name": "n"}).data_as(Named)
    assert_type(named, Named)
    assert named["name"] == "n"
    points = Reply.of("a", "", data=[{"x": 1}, {"x": 2}]).data_as(list[Point])
    assert_type(points, list[Point])
    assert points == [Point(1), Point(2)]


def test_data_is_read_as_json_so_that_a_strict_model_takes_what_json_can_say() -> None:
    assert read_as({"day": "2026-01-02", "pair": [1, 2]}, StrictDay, "It") == StrictDay(
        day=date(2026, 1, 2), pair=(1, 2)
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"reasons": ["a"]}, "The data of the run 'r' does not fit 'Verdict': good: is missing."),
        (
            {"good": "perhaps", "reasons": []},
            (
                "The data of the run 'r' does not fit 'Verdict': good: expects true or false, found the text 'perhaps';"
                " reasons: is empty."
            ),
        ),
        ("yes", "The data of the run 'r' does not fit 'Verdict': expects a mapping, found the text 'yes'."),
    ],
)
def test_data_that_does_not_fit_is_reported_field_by_field(data: JsonValue, message: str) -> None:
    with pytest.raises(InvalidOutput) as caught:
        RunResult(run_id="r", status="completed", data=data).data_as(Verdict)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: RunResult(run_id="r", status="completed", output="yes").data_as(Verdict),
            "The run 'r' has no data: give the agent that answers last an `output_schema`, or read `output`.",
        ),
        (lambda: RunResult(run_id="r", status="paused").data_as(Verdict), "The run 'r' has no data: it is paused."),
        (
            lambda: RunResult(
                run_id="r", status="failed", failure=Failure(member="a", error="timeout", message="It took too long.")
            ).data_as(Verdict),
            "The run 'r' has no data: it failed with 'timeout' (It took too long).",
        ),
        (
            lambda: Reply.of("judge", "yes").data_as(Verdict),
            "The reply of 'judge' has no data: give the agent an `output_schema`, or read `text`.",
        ),
    ],
)
def test_no_data_is_reported_with_the_reason_and_the_next_step(made: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidOutput) as caught:
        made()
    assert str(caught.value) == message


def test_a_type_that_json_cannot_fill_is_an_error_of_the_caller() -> None:
    class Opaque:
        pass

    with pytest.raises(UsageError, match="'Opaque' can't be used as a type of structured data: use a pydantic model"):
        read_as({}, Opaque, "It")


class Unfinished(BaseModel):
    later: NotDefinedYet  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]  # noqa: F821


def test_a_type_that_is_not_fully_defined_is_an_error_of_the_caller() -> None:
    for use in (lambda: read_as({}, Unfinished, "It"), lambda: schema_of(Unfinished)):
        with pytest.raises(UsageError, match="'Unfinished' can't be used as a type of structured data: one of its"):
            use()
    with pytest.raises(UsageError, match="'Verdict' can't be used as a type of structured data"):
        read_as({}, cast("type[object]", "Verdict"), "It")


def test_a_list_of_a_type_is_a_type_of_data() -> None:
    assert is_data_type(list[Verdict])
    assert is_data_type(Verdict)
    assert not is_data_type({"type": "object"})
    assert schema_of(list[Verdict])["type"] == "array"


def test_the_schema_of_a_type_is_that_of_its_fields() -> None:
    assert schema_of(Verdict) == Verdict.model_json_schema()
    assert schema_of(Point)["required"] == ["x"]
    assert schema_of(Named)["required"] == ["name"]


def test_a_result_is_the_same_json_as_before() -> None:
    result = RunResult(run_id="r", status="completed", data={"n": 1})
    assert result.to_json()["data"] == {"n": 1}
    assert "data_as" not in result.to_json()
