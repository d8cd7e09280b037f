"""The recorder: numbers facts, batches them, and publishes nothing before it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from pydantic import JsonValue

from teamwright.errors import FencedOut, JournalError, JournalUnavailable
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.recorder import Recorder
from teamwright.values.events.event import Event
from teamwright.values.events.run import Custom
from teamwright.values.turns.messages import Message


class SlowJournal(MemoryJournal):
    """A journal that commits when the test says so."""

    instant = False

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[Batch, Committed]] = []

    def append(self, batch: Batch, done: Committed) -> None:
        self.batches.append((batch, done))

    def commit(self, error: BaseException | None = None) -> None:
        batch, done = self.batches.pop(0)
        if error is None:
            super().append(batch, done)
        else:
            done(error)


class RecorderProbe:
    """A recorder, with what it published and the errors it reported."""

    def __init__(self, journal: MemoryJournal, last: int = 0) -> None:
        self.published: list[Event] = []
        self.failures: list[JournalError] = []
        self.recorder = Recorder(journal, "r", last, lambda: 5.0, self._publish, self.failures.append)

    def _publish(self, events: Sequence[Event]) -> None:
        self.published.extend(events)

    def add(self, name: str) -> Event:
        return self.recorder.add("scope", "place", Custom(domain="d", name=name))


async def test_facts_are_numbered_from_where_the_record_stands() -> None:
    probe = RecorderProbe(MemoryJournal(), last=7)
    assert [probe.add("a").number, probe.add("b").number] == [8, 9]
    await probe.recorder.flush()
    assert [event.number for event in probe.published] == [8, 9]


async def test_nothing_is_published_before_it_is_durable() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    waiting = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0.01)
    assert probe.published == []
    assert not waiting.done()
    journal.commit()
    await waiting
    assert len(probe.published) == 1
    await probe.recorder.flush()


async def test_facts_of_one_go_of_the_loop_are_one_batch() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    probe.add("b")
    await asyncio.sleep(0)
    probe.add("c")
    await asyncio.sleep(0)
    assert [len(batch.events) for batch, _ in journal.batches] == [2, 1]


async def test_a_waiter_is_woken_by_the_batch_that_holds_its_fact() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    first = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0)
    probe.add("b")
    second = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0.01)
    journal.commit()
    await first
    assert not second.done()
    journal.commit()
    await second


async def test_a_failed_commit_reaches_everyone_and_stops_the_writing() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    waiting = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0.01)
    journal.commit(FencedOut("overtaken"))
    with pytest.raises(FencedOut):
        await waiting
    assert [type(error) for error in probe.failures] == [FencedOut]
    assert probe.published == []
    probe.add("b")
    with pytest.raises(FencedOut):
        await probe.recorder.flush()
    assert journal.batches == []


async def test_another_error_becomes_a_journal_error() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    waiting = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0.01)
    journal.commit(OSError("disk full"))
    with pytest.raises(JournalError, match="disk full"):
        await waiting
    assert not isinstance(probe.failures[0], JournalUnavailable)


async def test_what_is_held_back_is_handed_over_at_once_or_forgotten() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.recorder.held = True
    probe.add("a")
    await asyncio.sleep(0)
    assert journal.batches == []
    probe.recorder.release()
    assert len(journal.batches) == 1
    probe.recorder.held = True
    probe.add("b")
    probe.recorder.discard()
    probe.recorder.release()
    assert len(journal.batches) == 1


async def test_a_text_is_kept_once() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    body = probe.recorder.store("hello")
    assert probe.recorder.store("hello") == body
    assert probe.recorder.store({"hello": 1}) != body
    refs = probe.recorder.store_messages(
        [Message(name="a", content="hello"), Message(name="u", content="x", role="user")]
    )
    assert refs[0].body == body
    assert [ref.role for ref in refs] == [None, "user"]
    probe.add("a")
    await asyncio.sleep(0)
    assert set(journal.batches[0][0].bodies.values()) == {'"hello"', '{"hello":1}', '"x"'}


async def test_a_text_that_the_journal_has_is_not_kept_again() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.recorder.mark_stored("hello", "its-hash")
    assert probe.recorder.store("hello") == "its-hash"
    probe.add("a")
    await asyncio.sleep(0)
    assert journal.batches[0][0].bodies == {}


async def test_a_wait_that_is_cancelled_does_not_lose_the_fact() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    waiting = asyncio.create_task(probe.recorder.flush())
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0)
    journal.commit()
    assert len(probe.published) == 1


async def test_there_is_nothing_to_wait_for_where_all_is_durable() -> None:
    probe = RecorderProbe(MemoryJournal())
    await probe.recorder.flush()  # yields once to the others, which had no turn yet
    probe.add("a")
    assert probe.recorder.pending_commit() is None
    assert [event.number for event in probe.published] == [1]


async def test_a_single_writer_has_its_facts_committed_at_once() -> None:
    journal = SlowJournal()
    probe = RecorderProbe(journal)
    probe.add("a")
    wait = probe.recorder.pending_commit(at_once=True)
    assert wait is not None
    assert [batch.alone for batch, _ in journal.batches] == [True]
    journal.commit()
    await wait


async def test_what_was_kept_last_is_not_written_twice_and_anything_else_is_kept() -> None:
    journal = MemoryJournal()
    probe = RecorderProbe(journal)
    value: JsonValue = ["a", {"b": 1}]
    body = probe.recorder.store(value)
    assert probe.recorder.store_unchanged(value) == body
    assert probe.recorder.store_unchanged(["another"]) == probe.recorder.store(["another"]) != body
    probe.recorder.discard()
    probe.add("a")
    assert probe.recorder.store_unchanged(value) == body
    await probe.recorder.flush()
    assert await journal.bodies([body])
