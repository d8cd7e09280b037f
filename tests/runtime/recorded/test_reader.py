"""Reading the record of a run: as one whole, also while a driver that has lost its lock goes on writing."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from typing_extensions import override

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.history.run_record import RunRecord
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.recorded.reader import read_record
from teamwright.values.events.event import Event


class Growing(MemoryJournal):
    """A journal whose first read sees only the first events, as if the others were written right after it."""

    def __init__(self, events: list[Event], seen: int) -> None:
        super().__init__()
        self._recorded, self._seen = events, seen

    @override
    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        last, self._seen = self._seen, len(self._recorded)
        return [one for one in self._recorded if after < one.number <= last and one.kind not in without]

    @override
    async def bodies(self, hashes: Collection[str]) -> dict[str, str]:
        return {}


async def recorded_events() -> list[Event]:
    async def answer(turn: Turn) -> str:
        return f"{turn.number}"

    team = Team("t", members=[FunctionAgent(name, answer) for name in "abc"])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    return (await journal.read("r"))[:-1]


def outline(record: RunRecord) -> tuple[object, ...]:
    endings = {key: ask.ending is not None for key, ask in record.asks.items()}
    return record.number, endings, set(record.calls)


@pytest.mark.parametrize("left", [1, 2, 3, 5])
async def test_events_that_are_written_between_two_reads_are_part_of_the_record(left: int) -> None:
    events = await recorded_events()
    whole = await read_record(Growing(events, len(events)), "r")
    assert outline(await read_record(Growing(events, len(events) - left), "r")) == outline(whole)
