"""The writer thread: takes batches from the event loop, commits what has queued up as one group, and reports back.

It never decides anything: what a commit is, and what a failure means, is the journal's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread

from teamwright.journal.protocol import Batch, Committed

T = TypeVar("T")
CommitGroup = Callable[[Sequence[Batch]], Sequence[BaseException | None]]
CommitHere = Callable[[Batch], Sequence[BaseException | None] | None]
Work = Callable[[], None]


QUICK = 0.0005
"""Seconds. A commit that usually takes less is made in place when nobody else needs the event loop: the two changes of
thread that it saves take as long as the commit itself."""
REMEMBERED = 0.1
"""The weight of the last commit in what is usual."""


class _Waiting(NamedTuple):
    batch: Batch
    done: Committed


class Writer:
    """One thread and its queue. What is given to it happens in that order."""

    def __init__(self, name: str, commit_group: CommitGroup, commit_here: CommitHere) -> None:
        self._queue: SimpleQueue[_Waiting | Work | None] = SimpleQueue()
        self._commit_group, self._commit_here = commit_group, commit_here
        self._given = self._finished = 0
        self._usual = QUICK
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def append(self, batch: Batch, done: Committed) -> None:
        """Commit a batch in its turn; `done` is called in the loop's thread."""
        if batch.alone and self._usual < QUICK and self._given == self._finished:
            began = perf_counter()
            results = self._commit_here(batch)
            if results is not None:
                self._learn(perf_counter() - began)
                done(results[0])
                return
        self._put(_Waiting(batch, done))

    def _put(self, item: _Waiting | Work | None) -> None:
        self._given += 1
        self._queue.put(item)

    def _learn(self, seconds: float) -> None:
        self._usual += REMEMBERED * (seconds - self._usual)

    def do(self, work: Work) -> None:
        """Queue something else for the thread to do, which must not fail."""
        self._put(work)

    async def call(self, work: Callable[[], T]) -> T:
        """Let the thread do something in its turn, and wait for what comes of it."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # pyright: ignore[reportArgumentType] - T may be None

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                self._tell(settle, None, error)
            else:
                self._tell(settle, result, None)

        self._put(run)
        return await future

    async def close(self) -> None:
        """Let what is queued be done, and end the thread. Everybody has been told by then."""
        self._put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        """Whatever has queued up while the last group was committed is the next group."""
        queue, group = self._queue, list[_Waiting]()
        while True:
            item = queue.get()
            while isinstance(item, _Waiting):
                group.append(item)
                if queue.empty():
                    break
                item = queue.get()
            if group:
                self._commit(group)
                self._finished += len(group)
                group = []
            if item is None:
                return
            if not isinstance(item, _Waiting):
                item()
                self._finished += 1

    def _commit(self, group: list[_Waiting]) -> None:
        began = perf_counter()
        try:
            results = self._commit_group([batch for batch, _ in group])
            if len(group) == 1 and group[0].batch.alone:
                self._learn(perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 - every driver must hear of it, and the next group have its turn
            results = [error] * len(group)
        self._tell(self._report, group, results)

    def _report(self, group: list[_Waiting], results: Sequence[BaseException | None]) -> None:
        for (_, done), result in zip(group, results, strict=True):
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - one driver's mistake must not keep the others waiting
                self._loop.call_exception_handler({"message": "a journal's callback failed", "exception": error})

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(callback, *arguments)
