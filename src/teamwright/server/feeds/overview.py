"""The list of runs as pages show it: summaries with the beginning of the task, and changes of them as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import BaseModel

from teamwright.errors import TeamwrightError
from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.runtime.run_reader import read_texts
from teamwright.server.feeds.projection import Item
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.results import SPARSE, RunSummary

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

TASK_LENGTH = 240
"""How many characters of a task a list shows."""
SHOWN = 500
"""How many of the newest runs are watched for changes."""
SOON, LATER = 0.4, 1.0
"""Seconds until changes of runs of this engine, and of other processes, are looked for."""


class RunRow(BaseModel):
    """A run in a list."""

    id: str
    team: str
    status: str
    stop_reason: str | None
    task: str
    started_at: str
    seconds: float
    total_tokens: int
    usd: float | None
    conversation: str
    damage: str | None
    parent: str
    driver: str


class Overview:
    """Lists runs, and tells watchers which rows have changed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: dict[str, str] = {}
        self._rows: dict[str, RunRow] = {}
        self._watchers: dict[asyncio.Queue[str], set[str]] = {}
        self._watching = BackgroundTasks()
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Watch runs within this block, while there is a watcher."""
        await self._watching.open()
        try:
            with self._engine.bus.listening(self._arrive):
                self._watching.group().start_soon(self._watch)
                yield
        finally:
            await self._watching.close()

    async def rows(
        self,
        limit: int,
        *,
        offset: int = 0,
        status: str | None = None,
        team: str | None = None,
        search: str = "",
        parent: str | None = None,
    ) -> list[RunRow]:
        """Return the newest runs that fit; `search` looks at ids, teams, conversations and tasks.

        Child runs are left out, because the figures of their parent include theirs; with `parent`, they are all.
        """
        found: list[RunRow] = []
        words = search.casefold().split()
        most = None if status or team or words or offset else limit
        journal = self._engine.journal
        for summary in await (journal.top_runs(most) if parent is None else journal.children([parent])):
            if (status and summary.status != status) or (team and summary.team != team):
                continue
            row = await self.row(summary)
            text = f"{row.id} {row.team} {row.conversation} {row.task}".casefold()
            if all(word in text for word in words):
                found.append(row)
                if len(found) == offset + limit:
                    break
        return found[offset:]

    async def row(self, summary: RunSummary) -> RunRow:
        """Return a run as a row."""
        task = await self._task(summary)
        return RunRow.model_validate({**dict.fromkeys(SPARSE, ""), "damage": None, **summary.to_json(), "task": task})

    async def changes(self) -> AsyncIterator[Item]:
        """Yield the rows of the newest runs, then `ready`, then each row that has changed."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._watchers[queue] = set()  # before the rows are read, so that no change is missed
        try:
            rows = await self.rows(SHOWN)
            self._rows = {row.id: row for row in rows} | self._rows
            self._watched.set()
            for row in reversed(rows):
                yield _item(row)
            yield {"kind": "ready"}
            while True:
                run_id = await queue.get()
                self._watchers[queue].discard(run_id)
                if (row := self._rows.get(run_id)) is not None:
                    yield _item(row)
                else:
                    yield {"kind": "deleted", "run_id": run_id}
        finally:
            del self._watchers[queue]

    async def _task(self, summary: RunSummary) -> str:
        if summary.id not in self._tasks and summary.damage is None:
            with suppress(TeamwrightError):
                for event in await self._engine.journal.read(summary.id, 0, 1):
                    task = str((await read_texts(self._engine.journal, event)).get("task", ""))
                    self._tasks[summary.id] = task[:TASK_LENGTH]
        return self._tasks.get(summary.id, "")

    async def _watch(self) -> None:
        while True:
            if not self._watchers:
                self._rows.clear()
                self._watched.clear()
                await self._watched.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LATER):
                    await self._changed.wait()
            self._changed.clear()
            with suppress(TeamwrightError):
                await self._refresh()
            await asyncio.sleep(SOON)

    async def _refresh(self) -> None:
        rows = {row.id: row for row in await self.rows(SHOWN)}
        changed = [id_ for id_, row in rows.items() if _differs(self._rows.get(id_), row)]
        gone = [] if len(rows) >= SHOWN else [id_ for id_ in self._rows if id_ not in rows]
        self._rows = rows
        for queue, waiting in self._watchers.items():
            for run_id in (*changed, *gone):
                if run_id not in waiting:  # the latest row counts, so that a slow watcher has each run at most once
                    waiting.add(run_id)
                    queue.put_nowait(run_id)

    def _arrive(self, item: Event | AnyDelta) -> None:
        if self._watchers and isinstance(item, Event):
            self._changed.set()


def _differs(before: RunRow | None, row: RunRow) -> bool:
    """Whether a row shows anything new; the time of a live run passes by itself."""
    return before is None or before.model_copy(update={"seconds": row.seconds}) != row


def _item(row: RunRow) -> Item:
    return {"kind": "row", "run_id": row.id, "run": row.model_dump()}
