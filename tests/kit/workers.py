"""Worker processes for tests. A server that has imported everything forks them, so that each starts in milliseconds.

Run as a program, this module is the server: it reads jobs as lines of JSON and prints the process id of each worker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psycopg

from teamwright.cluster.queue_client import QueueClient
from teamwright.events import AgentReturned, RunEnded
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from tests.kit.queued_members import EFFECTS, FOLDER, TOKENS
from tests.paths import ROOT

PATIENCE = 40.0
"""Seconds in which anything that a test waits for must happen."""
MANIFEST = """
agents:
  first: {function: "tests.kit.queued_members:work"}
  second: {function: "tests.kit.queued_members:work"}
teams:
  pair: {strategy: sequential, members: [first, second]}
"""


@dataclass
class WorkerProcess:
    """One worker: its process, and what it reports."""

    pid: int
    log: Path

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def lives(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def lines(self) -> list[str]:
        """What the worker has reported so far."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def has_said(self, words: str) -> bool:
        return any(words in line for line in self.lines)


@dataclass
class Cluster:
    """A folder with a ledger, a journal in Postgres, and the workers that were started on it."""

    url: str
    folder: Path
    server: subprocess.Popen[str]
    engine: Engine
    client: QueueClient
    team: Team
    workers: list[WorkerProcess] = field(default_factory=list[WorkerProcess])

    def start(
        self,
        *arguments: str,
        url: str = "",
        redis: str = "",
        die_at: int = 0,
        when: str = "before",
        newer: bool = False,
        clock: float = 0.0,
    ) -> WorkerProcess:
        """Start a worker; it dies by SIGKILL before or after its write number `die_at` to the journal.

        A `newer` one is a program whose layout of the journal has one more minor version. The clock of its machine is
        ahead by `clock` seconds.
        """
        log = self.folder / f"worker-{len(self.workers)}.log"
        more = {"die_at": die_at, "when": when, "newer": newer, "redis": redis, "clock": clock}
        self.workers.append(start_worker(self.server, url or self.url, self.folder, log, *arguments, **more))
        return self.workers[-1]

    @property
    def hold(self) -> Path:
        """While this file exists, effects wait."""
        return self.folder / "hold"

    @property
    def effects(self) -> list[str]:
        """The effects that were executed, in order: key and process."""
        ledger = self.folder / "ledger"
        return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []

    @property
    def journal(self) -> PostgresJournal:
        assert isinstance(self.engine.journal, PostgresJournal)
        return self.engine.journal

    async def submit(self, *run_ids: str, queue: str = "default") -> None:
        """Submit runs, each with its id as the task."""
        for run_id in run_ids:
            batch = await self.engine.enqueue(self.team, run_id, queue=queue, run_id=run_id)
            assert await self.client.submit(batch, queue)

    async def completed(self, *run_ids: str) -> None:
        """Wait until these runs are completed."""
        end = time.monotonic() + PATIENCE
        while True:
            found = await self.journal.cluster.summaries(run_ids)
            left = {one.id: one.status for one in found.values() if one.status != "completed"}
            if len(found) == len(run_ids) and not left:
                return
            assert time.monotonic() < end, (left, *(line for worker in self.workers for line in worker.lines[-5:]))
            await anyio.sleep(0.05)

    async def check(self, *run_ids: str, task: str = "") -> None:
        """Check that each run has ended once, with the right result, and that no recorded effect was repeated."""
        last = {line.partition(" ")[0]: line for line in self.effects}
        for run_id in run_ids:
            history = await self.engine.runs.history(run_id)
            returned = [one.fact for one in history.events if isinstance(one.fact, AgentReturned)]
            values = [
                (await self.engine.texts(one))["result"] for one in history.events if one.kind == "agent.returned"
            ]
            assert all(last[str(value).partition(" ")[0]] == value for value in values), (
                "a recorded effect was repeated"
            )
            ended = [one.fact for one in history.events if isinstance(one.fact, RunEnded)]
            assert [one.status for one in ended] == ["completed"]
            assert (await self.engine.runs.result(run_id)).output == f"{task or run_id} is done"
            spent = sum(one.usage.total_tokens for one in returned)
            summary = await self.engine.runs.find(run_id)
            assert summary is not None
            assert spent == ended[0].usage.total_tokens == summary.total_tokens == 2 * EFFECTS * TOKENS

    def end_session(self, run_id: str) -> None:
        """End the session of the process that drives a run, as the server does after it was silent for a while."""
        with psycopg.connect(self.journal.address.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
                " AND ((classid::bigint << 32) | objid::bigint) = %s",
                (self.journal.address.lock_key(run_id),),
            )

    def kill_all(self) -> None:
        for worker in self.workers:
            worker.send(signal.SIGKILL)


@contextmanager
def worker_server() -> Generator[subprocess.Popen[str]]:
    """A server that forks workers; it ends with its input."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def start_worker(
    server: subprocess.Popen[str], url: str, folder: Path, log: Path, *arguments: str, **more: object
) -> WorkerProcess:
    """Start a worker on this journal, whose members use a folder; `more` is said in `Cluster.start`."""
    environment = {"TEAMWRIGHT_JOURNAL": url, FOLDER: str(folder)}
    if redis := more.pop("redis", ""):
        environment["TEAMWRIGHT_REDIS"] = str(redis)
    job = {"environment": environment, "arguments": arguments, "log": str(log), **more}
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    return WorkerProcess(int(server.stdout.readline()), log)


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        await anyio.sleep(0.02)


@asynccontextmanager
async def opened_cluster(url: str, folder: Path, server: subprocess.Popen[str]) -> AsyncGenerator[Cluster]:
    """A cluster without workers; those that are started end with the block."""
    (folder / "team.yaml").write_text(MANIFEST, encoding="utf-8")
    client = QueueClient(DatabaseAddress.parse(url))
    await client.open()
    try:
        async with Engine(url) as engine:
            cluster = Cluster(url, folder, server, engine, client, load_team(folder / "team.yaml"))
            try:
                yield cluster
            finally:
                cluster.kill_all()
    finally:
        await client.close()


def _serve() -> None:
    """Fork a worker for each line of the input."""
    from dbos import DBOS

    from teamwright.cli.main import main
    from teamwright.cluster.worker import Worker

    assert all((DBOS, main, Worker)), "imported once, before the forks"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _live(job)
        print(pid, flush=True)


def _live(job: dict[str, Any]) -> None:
    """Be a worker, and never return."""
    from teamwright.cli.main import main

    os.environ.update(job["environment"])
    log = os.open(job["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if job.get("die_at"):
        _die_at(job["die_at"], job["when"])
    if job.get("newer"):
        _be_newer()
    if ahead := job.get("clock"):
        own_clock = time.time
        time.time = lambda: own_clock() + ahead
    code = 1
    try:
        code = main(["worker", "--allow", "module:tests", *job["arguments"]])
    finally:
        sys.stderr.flush()
        os._exit(code)


def _die_at(write: int, when: str) -> None:
    """End this process by SIGKILL before or after this write to the journal."""
    from tests.kit.postgres_commits import watch_commits

    writes = 0

    def count() -> None:
        nonlocal writes
        writes += 1
        die("before")

    def die(now: str) -> None:
        if writes == write and now == when:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_commits(count, lambda: die("after"))


def _be_newer() -> None:
    """Make this process a program of the next release, which adds to the layout of the journal."""
    from teamwright.journal.postgres import journal

    own = journal.migrate
    latest = journal.MIGRATIONS[-1].version
    added = journal.Migration(
        journal.Version(latest.major, latest.minor + 1),
        "ALTER TABLE events ADD COLUMN added text DEFAULT 'new'; CREATE TABLE added (id text PRIMARY KEY)",
    )

    async def migrate(connection: journal.Connection, address: DatabaseAddress) -> journal.Version:
        return await own(connection, address, (*journal.MIGRATIONS, added))

    journal.migrate = migrate  # pyright: ignore[reportAttributeAccessIssue]


if __name__ == "__main__":
    _serve()
