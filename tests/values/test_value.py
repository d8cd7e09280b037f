"""Values made in Python are checked, and the collector is paused during bulk allocation."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from teamwright import Limits, RetryPolicy, Step
from teamwright.errors import InvalidValue, UsageError
from teamwright.garbage_collector import collection_paused


@pytest.mark.parametrize(
    ("kind", "args", "fields", "words"),
    [
        (Limits, (), {"tokens": -1}, "Limits: tokens: must be at least 0, and -1 is not."),
        (Limits, (), {"tokns": 5}, "Limits: tokns: is not a field here (did you mean 'tokens'?)."),
        (
            Limits,
            (),
            {"zz": 5},
            "Limits: zz: is not a field here (known are calls, message, seconds, strict, tokens, usd).",
        ),
        (Limits, (5,), {}, "Limits: takes named arguments only: tokens, usd, seconds, calls, message, strict."),
        (Step, (), {"id": "a", "needs": 3}, "Step: needs: expects a list, found the number 3."),
        (Step, (), {}, "Step: id: is missing."),
        (RetryPolicy, (), {"attempts": "x"}, "RetryPolicy: attempts: expects a whole number, found the text 'x'."),
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
