"""Drives many queued runs on workers that are killed at random, and checks that each run has ended once and for all.

The law: every run has one end; its tokens agree between its effects, its end and its row; no recorded effect was
repeated; and neither an entry nor a claimed drive is left in the queue.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import anyio
import psycopg
from pydantic_core import to_json

from teamwright import Event
from teamwright.events import AgentReturned, RunEnded
from teamwright.values.turns.messages import digest
from tests.kit.queued_members import EFFECTS, TOKENS
from tests.kit.workers import Cluster, WorkerProcess

AT_ONCE = 8
SUBMITTERS = 8
BLOWS = (SIGKILL, SIGKILL, SIGKILL, SIGTERM, SIGSTOP)
"""What happens to a worker, drawn at random: it dies, or is stopped, or is suspended for a moment."""


@dataclass
class CampaignReport:
    """What happened in a campaign."""

    runs: int
    blows: int = 0
    seconds: float = 0.0
    repeated: int = 0
    """Effects that were executed again, since their results were lost with a worker."""
    breaches: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return (
            f"{self.runs} runs ended in {self.seconds:.0f} s, {self.runs / max(self.seconds, 0.001):.0f} a second;"
            f" {self.blows} workers were killed, stopped or suspended; {self.repeated} lost calls were repeated"
        )


class Campaign:
    """One campaign on a cluster."""

    def __init__(self, cluster: Cluster, *, runs: int, workers: int, seed: int, tell: Callable[[str], None]) -> None:
        self._cluster, self._tell = cluster, tell
        self._runs = [f"run-{number}" for number in range(runs)]
        self._width, self._random = workers, random.Random(seed)
        self._report, self._done = CampaignReport(runs), 0

    async def run(self, *, blow_every: float, patience: float) -> CampaignReport:
        """Submit all runs, strike workers about every `blow_every` seconds, and check the law."""
        await self._submit()
        began = time.monotonic()
        async with self._struck_workers(blow_every):
            await self._all_ended(began + patience)
        self._report.seconds = time.monotonic() - began
        await self._check_entries()
        await self._check_runs()
        return self._report

    async def _submit(self) -> None:
        left = iter(self._runs)

        async def submit_next() -> None:
            for run_id in left:
                await self._cluster.submit(run_id)

        async with anyio.create_task_group() as group:
            for _ in range(SUBMITTERS):
                group.start_soon(submit_next)
        self._tell(f"{len(self._runs)} runs are queued")

    @asynccontextmanager
    async def _struck_workers(self, every: float) -> AsyncGenerator[None]:
        """Workers of which one is struck now and then; one that ends is replaced."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._strike, [self._start() for _ in range(self._width)], every)
            yield
            group.cancel_scope.cancel()

    async def _strike(self, workers: list[WorkerProcess], every: float) -> None:
        while True:
            done = self._done
            await anyio.sleep(self._random.uniform(0.5, 1.5) * every)
            while self._done == done:  # noqa: ASYNC110 - on a busy machine, workers need time to start
                await anyio.sleep(0.1)
            place, blow = self._random.randrange(len(workers)), self._random.choice(BLOWS)
            struck = workers[place]
            struck.send(blow)
            self._report.blows += 1
            if blow is SIGSTOP:
                await anyio.sleep(self._random.uniform(0.2, 1.0))
                struck.send(SIGCONT)
            else:
                workers[place] = self._start()

    def _start(self) -> WorkerProcess:
        return self._cluster.start("--at-once", str(AT_ONCE), "--name", "same")

    async def _all_ended(self, latest: float) -> None:
        """Wait until all runs are completed."""
        told = time.monotonic()
        while self._done < len(self._runs):
            if time.monotonic() > latest:
                raise AssertionError(f"only {self._done} of {len(self._runs)} runs have ended in time")
            if time.monotonic() > told + 10:
                told = time.monotonic()
                self._tell(f"{self._done} runs have ended, {self._report.blows} blows")
            await anyio.sleep(0.2)
            self._done = await anyio.to_thread.run_sync(self._count_completed)

    def _count_completed(self) -> int:
        address = self._cluster.journal.address
        with psycopg.connect(address.url, options=f"-csearch_path={address.schema}") as connection:
            row = connection.execute("SELECT count(*) FROM runs WHERE status = 'completed'").fetchone()
            assert row is not None
            return int(row[0])

    async def _check_entries(self) -> None:
        """Wait until no entry and no claimed drive is left: workers end drives a moment after their runs."""
        worker = self._start()
        latest = time.monotonic() + 30
        client = self._cluster.client
        while left := [*await client.entries("queued", "claimed", "parked"), *await client.drives()]:
            if time.monotonic() > latest:
                self._report.breaches.append(f"entries or drives are left in the queue: {left}")
                break
            await anyio.sleep(0.2)
        worker.send(SIGTERM)

    async def _check_runs(self) -> None:
        effects = [line.partition(" ") for line in self._cluster.effects]
        last = {key: digest(to_json(f"{key} {process}").decode()) for key, _, process in effects}
        self._report.repeated = len(effects) - len(last)
        recorded = set(last.values())
        for run_id in self._runs:
            found = _breach(await self._cluster.journal.read(run_id), recorded)
            if found is not None:
                self._report.breaches.append(f"{run_id}: {found}")
        tokens = sum(one.total_tokens for one in await self._cluster.journal.runs())
        if tokens != len(self._runs) * 2 * EFFECTS * TOKENS:
            self._report.breaches.append(f"the rows of the runs have {tokens} tokens")


def _breach(events: Sequence[Event], recorded: set[str]) -> str | None:
    """How the events of a run break the law, or `None`."""
    ended = [one.fact for one in events if isinstance(one.fact, RunEnded)]
    returned = [one.fact for one in events if isinstance(one.fact, AgentReturned)]
    tokens = sum(one.usage.total_tokens for one in returned)
    if len(ended) != 1 or ended[0].status != "completed" or not isinstance(events[-1].fact, RunEnded):
        return f"it has the ends {[one.status for one in ended]}"
    if not tokens == ended[0].usage.total_tokens == 2 * EFFECTS * TOKENS:
        return f"its effects have {tokens} tokens, and its end has {ended[0].usage.total_tokens}"
    if any(one.body not in recorded for one in returned):
        return "a recorded effect was repeated"
    return None
