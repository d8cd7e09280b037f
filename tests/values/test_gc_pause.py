"""Pausing the garbage collector leaves it as it was."""

from __future__ import annotations

import gc

import pytest

from teamwright.values.gc_pause import collection_paused


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
