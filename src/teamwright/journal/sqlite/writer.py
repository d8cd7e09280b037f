"""The writer thread: receives batches from the event loop, commits queued ones as a group, and reports back.

It makes no decisions: the committer defines what a commit is and what a failure means.
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
from teamwright.journal.sqlite.commits import Committer

T = TypeVar("T")
Work = Callable[[], None]


QUICK = 0.0005
"""Seconds. When commits take less on average and no other task needs the event loop, a batch is committed in place: two
thread switches would take as long as the commit itself."""
SMOOTHING = 0.1
"""The weight of the last commit in the moving average."""


class _QueuedBatch(NamedTuple):
    batch: Batch
    done: Committed


class Writer:
    """One thread and its queue, processed in order."""

    def __init__(self, name: str, committer: Committer) -> None:
        self._queue: SimpleQueue[_QueuedBatch | Work | None] = SimpleQueue()
        self.committer = committer
        self._queued = self._finished = 0
        self._average = QUICK
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def append(self, batch: Batch, done: Committed) -> None:
        """Commit a batch after those queued before; `done` is called in the loop's thread."""
        if batch.alone and self._average < QUICK and self._is_idle:
            began = perf_counter()
            results = self.committer.commit_here(batch)
            if results is not None:
                self._measure(perf_counter() - began)
                done(results[0])
                return
        self._enqueue(_QueuedBatch(batch, done))

    def _enqueue(self, item: _QueuedBatch | Work | None) -> None:
        self._queued += 1
        self._queue.put(item)

    def _measure(self, seconds: float) -> None:
        self._average += SMOOTHING * (seconds - self._average)

    def submit(self, work: Work) -> None:
        """Queue other work, which must not raise."""
        self._enqueue(work)

    async def call(self, work: Callable[[], T]) -> T:
        """Queue work and wait for its result."""
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
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                self._call_in_loop(settle, None, error)
            else:
                self._call_in_loop(settle, result, None)

        self._enqueue(run)
        return await future

    async def call_promptly(self, work: Callable[[], T]) -> T:
        """Do work that takes microseconds: in the loop's thread while the writer thread is idle, without a switch."""
        return work() if self._is_idle else await self.call(work)

    @property
    def _is_idle(self) -> bool:
        return self._queued == self._finished

    async def close(self) -> None:
        """Process what is queued, report every result, and end the thread."""
        self._enqueue(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        """Process the queue; batches that queued up during a commit form the next group."""
        queue, group = self._queue, list[_QueuedBatch]()
        while True:
            item = queue.get()
            while isinstance(item, _QueuedBatch):
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
            if not isinstance(item, _QueuedBatch):
                item()
                self._finished += 1

    def _commit(self, group: list[_QueuedBatch]) -> None:
        began = perf_counter()
        try:
            results = self.committer.commit_group([batch for batch, _ in group])
            if len(group) == 1 and group[0].batch.alone:
                self._measure(perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 - every driver gets the error, and the thread goes on
            results = [error] * len(group)
        self._call_in_loop(self._report, group, results)

    def _report(self, group: list[_QueuedBatch], results: Sequence[BaseException | None]) -> None:
        for (_, done), result in zip(group, results, strict=True):
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - one callback's error must not block the others
                self._loop.call_exception_handler({"message": "a journal's callback failed", "exception": error})

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)
