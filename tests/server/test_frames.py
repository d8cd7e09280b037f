"""The wrapper is a journal like any other, and reads nothing that it has just been given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typing_extensions import override

from teamwright.journal import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server import frames as recent_bodies
from teamwright.server.frames import RecentBodies
from teamwright.testing.journal import JournalConformance, body, events


class TestConformance(JournalConformance):
    @override
    def make(self, folder: Path) -> Journal:
        return RecentBodies(SqliteJournal(folder / "journal.db"))


async def test_only_so_much_is_remembered_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_bodies, "MOST_CHARACTERS", 100)
    inside = MemoryJournal()
    journal = RecentBodies(inside)
    texts = [body(f"{number:040}") for number in range(4)]
    for number, text in enumerate(texts, 1):
        journal.append(Batch(events("run", [number]), text), lambda _: None)
    for text in texts:
        assert await journal.bodies(list(text)) == text
    inside._bodies.clear()  # pyright: ignore[reportPrivateUsage]
    assert await journal.bodies(list(texts[-1])) == texts[-1]
