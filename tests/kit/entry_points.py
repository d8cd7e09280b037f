"""Strategies and kinds of tools that other packages register by entry point."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest

from teamwright.agents.tools import registry as tool_registry
from teamwright.strategies import registry
from teamwright.teams.manifests import schema


@contextmanager
def registered_strategies(monkeypatch: pytest.MonkeyPatch, **places: str) -> Generator[None]:
    """Register strategies by name and import path, with underscores for the dashes of a name."""
    points = [EntryPoint(name.replace("_", "-"), place, registry.GROUP) for name, place in places.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [one for one in points if one.group == group])
    registry._third_party.cache_clear()
    yield
    registry._third_party.cache_clear()


@contextmanager
def registered_tools(monkeypatch: pytest.MonkeyPatch, **places: str) -> Generator[None]:
    """Register kinds of tools by name and import path."""
    points = [EntryPoint(name, place, tool_registry.GROUP) for name, place in places.items()]
    caches = (tool_registry._entry_points, tool_registry._load, schema._schema)
    with monkeypatch.context() as patch:
        patch.setattr(tool_registry, "entry_points", lambda group: [one for one in points if one.group == group])
        for cached in caches:
            cached.cache_clear()
        yield
    for cached in caches:
        cached.cache_clear()
