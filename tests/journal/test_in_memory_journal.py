from pathlib import Path

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import JournalConformance, events


class TestConformance(JournalConformance):
    shared = False

    def make(self, folder: Path) -> MemoryJournal:
        return MemoryJournal()


async def test_a_batch_is_kept_before_append_returns() -> None:
    journal = MemoryJournal()
    outcomes: list[BaseException | None] = []
    journal.append(Batch(events("run", [1]), {}), outcomes.append)
    assert outcomes == [None]
    assert await journal.read("run") == events("run", [1])


async def test_events_are_kept_as_they_are() -> None:
    journal = MemoryJournal()
    (written,) = events("run", [1])
    journal.append(Batch([written], {}), lambda _: None)
    assert (await journal.read("run"))[0] is written


async def test_a_reader_may_change_the_list_it_got() -> None:
    journal = MemoryJournal()
    journal.append(Batch(events("run", [1, 2]), {}), lambda _: None)
    (await journal.read("run")).clear()
    assert await journal.read("run") == events("run", [1, 2])


async def test_numbers_may_come_late_when_they_are_new() -> None:
    journal = MemoryJournal()
    outcomes: list[BaseException | None] = []
    for numbers in ([1, 5], [3], [2, 4]):
        journal.append(Batch(events("run", numbers), {}), outcomes.append)
    assert outcomes == [None] * 3
    assert await journal.read("run", after=1) == events("run", [2, 3, 4, 5])
