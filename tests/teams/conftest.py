"""Strategies of other packages, for all tests of teams that ask for them."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from teamwright.strategies import registry


@pytest.fixture
def third_parties(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other packages have registered a strategy with options, one that takes anything, and one that is broken."""
    points = [
        EntryPoint("relay-race", "tests.teams.relay:Relay", registry.GROUP),
        EntryPoint("anything", "tests.teams.relay:Anything", registry.GROUP),
        EntryPoint("broken", "tests.nowhere:Gone", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in points if one.group == group])
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()
