"""Values made in Python are checked, and the collector is paused during bulk allocation."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from importlib import import_module
from math import inf, nan
from pkgutil import walk_packages
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

import teamwright
from teamwright import Limits, RetryPolicy, Step
from teamwright.collector_pauses import collection_paused
from teamwright.errors import InvalidValue, UsageError
from teamwright.values.value import Value

FOR_FRAMEWORKS = ("agent_framework_client", "crewai_llm", "langchain_chat_model", "openai_agents_model")
"""Modules that import a framework, which need not be installed."""


@pytest.mark.parametrize(
    ("kind", "args", "fields", "words"),
    [
        (Limits, (), {"tokens": -1}, "Limits: tokens: must be at least 0, and -1 is not."),
        (Limits, (), {"tokns": 5}, "Limits: tokns: is not a field here (did you mean 'tokens'?)."),
        (
            Limits,
            (),
            {"zz": 5},
            "Limits: zz: is not a field here (known are asks, calls, depth, message, seconds, strict, tokens, usd).",
        ),
        (
            Limits,
            (5,),
            {},
            "Limits: takes named arguments only: tokens, usd, seconds, calls, message, strict, asks, depth.",
        ),
        (Step, (), {"id": "a", "needs": 3}, "Step: needs: expects a list, found the number 3."),
        (Step, (), {}, "Step: id: is missing."),
        (RetryPolicy, (), {"times": "x"}, "RetryPolicy: times: expects a whole number, found the text 'x'."),
    ],
)
def test_a_constructor_reports_what_is_wrong_without_a_word_of_a_library(
    kind: Callable[..., object], args: tuple[object, ...], fields: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        kind(*args, **fields)
    assert str(caught.value) == words
    assert caught.value.__cause__ is None
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


def test_every_wrong_argument_is_reported_at_once() -> None:
    with pytest.raises(InvalidValue) as caught:
        Limits(tokens=-1, usd="dear")  # pyright: ignore[reportArgumentType]
    assert len(caught.value.reasons) == 2


def test_collection_continues_afterwards_even_after_an_error() -> None:
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), collection_paused():
        raise ValueError("x")
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


NUMBERS_OF_RECORDS = {"ChatRequest.at"}
"""Written by a server for its tests, never by a user."""


def declared_values(kind: type[Value] = Value) -> Iterator[type[Value]]:
    for one in kind.__subclasses__():
        yield one
        yield from declared_values(one)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_no_value_takes_a_number_that_is_none(value: float) -> None:  # K-11
    for module in walk_packages(teamwright.__path__, "teamwright."):
        if module.name.rpartition(".")[2] not in ("__main__", *FOR_FRAMEWORKS):
            import_module(module.name)
    wrong: list[str] = []
    own = (one for one in declared_values() if one.__module__.startswith("teamwright."))
    for kind in {one.__qualname__: one for one in own}.values():
        for name, field in kind.model_fields.items():
            if "float" in str(field.annotation):
                metadata: Any = (field.annotation, *field.metadata)
                if accepts(Annotated[metadata] if field.metadata else field.annotation, value):
                    wrong.append(f"{kind.__name__}.{name}")
    assert set(wrong) <= NUMBERS_OF_RECORDS


def accepts(form: Any, value: float) -> bool:
    try:
        TypeAdapter(form).validate_python(value)
    except ValidationError:
        return False
    return True
