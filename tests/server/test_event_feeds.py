"""A page sees the words of a run that another process drives as they are written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from teamwright import Engine, Team
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.transport import InProcessTransport
from teamwright.server.event_feeds import Feeds
from tests.runtime.test_event_publisher_followers import Speaker, is_followed


async def test_a_client_sees_the_words_of_a_run_that_another_process_drives(tmp_path: Path) -> None:
    path, transport, speaker = tmp_path / "journal.db", InProcessTransport(), Speaker()
    async with Engine(path, transport=transport) as driver, Engine(SqliteJournal(path), transport=transport) as engine:
        handle = await driver.start(Team("t", members=[speaker]), "go", run_id="r")
        feeds = Feeds(engine, ())
        kinds: list[str] = []
        async with feeds.opened(), feeds.follow("r", form="events") as feed, asyncio.timeout(20):

            async def until(kind: str) -> str:
                while True:
                    for frame in await feed.next() or ():
                        kinds.append(frame.kind)
                        if frame.kind == kind:
                            return frame.text

            await until("agent.called")
            await is_followed(driver)
            speaker.say("Hello ", "you ")
            assert json.loads(await until("delta.text"))["text"] == "Hello "
            speaker.say("there", None)
            await until("run.ended")
            await handle.result()
        assert kinds.index("agent.called") < kinds.index("delta.text") < kinds.index("agent.returned")
