"""Page events are read from a journal, from any number on."""

from __future__ import annotations

import pytest

from teamwright.server.page.page_events import PageEvent
from teamwright.server.page.projection import PageReader, read_page_events
from tests.histories.history import FOLDER, RUN_ID, History

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
async def test_a_reader_that_joins_at_any_event_gets_the_rest(name: str) -> None:  # L7
    journal = History.load(name).journal()
    whole = await read_page_events(journal, RUN_ID)
    for after in range(0, whole[-1].number + 1, 3):
        assert await read_page_events(journal, RUN_ID, after) == [one for one in whole if one.number > after]


@pytest.mark.parametrize("name", NAMES)
async def test_live_and_recorded_events_yield_the_same(name: str) -> None:  # L7
    journal = History.load(name).journal()
    reader, live = PageReader(journal, RUN_ID), list[PageEvent]()
    for event in await journal.read(RUN_ID):
        live += await reader.page_events(event)
    assert live == await read_page_events(journal, RUN_ID)


async def test_a_batch_of_events_is_a_matter_of_speed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = History.load("nested").journal()
    whole = await read_page_events(journal, RUN_ID)
    monkeypatch.setattr("teamwright.server.page.projection.LARGE_BATCH", 3)
    assert await read_page_events(journal, RUN_ID) == whole


async def test_a_run_that_does_not_exist_has_no_page_events() -> None:
    assert await read_page_events(History.load("nested").journal(), "nothing") == []
