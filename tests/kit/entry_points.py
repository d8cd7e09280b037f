"""Strategies that other packages register by entry point."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest

from teamwright.strategies import registry


@contextmanager
def registered_strategies(monkeypatch: pytest.MonkeyPatch, **places: str) -> Generator[None]:
    """Register strategies by name and import path, with underscores for the dashes of a name."""
    points = [EntryPoint(name.replace("_", "-"), place, registry.GROUP) for name, place in places.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [one for one in points if one.group == group])
    registry._third_party.cache_clear()
    yield
    registry._third_party.cache_clear()
