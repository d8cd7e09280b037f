"""The conformance suite for journals: subclass `JournalConformance`, override `make`, and let pytest collect it.

class TestMyJournal(JournalConformance):
    def make(self, folder: Path) -> Journal:
        return MyJournal(folder / "journal")
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from teamwright.errors import FencedOut, JournalCorrupt, RunIsLive
from teamwright.journal.protocol import Batch, Journal
from teamwright.journal.run_filter import RecentRuns, RunFilter, RunKind
from teamwright.testing.trial import a_fact_of_each_kind
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import Custom, Origin, RunEnded, RunPaused, RunResumed, RunStarted
from teamwright.values.people import Answer, Answered, Cancel, Pause
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import Usage

Check = Callable[[Journal], Awaitable[None]]


def event(run_id: str, number: int, fact: Fact | None = None, time: float | None = None) -> Event:
    """Return an event with this number; without a fact, a custom one."""
    fact = fact or Custom(
        domain="testing", name=f"event {number}", data={"number": number, "text": "a\x00b\n\u2028é🎭"}
    )
    return Event(run_id, number, 1_700_000_000.25 + number if time is None else time, "team/a", f"place-{number}", fact)


def events(run_id: str, numbers: Sequence[int]) -> list[Event]:
    """Return events with these numbers."""
    return [event(run_id, number) for number in numbers]


def body(text: str) -> dict[Body, str]:
    """Return one body under its hash."""
    data = json.dumps(text)
    return {digest(data): data}


async def commit(journal: Journal, batch: Batch) -> None:
    """Append a batch and wait until it is durable; raises if it is refused."""
    (outcome,) = await commit_all(journal, [batch])
    if outcome is not None:
        raise outcome


@asynccontextmanager
async def listening(journal: Journal) -> AsyncGenerator[anyio.Event]:
    """Listen for changes from now on; leaving the block waits until one was reported."""
    notified = anyio.Event()

    async def listen() -> None:
        await journal.changed(0.01)
        notified.set()

    with anyio.move_on_after(0.1):  # an earlier change may be reported as well
        await journal.changed(0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        yield notified


async def commit_all(journal: Journal, batches: Sequence[Batch]) -> list[BaseException | None]:
    """Append several batches at once and return their outcomes; `done` is called in order, in the loop's thread."""
    outcomes: list[tuple[int, BaseException | None]] = []
    all_done = anyio.Event()
    thread = threading.get_ident()

    def done(index: int, outcome: BaseException | None) -> None:
        assert threading.get_ident() == thread, "`done` must be called in the event loop's thread"
        outcomes.append((index, outcome))
        if len(outcomes) == len(batches):
            all_done.set()

    for index, batch in enumerate(batches):
        journal.append(batch, lambda outcome, index=index: done(index, outcome))
    if batches:
        await all_done.wait()
    order = [index for index, _ in outcomes]
    assert order == list(range(len(batches))), "`done` must be called once for each batch, in order"
    return [outcome for _, outcome in outcomes]


async def add_runs(journal: Journal) -> None:
    """Add six runs, `a` to `f`, and a child: two have ended, one is paused, and only those that ended cost anything."""
    for run_id, calls, last in (
        ("a", 1, RunEnded(status="completed", stop_reason="done", seconds=9.0)),
        ("b", 2, RunEnded(status="completed", stop_reason="done", seconds=5.0)),
        ("child", 0, None),
        ("c", 0, RunPaused(stop_reason="person")),
        ("d", 0, None),
        ("e", 0, None),
        ("f", 0, None),
    ):
        origin = Origin(run_id="a", number=1, how="place") if run_id == "child" else None
        team = "even" if run_id in "bdf" else "odd"
        returned = AgentReturned(body=digest("b"), usage=Usage(input_tokens=42, usd=1.0))
        facts: list[Fact] = [RunStarted(team=team, task=digest("t"), manifest=digest("m"), seed=1, origin=origin)]
        facts += [*[returned] * calls, *([last] if last is not None else [])]
        batch = [event(run_id, number, fact, time=100.0) for number, fact in enumerate(facts, start=1)]
        await commit(journal, Batch(batch, {}))


async def refused(action: Awaitable[object], error: type[BaseException]) -> None:
    """Check that the action raises this error, with a message."""
    message = ""
    try:
        await action
    except error as refusal:
        message = str(refusal)
    assert message, f"expected {error.__name__} with a message"


def require_contract(journal: Journal) -> None:
    """Fail with what a journal lacks, before a test fails without naming it."""
    assert isinstance(journal, Journal), f"{type(journal).__name__} must inherit from `teamwright.journal.Journal`"
    lock = journal.drive("run")
    if iscoroutine(lock):
        lock.close()
    entered = hasattr(lock, "__aenter__") and hasattr(lock, "__aexit__")
    assert entered, "`drive` must return an async context manager: decorate it with `contextlib.asynccontextmanager`"


class JournalSuite:
    """What the tests of a journal need. `shared` says whether two journals on one folder share their storage."""

    shared = True

    def make(self, folder: Path) -> Journal:
        """Return a journal, not yet open, that stores its data in this folder."""
        raise NotImplementedError

    def check(self, folder: Path, *checks: Check) -> None:
        """Run each check on a new journal, all created on the same folder."""

        async def run() -> None:
            for check in checks:
                journal = self.make(folder)
                require_contract(journal)
                await journal.open()
                try:
                    await check(journal)
                finally:
                    await journal.close()

        anyio.run(run)


class RecordConformance(JournalSuite):
    """The tests of events, bodies and inboxes: their order, durability and fences."""

    def test_the_contract_has_all_its_methods(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            driven = journal.is_driven("run")
            assert isawaitable(driven), "`is_driven` must be a coroutine function: `async def is_driven`"
            assert await driven is False

        self.check(tmp_path, check)

    def test_facts_of_every_kind_are_read_as_they_were_written(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            written = [event("run", number, fact) for number, fact in enumerate(a_fact_of_each_kind(), start=1)]
            await commit(journal, Batch(written, {}))
            assert await journal.read("run") == written

        self.check(tmp_path, check)

    def test_events_are_read_in_order_from_any_number(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            written = events("run", range(1, 26))
            for start in range(0, 25, 5):
                await commit(journal, Batch(written[start : start + 5], {}))
            for after in range(27):
                assert await journal.read("run", after) == written[after:]
                assert await journal.read("run", after, limit=3) == written[after : after + 3]
            assert await journal.read("run", limit=0) == []
            assert await journal.read("other") == []

        self.check(tmp_path, check)

    def test_batches_that_are_given_at_once_become_durable_in_order(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            batches = [Batch(events(run, [n, n + 1]), body(f"{run} {n}")) for n in range(1, 60, 2) for run in "ab"]
            assert await commit_all(journal, batches) == [None] * len(batches)
            assert await journal.read("a") == events("a", range(1, 61))
            assert await journal.read("b") == events("b", range(1, 61))

        self.check(tmp_path, check)

    def test_a_batch_that_is_alone_is_reported_after_those_given_before_it(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            async with journal.drive("run"):
                for number in range(1, 20):  # so that a journal may find its commits quick
                    await commit(journal, Batch(events("run", [number]), {}, alone=True))
                done: list[int] = []
                for number in range(20, 26):
                    is_last = number % 2 == 1
                    journal.append(
                        Batch(events("run", [number]), {}, alone=is_last), lambda _, number=number: done.append(number)
                    )
                    time.sleep(0.02)  # noqa: ASYNC251 - the loop hears of no commit meanwhile
                with anyio.fail_after(10):
                    while len(done) < 6:  # noqa: ASYNC110 - a journal has no event for it
                        await anyio.sleep(0.001)
                assert done == list(range(20, 26)), "`done` must be called in the order of appends"

        self.check(tmp_path, check)

    def test_a_number_that_exists_fences_its_batch_out_as_a_whole(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await commit(journal, Batch(events("run", [1, 2, 3]), {}))
            late = Batch([event("run", 4), event("run", 3, Custom(domain="late", name="late"))], body("late"))
            await refused(commit(journal, late), FencedOut)
            assert await journal.read("run") == events("run", [1, 2, 3])
            await refused(journal.bodies(late.bodies), JournalCorrupt)

        self.check(tmp_path, check)

    def test_a_run_that_was_fenced_out_takes_nothing_until_it_is_driven_again(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await commit(journal, Batch(events("run", [1, 2]), {}))
            batches = [Batch(events("run", [number]), {}) for number in (2, 3, 4)]
            assert [type(outcome) for outcome in await commit_all(journal, batches)] == [FencedOut] * 3
            assert await journal.read("run") == events("run", [1, 2])
            async with journal.drive("run"):
                await commit(journal, Batch(events("run", [3]), {}))
            assert await journal.read("run") == events("run", [1, 2, 3])

        self.check(tmp_path, check)

    def test_a_batch_that_is_refused_does_not_harm_others_beside_it(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await commit(journal, Batch(events("late", [1]), {}))
            batches = [Batch(events(run, [1]), body(run)) for run in ("first", "late", "second")]
            outcomes = await commit_all(journal, batches)
            assert [type(outcome) for outcome in outcomes] == [type(None), FencedOut, type(None)]
            assert await journal.read("first") == events("first", [1])
            assert await journal.read("second") == events("second", [1])

        self.check(tmp_path, check)

    def test_a_body_is_kept_however_often_it_is_written(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            texts = body("the same \x00 text é🎭") | body("x" * 100_000) | body("")
            for number in (1, 2):
                await commit(journal, Batch(events("run", [number]), texts))
            assert await journal.bodies(list(texts) * 2) == texts
            assert await journal.bodies([]) == {}
            await refused(journal.bodies([*texts, digest("missing")]), JournalCorrupt)

        self.check(tmp_path, check)

    def test_many_bodies_are_read_at_once(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            texts = {one: text for number in range(3000) for one, text in body(str(number)).items()}
            await commit(journal, Batch(events("run", [1, 2]), texts))
            assert await journal.bodies(texts) == texts

        self.check(tmp_path, check)

    def test_inbox_items_are_read_in_the_order_of_sending(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            sent = [Pause(by="ada"), Cancel(reason="enough"), Answered(key="a/b", answer=Answer(text="yes"))]
            for one in sent:
                await journal.send("run", one)
                await journal.send("other", Pause())
            items = await journal.inbox("run")
            assert [item.intervention for item in items] == sent
            assert [item.run_id for item in items] == ["run"] * 3
            assert sorted({item.id for item in items}) == [item.id for item in items]
            assert await journal.inbox("run", after=items[0].id) == items[1:]
            assert await journal.inbox("run", after=items[-1].id) == []

        self.check(tmp_path, check)

    def test_a_listener_is_notified_when_something_is_sent(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            async with listening(journal) as notified:
                await anyio.sleep(0.05)
                assert not notified.is_set()
                await journal.send("run", Pause())
            assert await journal.inbox("run")

        self.check(tmp_path, check)


class RunConformance(JournalSuite):
    """The tests of runs: their drivers, lists, status and deletion."""

    def test_a_run_has_one_driver_at_a_time(self, tmp_path: Path) -> None:
        async def drive(journal: Journal) -> None:
            async with journal.drive("run"):
                pass

        async def check(journal: Journal) -> None:
            assert not await journal.is_driven("run")
            async with journal.drive("run"), journal.drive("other"):
                assert await journal.is_driven("run")
                await refused(drive(journal), RunIsLive)
                assert await journal.is_driven("run")
            assert not await journal.is_driven("run")
            await drive(journal)

        self.check(tmp_path, check)

    def test_a_driver_lock_may_be_released_by_another_task(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            lock = journal.drive("run")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lock.__aenter__)
            assert await journal.is_driven("run")
            await lock.__aexit__(None, None, None)
            assert not await journal.is_driven("run")

        self.check(tmp_path, check)

    def test_runs_are_listed_newest_first_with_their_status(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            usage = Usage(requests=1, input_tokens=30, output_tokens=12, usd=0.25)
            started = RunStarted(team="report", task=digest("t"), manifest=digest("m"), seed=1)
            await commit(journal, Batch([event("first", 1, started, time=1_700_000_000.0)], {}))
            await commit(journal, Batch([event("second", 1, started, time=1_700_000_001.0)], {}))
            assert [run.id for run in await journal.runs()] == ["second", "first"]
            assert [run.id for run in await journal.runs(limit=1)] == ["second"]
            assert [run.id for run in await journal.runs(limit=3)] == ["second", "first"]
            assert await journal.runs(limit=0) == []
            assert await journal.find("third") is None
            for number in range(2, 302):
                returned = AgentReturned(body=digest("b"), usage=usage)
                await commit(journal, Batch([event("first", number, returned, time=1_700_000_000.0 + number)], {}))
            run = await journal.find("first")
            assert run is not None
            assert (run.team, run.status, run.stop_reason) == ("report", "interrupted", None)
            assert (run.total_tokens, run.usd, run.seconds) == (300 * 42, 75.0, 301.0)
            assert run.started_at.startswith("2023-11-14T22:13:20")
            async with journal.drive("first"):
                assert [run.status for run in await journal.runs()] == ["interrupted", "running"]

        self.check(tmp_path, check)

    def test_the_turns_of_a_conversation_are_listed_newest_first(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            for run_id, name in (("a", "talk"), ("b", ""), ("c", "other"), ("d", "talk")):
                fact = RunStarted(team="t", task="0" * 40, manifest="0" * 40, seed=1, conversation=name)
                await commit(journal, Batch([event(run_id, 1, fact)], {}))
            assert [run.id for run in await journal.runs(conversation="talk")] == ["d", "a"]
            assert [run.id for run in await journal.runs(1, conversation="talk")] == ["d"]
            assert [run.id for run in await journal.runs(conversation="")] == ["d", "c", "a"]
            assert await journal.runs(conversation="none") == []
            assert [run.conversation for run in await journal.runs()] == ["talk", "other", "", "talk"]

        self.check(tmp_path, check)

    def test_the_children_of_a_run_are_found_and_apart_from_other_runs(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            for run_id, origin in (
                ("a", None),
                ("a-1", Origin(run_id="a", number=1, how="place")),
                ("a-2", Origin(run_id="a", number=1, how="place")),
                ("a-1-1", Origin(run_id="a-1", number=1, how="place")),
                ("b", Origin(run_id="a-1", number=1, how="fork")),
            ):
                fact = RunStarted(team="t", task=digest("t"), manifest=digest("m"), seed=1, origin=origin)
                await commit(journal, Batch([event(run_id, 1, fact)], {}))
            await commit(journal, Batch([event("a-1", 2, RunResumed(driver="host:7"))], {}))
            served = RunStarted(team="t", task=digest("t"), manifest=digest("m"), seed=1, driver="server@host:7")
            await commit(journal, Batch([event("c", 1, served)], {}))
            assert [(run.id, run.driver) for run in await journal.top_runs(1)] == [("c", "server@host:7")]
            await journal.delete(["c"])
            assert [(run.id, run.parent, run.driver) for run in await journal.children(["a"])] == [
                ("a-2", "a", ""),
                ("a-1", "a", "host:7"),
            ]
            assert [run.id for run in await journal.descendants(["a"])] == ["a-2", "a-1", "a-1-1"]
            assert await journal.children(["b"]) == []
            assert [run.id for run in await journal.top_runs()] == ["b", "a"]
            assert [[run.id for run in await journal.top_runs(most)] for most in (0, 1, 2, 9)] == [
                [],
                ["b"],
                ["b", "a"],
                ["b", "a"],
            ]

        self.check(tmp_path, check)

    def test_runs_are_paged_in_order_by_team_and_status(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await add_runs(journal)

            async def pages(**which: Any) -> str:
                found, size, after = "", 2, None
                while page := await journal.top_runs(size, RunFilter(**which, after=after)):
                    assert len(page) <= size
                    found, after = found + "".join(run.id for run in page), page[-1].id
                return found

            assert await pages() == "fedcba"
            assert await pages(order="started") == "abcdef"
            assert await pages(order="-tokens") == "bafedc"
            assert await pages(order="usd") == "cdefab"
            assert await pages(order="-seconds") == "abfedc"
            assert await pages(team="even") == "fdb"
            assert await pages(status="completed") == "ba"
            assert await pages(status="completed", team="odd") == "a"
            assert await pages(status="paused") == "c"
            assert await pages(status="interrupted", order="started") == "def"
            async with journal.drive("e"):
                assert (await pages(status="running"), await pages(status="interrupted")) == ("e", "fd")
            assert await journal.top_runs(2, RunFilter(after="nowhere")) == []

        self.check(tmp_path, check)

    def test_runs_of_a_team_are_paged_by_their_last_change(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await add_runs(journal)
            ended = RunEnded(status="degraded", stop_reason="budget", seconds=1.0)
            await commit(journal, Batch([event("f", 2, ended, time=200.0)], {}))
            await commit(journal, Batch([event("c", 3, RunResumed(), time=150.0)], {}))

            async def pages(which: RecentRuns) -> str:
                found, size, start = "", 1, which.before
                while page := await journal.top_runs(size, structs.replace(which, before=start)):
                    assert len(page) <= size
                    found, start = found + "".join(run.id for run in page), (page[-1].since, page[-1].id)
                every = await journal.top_runs(None, which)
                assert "".join(run.id for run in every) == found
                return f"{found} {await journal.count_recent(structs.replace(which, before=start))}"

            assert await pages(RecentRuns("even")) == "fdb 3"
            assert await pages(RecentRuns("odd")) == "cea 3"
            assert await pages(RecentRuns("none")) == " 0"
            assert await pages(RecentRuns("even", since=200.0)) == "f 1"
            assert await pages(RecentRuns("even", (RunKind("completed"), RunKind("degraded", done=True)))) == "b 1"
            assert await pages(RecentRuns("even", (RunKind("failed"), RunKind("degraded", done=False)))) == "f 1"
            assert await pages(RecentRuns("odd", (RunKind("running"), RunKind("interrupted")))) == "ce 2"
            assert await pages(RecentRuns("odd", (RunKind("paused"),))) == " 0"

        self.check(tmp_path, check)

    def test_a_paused_and_resumed_run_counts_its_time_with_a_driver(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            async def add(number: int, time: float, fact: Fact) -> tuple[str, str | None, float]:
                await commit(journal, Batch([event("run", number, fact, time)], {}))
                run = await journal.find("run")
                assert run is not None
                assert await journal.open_runs() == ([] if run.status == "completed" else [run])
                return run.status, run.stop_reason, run.seconds

            await add(1, 100.0, RunStarted(team="t", task=digest("t"), manifest=digest("m"), seed=1))
            assert await add(2, 110.0, RunPaused(stop_reason="person")) == ("paused", "person", 10.0)
            assert await add(3, 200.0, RunResumed()) == ("interrupted", None, 10.0)
            assert await add(4, 205.0, Custom(domain="d", name="n")) == ("interrupted", None, 15.0)
            assert await add(5, 300.0, RunResumed()) == ("interrupted", None, 15.0)
            ended = RunEnded(status="completed", stop_reason="done", seconds=16.5)
            assert await add(6, 302.0, ended) == ("completed", "done", 16.5)

        self.check(tmp_path, check)

    def test_what_is_known_of_the_tokens_of_models_is_kept(self, tmp_path: Path) -> None:
        """Checks a journal that has `token_rates`; one without them may leave them out."""

        async def keep(journal: Journal) -> None:
            if (rates := journal.token_rates) is not None:
                assert await rates.load("one at http://x/v1") is None
                await rates.save("one at http://x/v1", "[[1]]")
                await rates.save("one at http://x/v1", "[[2]]")
                await rates.save("other", "[]")
                assert (await rates.load("one at http://x/v1"), await rates.load("other")) == ("[[2]]", "[]")

        async def find(journal: Journal) -> None:
            if self.shared and (rates := journal.token_rates) is not None:
                assert await rates.load("one at http://x/v1") == "[[2]]", "another process knows it"

        self.check(tmp_path, keep, find)

    def test_a_deleted_run_is_gone_with_all_that_only_it_refers_to(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            own, both = body("own" * 20_000), body("both")
            for run, texts in (("gone", own | both), ("kept", both)):
                facts = [AgentReturned(body=one) for one in texts]
                batch = Batch([event(run, number, fact) for number, fact in enumerate(facts, start=1)], texts)
                await commit(journal, batch)
                await journal.send(run, Pause())
            kept = await journal.read("kept")
            assert await journal.delete(["gone", "unknown"]) > 0
            assert await journal.read("gone") == await journal.inbox("gone") == []
            assert await journal.find("gone") is None
            await refused(journal.bodies(own), JournalCorrupt)
            assert await journal.bodies(both) == both
            assert await journal.read("kept") == kept
            assert len(await journal.inbox("kept")) == 1
            await commit(journal, Batch(events("gone", [1]), {}))
            assert await journal.read("gone") == events("gone", [1])

        self.check(tmp_path, check)

    def test_deleting_an_unknown_run_changes_nothing(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            await commit(journal, Batch(events("kept", [1, 2]), body("text")))
            await journal.delete(["unknown"])
            assert await journal.read("kept") == events("kept", [1, 2])
            assert await journal.find("unknown") is None
            assert not await journal.is_driven("unknown")

        self.check(tmp_path, check)

    def test_a_run_that_is_being_driven_is_not_deleted(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            for run in ("run", "other"):
                await commit(journal, Batch(events(run, [1, 2]), {}))
            async with journal.drive("run"):
                await refused(journal.delete(["other", "run"]), RunIsLive)
                assert await journal.is_driven("run")
            assert await journal.read("run") == events("run", [1, 2])
            assert await journal.read("other") == events("other", [1, 2])

        self.check(tmp_path, check)


class JournalConformance(RecordConformance, RunConformance):
    """The tests of a journal: of records, of runs, and of what another opener of the same storage sees."""

    def test_closing_waits_for_appends_in_flight(self, tmp_path: Path) -> None:
        async def check(journal: Journal) -> None:
            outcomes: list[BaseException | None] = []
            for number in range(1, 101):
                journal.append(Batch(events("run", [number]), {}), outcomes.append)
            await journal.close()
            assert outcomes == [None] * 100
            await journal.open()
            assert await journal.read("run") == events("run", range(1, 101))

        self.check(tmp_path, check)

    def test_what_was_recorded_outlives_the_journal_object(self, tmp_path: Path) -> None:
        async def write(journal: Journal) -> None:
            await commit(journal, Batch(events("run", [1, 2]), body("text")))
            await journal.send("run", Pause())

        async def check(journal: Journal) -> None:
            assert await journal.read("run") == events("run", [1, 2])
            assert await journal.bodies(body("text")) == body("text")
            assert [item.intervention for item in await journal.inbox("run")] == [Pause()]

        if self.shared:
            self.check(tmp_path, write, check)

    def test_two_openers_see_each_others_writes_and_lock_each_other_out(self, tmp_path: Path) -> None:
        async def check_both(one: Journal, two: Journal) -> None:
            async with listening(two):
                await commit(one, Batch(events("run", [1]), body("text")))
            assert await two.read("run") == events("run", [1])
            assert await two.bodies(body("text")) == body("text")
            await two.send("run", Pause())
            assert len(await one.inbox("run")) == 1
            async with one.drive("run"):
                assert await two.is_driven("run")
                run = await two.find("run")
                assert run is not None
                assert run.status == "running"
                await refused(two.delete(["run"]), RunIsLive)
            await commit(two, Batch(events("run", [2]), {}))
            await refused(commit(one, Batch(events("run", [2]), {})), FencedOut)

        async def check(one: Journal) -> None:
            two = self.make(tmp_path)
            await two.open()
            try:
                await check_both(one, two)
            finally:
                await two.close()

        if self.shared:
            self.check(tmp_path, check)
