"""Strategies and kinds of tools that other packages register by entry point, and wings that are not there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest

from teamwright import wings
from teamwright.agents import evaluators
from teamwright.agents.tools import registry as tool_registry
from teamwright.strategies import registry
from teamwright.teams.manifests import schema


@contextmanager
def registered_strategies(monkeypatch: pytest.MonkeyPatch, **places: str) -> Generator[None]:
    """Register strategies by name and import path, with underscores for the dashes of a name."""
    points = [EntryPoint(name.replace("_", "-"), place, registry.GROUP) for name, place in places.items()]
    monkeypatch.setattr(registry, "entry_points_of", lambda _: points)
    registry._third_party.cache_clear()
    yield
    registry._third_party.cache_clear()


@contextmanager
def registered_tools(monkeypatch: pytest.MonkeyPatch, **places: str) -> Generator[None]:
    """Register kinds of tools by name and import path."""
    points = [EntryPoint(name, place, tool_registry.GROUP) for name, place in places.items()]
    caches = (tool_registry._registered, tool_registry._load, schema._schema)
    with monkeypatch.context() as patch:
        patch.setattr(tool_registry, "entry_points_of", lambda _: points)
        for cached in caches:
            cached.cache_clear()
        yield
    for cached in caches:
        cached.cache_clear()


@contextmanager
def without_wings(monkeypatch: pytest.MonkeyPatch, *names: str) -> Generator[None]:
    """Hide wings, as if their folders were removed."""
    hidden, is_there = tuple(f"teamwright.{name}." for name in names), wings.is_there
    caches = (
        wings.find_wings, wings._absent, registry._third_party, tool_registry._registered, tool_registry._load,
        evaluators._registered, schema._schema,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(wings, "is_there", lambda module: not module.startswith(hidden) and is_there(module))
        for cached in caches:
            cached.cache_clear()
        yield
    for cached in caches:
        cached.cache_clear()
