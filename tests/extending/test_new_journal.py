"""A third-party journal, made from the facades alone, passes the conformance suite and drives runs."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import RunIsLive, UsageError
from teamwright.journal import Journal, MemoryJournal
from teamwright.testing import JournalConformance
from tests.extending.json_lines import JsonLinesJournal


class TestJsonLines(JournalConformance):
    def make(self, folder: Path) -> Journal:
        return JsonLinesJournal(folder / "journal")


def team(*, hang: bool = False) -> Team:
    async def first(text: str) -> str:
        calls.append("first")
        return "one"

    async def second(text: str) -> str:
        calls.append("second")
        if hang:
            await anyio.sleep_forever()
        return "two"

    return Team("pair", members=[FunctionAgent("first", first), FunctionAgent("second", second)])


calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


async def test_a_run_in_it_is_resumed_without_doing_anything_twice(tmp_path: Path) -> None:
    async with Engine(JsonLinesJournal(tmp_path)) as engine:
        handle = await engine.start(team(hang=True), "count", run_id="r")
        while "second" not in calls:  # noqa: ASYNC110 - a member can't tell the test
            await anyio.sleep(0.01)
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"
    async with Engine(JsonLinesJournal(tmp_path)) as engine:
        result = await engine.resume("r", team=team())
    assert (result.status, result.output) == ("completed", "two")
    assert calls == ["first", "second", "second"]


async def test_a_second_engine_is_kept_from_driving_the_same_run(tmp_path: Path) -> None:
    async with Engine(JsonLinesJournal(tmp_path)) as one, Engine(JsonLinesJournal(tmp_path)) as two:
        handle = await one.start(team(hang=True), "count", run_id="r")
        with pytest.raises(RunIsLive):
            await two.resume("r", team=team())
        handle.interrupt()
        await handle.result()
        assert (await two.resume("r", team=team())).status == "completed"


async def test_leaving_the_engine_releases_a_lock_whose_release_takes_time(tmp_path: Path) -> None:
    async with Engine(JsonLinesJournal(tmp_path)) as engine:
        await engine.start(team(hang=True), "count", run_id="r")
    journal = JsonLinesJournal(tmp_path)
    await journal.open()
    assert not await journal.is_driven("r")


def test_a_journal_that_lacks_methods_names_them() -> None:
    class Half(Journal):
        async def open(self) -> None: ...

    with pytest.raises(TypeError, match=r"abstract class Half.*'?append'?, '?bodies'?, '?changed'?, '?close'?"):
        Half()  # pyright: ignore[reportAbstractUsage]


def test_an_engine_says_how_an_object_becomes_a_journal() -> None:
    with pytest.raises(UsageError, match=r"'object' is no journal: inherit from `teamwright.journal.Journal`"):
        Engine(cast("Journal", object()))


def test_the_suite_says_how_an_object_becomes_a_journal(tmp_path: Path) -> None:
    class Suite(JournalConformance):
        def make(self, folder: Path) -> Journal:
            return cast("Journal", object())

    with pytest.raises(AssertionError, match=r"object must inherit from `teamwright.journal.Journal`"):
        Suite().test_the_contract_has_all_its_methods(tmp_path)


async def test_what_a_journal_leaves_out_has_a_default(tmp_path: Path) -> None:
    journal = JsonLinesJournal(tmp_path)
    await journal.open()
    assert (journal.notes, journal.token_rates, journal.budgets) == (None, None, None)
    with journal.watching("r", calls.clear) as is_notified:
        assert not is_notified
    assert await journal.children(["r"]) == []


def test_the_suite_says_that_a_lock_must_be_async(tmp_path: Path) -> None:
    class Blocking(MemoryJournal):
        @contextmanager
        def drive(self, run_id: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - as it was before
            yield

    class Asking(MemoryJournal):
        def is_driven(self, run_id: str) -> Any:
            return False

    class Suite(JournalConformance):
        def __init__(self, made: Any) -> None:
            self.made = made

        def make(self, folder: Path) -> Journal:
            return self.made

    with pytest.raises(AssertionError, match="`drive` must return an async context manager"):
        Suite(Blocking()).test_the_contract_has_all_its_methods(tmp_path)
    with pytest.raises(AssertionError, match="`async def is_driven`"):
        Suite(Asking()).test_the_contract_has_all_its_methods(tmp_path)
