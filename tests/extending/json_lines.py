"""A journal as a third party writes it: one file of JSON lines, and a lock file for each driver.

Every line is a batch of events or an inbox item. Each process keeps an index of the file in memory and reads what
others have added before it answers.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import AsyncGenerator, Collection, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from teamwright import Event
from teamwright.engine import RunSummary
from teamwright.errors import JournalError, RunIsLive
from teamwright.events import fold
from teamwright.journal import (
    Batch,
    Body,
    Committed,
    InboxItem,
    Journal,
    RunStatus,
    body_references,
    decode_event,
    decode_intervention,
    encode_event,
    encode_intervention,
    fenced_out,
    missing_bodies,
    missing_source,
)
from teamwright.people import Intervention


class JsonLinesJournal(Journal):
    """Keeps runs in a folder; several processes may use it at once."""

    instant = True

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "journal.jsonl"
        self._failed: dict[str, JournalError] = {}
        self._forget()

    def _forget(self) -> None:
        self._read_to = self._identity = 0
        self._events: dict[str, dict[int, Event]] = {}
        self._bodies: dict[Body, str] = {}
        self._inbox: list[InboxItem] = []

    async def open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file.touch()
        self._forget()

    async def close(self) -> None: ...

    def append(self, batch: Batch, done: Committed) -> None:
        """Write the batch, whole or not at all, and call `done` in the event loop's thread."""
        error = self._failed.get(batch.run_id) or self._add(batch)
        if error is not None:
            self._failed[batch.run_id] = error
        done(error)

    def _add(self, batch: Batch) -> JournalError | None:
        with self._writing():
            self._refresh()
            known = self._events.get(batch.run_id, {})
            numbers = [event.number for event in batch.events]
            if len({*numbers, *known}) < len(numbers) + len(known):
                return fenced_out(batch.run_id)
            if batch.source is not None and batch.source not in self._events:
                return missing_source(batch.source)
            self._write({"run": batch.run_id, "events": list(map(encode_event, batch.events)), **_bodies(batch.bodies)})
        return None

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        """Hold the driver lock, which is taken in another thread, as one on another machine would be."""
        lock = await anyio.to_thread.run_sync(self._lock, run_id)
        self._failed.pop(run_id, None)
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(os.close, lock)

    async def is_driven(self, run_id: str) -> bool:
        try:
            async with self.drive(run_id):
                return False
        except RunIsLive:
            return True

    def _lock(self, run_id: str) -> int:
        lock = os.open(self._folder / f"{run_id}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise RunIsLive(run_id) from None
        return lock

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        self._refresh()
        events = [event for number, event in sorted(self._events.get(run_id, {}).items()) if number > after]
        return [event for event in events if event.kind not in without][:limit]

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        self._refresh()
        if missing := set(hashes) - self._bodies.keys():
            raise missing_bodies(missing)
        return {one: self._bodies[one] for one in hashes}

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        self._refresh()
        every = [await self._summary(run_id) for run_id in reversed(self._events)]
        if conversation is not None:
            every = [
                run for run in every if run.conversation and run.conversation == (conversation or run.conversation)
            ]
        return every[:limit]

    async def find(self, run_id: str) -> RunSummary | None:
        self._refresh()
        return await self._summary(run_id) if run_id in self._events else None

    async def _summary(self, run_id: str) -> RunSummary:
        status = fold(await self.read(run_id), RunStatus())
        return status.summary(run_id, driven=await self.is_driven(run_id))

    async def delete(self, run_ids: Collection[str]) -> int:
        """Rewrite the file without these runs, under the driver lock of each."""
        async with AsyncExitStack() as locks:
            for run_id in set(run_ids):
                await locks.enter_async_context(self.drive(run_id))
            with self._writing():
                self._refresh()
                return self._write_without(run_ids)

    def _write_without(self, run_ids: Collection[str]) -> int:
        size = self._file.stat().st_size
        kept = {run: log for run, log in self._events.items() if run not in run_ids}
        gone = [event for run in set(run_ids) for event in self._events.get(run, {}).values()]
        needed = {body for log in kept.values() for event in log.values() for body in body_references(event)}
        unused = {body for event in gone for body in body_references(event)} - needed
        lines = [{"run": run, "events": list(map(encode_event, log.values()))} for run, log in kept.items()]
        lines.append(_bodies({body: text for body, text in self._bodies.items() if body not in unused}))
        lines += [_sent(item.run_id, item.intervention) for item in self._inbox if item.run_id not in run_ids]
        new = self._file.with_suffix(".new")
        new.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        new.replace(self._file)
        return max(0, size - self._file.stat().st_size)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        with self._writing():
            self._write(_sent(run_id, intervention))

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        self._refresh()
        return [item for item in self._inbox if item.run_id == run_id and item.id > after]

    async def changed(self, every: float) -> None:
        before = self._read_to, self._identity
        while before == (self._read_to, self._identity):
            await anyio.sleep(every)
            self._refresh()

    @contextmanager
    def _writing(self) -> Generator[None]:
        """One process writes at a time."""
        with (self._folder / "writer").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a") as file:
            file.write(f"{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())

    def _refresh(self) -> None:
        """Read what was added since the last time, or everything if the file was rewritten."""
        identity = self._file.stat().st_ino
        if identity != self._identity:
            self._forget()
            self._identity = identity
        with self._file.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._read_to += len(line)
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        self._bodies |= line.get("bodies", {})
        if "sent" in line:
            number = len(self._inbox) + 1
            self._inbox.append(InboxItem(number, line["run"], decode_intervention(line["run"], number, line["sent"])))
        for text in line.get("events", ()):
            event = decode_event(line["run"], text)
            self._events.setdefault(event.run_id, {})[event.number] = event


def _bodies(bodies: Any) -> dict[str, Any]:
    return {"bodies": dict(bodies)}


def _sent(run_id: str, intervention: Intervention) -> dict[str, Any]:
    return {"run": run_id, "sent": encode_intervention(intervention)}
