"""Runs are copied between journals of both kinds, with their bodies and inboxes."""

from pathlib import Path

import pytest

from teamwright.journal.copy import CopiedRun, copy_runs
from teamwright.journal.location import resolve_journal
from teamwright.journal.protocol import Batch, Journal
from teamwright.testing.journal import body, commit, event, events
from teamwright.values.events.agent import AgentReturned
from teamwright.values.people import Pause
from tests.kit.postgres import postgres_server, schema_url

__all__ = ["postgres_server"]


@pytest.fixture(params=["sqlite", "postgres"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: str):
    """A journal to read and one to write: from SQLite to Postgres, and the other way."""
    addresses = [str(tmp_path / "journal.db"), schema_url(postgres_server, tmp_path)]
    journals = [resolve_journal(one) for one in (addresses if request.param == "sqlite" else reversed(addresses))]
    for journal in journals:
        await journal.open()
    yield journals
    for journal in journals:
        await journal.close()


async def record(journal: Journal, run_id: str, length: int = 450) -> None:
    texts = body(f"the reply of {run_id}")
    facts = [event(run_id, 1, AgentReturned(body=next(iter(texts)))), *events(run_id, range(2, length + 1))]
    await commit(journal, Batch(facts, texts))
    await journal.send(run_id, Pause(by="ada"))


async def copied(source: Journal, target: Journal) -> list[CopiedRun]:
    return [one async for one in copy_runs(source, target)]


async def test_runs_arrive_with_their_events_bodies_and_inboxes(pair: list[Journal]) -> None:
    source, target = pair
    for run_id in ("first", "second"):
        await record(source, run_id)
    done = await copied(source, target)
    assert [(one.run_id, one.outcome, one.events, one.bodies) for one in done] == [
        ("first", "copied", 450, 1),
        ("second", "copied", 450, 1),
    ]
    assert [run.id for run in await target.runs()] == ["second", "first"]
    for run_id in ("first", "second"):
        assert await target.read(run_id) == await source.read(run_id)
        assert await target.inbox(run_id) == await source.inbox(run_id)
        assert await target.bodies(body(f"the reply of {run_id}")) == body(f"the reply of {run_id}")


async def test_what_is_sent_after_a_copy_has_a_higher_id(pair: list[Journal]) -> None:
    source, target = pair
    for _ in range(5):
        await source.send("other", Pause())
    await record(source, "run", 2)
    await copied(source, target)
    await target.send("run", Pause(by="bob"))
    first, second = await target.inbox("run")
    assert second.id > first.id


async def test_a_copy_that_broke_off_is_continued_and_a_repeated_one_changes_nothing(pair: list[Journal]) -> None:
    source, target = pair
    await record(source, "run", 5)
    await commit(target, Batch((await source.read("run"))[:2], body("the reply of run")))
    assert [one.outcome for one in await copied(source, target)] == ["copied"]
    assert [one.outcome for one in await copied(source, target)] == ["present"]


async def test_a_run_with_another_record_is_not_overwritten(pair: list[Journal]) -> None:
    source, target = pair
    await record(source, "run", 2)
    await commit(target, Batch([event("run", 1, time=5.0)], {}))
    (done,) = await copied(source, target)
    assert done.outcome == "differs"
    assert len(await target.read("run")) == 1


async def test_a_run_that_is_being_driven_is_left_out(pair: list[Journal]) -> None:
    source, target = pair
    await record(source, "run", 2)
    async with source.drive("run"):
        (done,) = await copied(source, target)
    assert done.outcome == "live"
    assert await target.read("run") == []
