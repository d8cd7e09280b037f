"""Runs of several processes on one Postgres server: `python -m bench.cluster`. Figures: docs/contributing/scale.md.

Four parts, any of which can be named on the command line:

- `commits`: how many durable turns processes commit together without queues, and what Postgres pays for one.
- `idle`: what a worker without runs takes of Postgres.
- `queue`: short runs from the queue, one worker, beside bare DBOS workflows with one step.
- `workers`: 1, 2 and 4 workers that drive runs whose members wait 200 ms, as for a model.

Runs are queued before workers start, and a rate is counted in the middle: it leaves out how workers start and how the
last runs end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg

from bench.cluster_members import SECONDS, TURNS
from bench.offline import quiet_environment
from bench.postgres_server import new_database, serving
from bench.rounds import ROOT
from teamwright import Engine
from teamwright.cluster.queue_client import QueueClient
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.teams.team_loader import load_team

PROCESSES = (1, 2, 4)
CHAINS = {1: 200, 32: 60}
"""How many runs one process drives at a time, and how many turns each has."""
SHORT_RUNS, SHORT_AT_ONCE = 300, 16
WAITING_RUNS, WAITING_AT_ONCE = 40, 8
"""Runs for each worker, and how many it drives at a time."""
IDLE_WORKERS, IDLE_SECONDS = 2, 10.0
PATIENCE = 300.0


def commits() -> None:
    """Print turns per second of several processes, and the CPU time of Postgres for each."""
    print("\ndurable turns of several processes")
    _head("processes", "runs at once in each", "turns/s", "transactions/s", "turns per transaction",
          "Postgres, µs of CPU per turn", "processes, µs of CPU per turn")  # fmt: skip
    for chains, turns in CHAINS.items():
        for processes in PROCESSES:
            url = new_database()
            total = processes * chains * turns
            with started([["bench.cluster_members", url, str(chains), str(turns)]] * processes) as children:
                for child in children:
                    assert child.stdout is not None
                    child.stdout.readline()  # it is connected, and warm
                before, cpu, began = _transactions(url), _postgres_cpu(url), time.perf_counter()
                for child in children:
                    assert child.stdin is not None
                    child.stdin.write("go\n")
                    child.stdin.flush()
                spent = [float(child.stdout.readline()) for child in children if child.stdout]
                seconds = time.perf_counter() - began
                committed = _transactions(url) - before
                server = _postgres_cpu(url) - cpu
            each = sum(spent) / total * 1e6
            print(f"| {processes} | {chains} | {total / seconds:,.0f} | {committed / seconds:,.0f}"
                  f" | {total / committed:.1f} | {server / total * 1e6:,.0f} | {each:,.0f} |", flush=True)  # fmt: skip


async def queue(folder: Path) -> None:
    """Print how many short runs one worker ends in a second, beside DBOS alone."""
    url, bare = new_database(), new_database()
    submitted = await _submit(url, folder, "short", SHORT_RUNS)
    queued = await asyncio.to_thread(_enqueue_bare, bare, SHORT_RUNS)
    print(f"\n{SHORT_RUNS} short runs in a queue, one worker, {SHORT_AT_ONCE} at a time")
    _head("", "submitted/s", "ended/s", "Postgres, µs of CPU per run")
    for label, where, statement, command, rate in (
        ("Teamwright, runs of one turn", url, _ENDED, _worker(url, SHORT_AT_ONCE), submitted),
        ("DBOS, workflows of one step", bare, _BARE_ENDED, ["bench.dbos_worker", bare, str(SHORT_AT_ONCE)], queued),
    ):
        before = _postgres_cpu(where)
        times = await _drained(where, SHORT_RUNS, statement, [command])
        spent = (_postgres_cpu(where) - before) / SHORT_RUNS * 1e6
        tenth = SHORT_RUNS // 10
        ended = (SHORT_RUNS - 2 * tenth) / (times[-tenth - 1] - times[tenth - 1])
        print(f"| {label} | {rate:,.0f} | {ended:,.0f} | {spent:,.0f} |", flush=True)


async def idle(folder: Path) -> None:
    """Print what workers without runs take of Postgres."""
    url = new_database()
    await _submit(url, folder, "short", 4 * IDLE_WORKERS)
    with started([_worker(url, 1)] * IDLE_WORKERS):
        await _all_ended(url, 4 * IDLE_WORKERS, _ENDED)
        await asyncio.sleep(IDLE_SECONDS)
        before = _postgres_cpu(url)
        await asyncio.sleep(IDLE_SECONDS)
        spent = _postgres_cpu(url) - before
    print(f"\nan idle worker: {spent / IDLE_WORKERS / IDLE_SECONDS * 1e3:.1f} ms of CPU of Postgres per second")


async def workers(folder: Path) -> None:
    """Print how the rate of runs that mostly wait grows with the number of workers."""
    ideal = WAITING_AT_ONCE / (TURNS * SECONDS)
    print(f"\nruns of {TURNS} turns of {SECONDS * 1000:.0f} ms, {WAITING_AT_ONCE} at a time in each worker")
    _head("workers", "runs/s", "turns/s", "share of the ideal")
    for number in PROCESSES:
        url, runs, slots = new_database(), WAITING_RUNS * number, WAITING_AT_ONCE * number
        await _submit(url, folder, "waiting", runs)
        await _drained(url, runs, _ENDED, [_worker(url, WAITING_AT_ONCE)] * number)
        # Once all slots are taken, a run starts when another one has ended.
        starts = await asyncio.to_thread(_times, url, _STARTED)
        rate = (len(starts) - slots) / (starts[-1] - starts[slots - 1])
        print(f"| {number} | {rate:.1f} | {rate * TURNS:,.0f} | {rate / ideal / number:.0%} |", flush=True)


def _head(*names: str) -> None:
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)


def _worker(url: str, at_once: int) -> list[str]:
    return ["teamwright", "worker", "--at-once", str(at_once), "--allow", "module:bench", "--journal", url]


_ENDED = "SELECT time FROM teamwright.events WHERE kind = 'run.ended' AND data LIKE '%completed%' ORDER BY 1"
_STARTED = "SELECT time FROM teamwright.events WHERE kind = 'run.resumed' ORDER BY 1"
_BARE_ENDED = "SELECT updated_at / 1000.0 FROM dbos.workflow_status WHERE status = 'SUCCESS' ORDER BY 1"


async def _submit(url: str, folder: Path, team: str, runs: int) -> float:
    """Queue runs one after the other, and return how many a second."""
    file = folder / "team.yaml"
    file.write_text(
        "agents:\n"
        "  clerk: {function: 'bench.cluster_members:answer'}\n"
        "  thinker: {function: 'bench.cluster_members:wait'}\n"
        "teams:\n"
        "  short: {strategy: sequential, members: [clerk]}\n"
        f"  waiting: {{strategy: sequential, members: [{', '.join(['thinker'] * TURNS)}]}}\n",
        encoding="utf-8",
    )
    client = QueueClient(DatabaseAddress.parse(url))
    await client.open()
    try:
        async with Engine(url) as engine:
            made = load_team(file, team=team)
            started = time.perf_counter()
            for number in range(runs):
                await client.submit(await engine.enqueue(made, f"task {number}", queue="default"))
            return runs / (time.perf_counter() - started)
    finally:
        await client.close()


def _enqueue_bare(url: str, runs: int) -> float:
    from dbos import DBOS, DBOSClient, EnqueueOptions

    from bench.dbos_worker import QUEUE, WORKFLOW

    DBOS.migrate(url)
    client = DBOSClient(system_database_url=url)
    options = EnqueueOptions(workflow_name=WORKFLOW, queue_name=QUEUE)
    client.enqueue(options, "first")
    started = time.perf_counter()
    for number in range(runs - 1):
        client.enqueue(options, f"task {number}")
    return (runs - 1) / (time.perf_counter() - started)


async def _drained(url: str, runs: int, statement: str, commands: Sequence[Sequence[str]]) -> list[float]:
    """Start workers, wait until all runs have ended, and return when each did."""
    with started(commands):
        return await _all_ended(url, runs, statement)


async def _all_ended(url: str, runs: int, statement: str) -> list[float]:
    deadline = time.monotonic() + PATIENCE
    while len(times := await asyncio.to_thread(_times, url, statement)) < runs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(times)} of {runs} runs have ended after {PATIENCE:.0f} s")
        await asyncio.sleep(0.5)
    return times


def _times(url: str, statement: str) -> list[float]:
    with psycopg.connect(url) as connection:
        return [float(time) for (time,) in connection.execute(statement.encode()).fetchall()]


@contextmanager
def started(commands: Sequence[Sequence[str]]) -> Generator[list[subprocess.Popen[str]]]:
    """Start modules as processes, and end them with the block."""
    log = sys.stderr if os.environ.get("BENCH_LOG") else subprocess.DEVNULL
    children = [
        subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=quiet_environment(), text=True, stderr=log,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for command in commands
    ]  # fmt: skip
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()


def _transactions(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return row[0] if row else 0


def _postgres_cpu(url: str) -> float:
    """Seconds of CPU of the server and its processes so far."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    server = psutil.Process(int((Path(row[0]) / "postmaster.pid").read_text().split()[0]))
    living = 0.0
    for child in server.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            living += times.user + times.system
    own = server.cpu_times()
    return living + own.user + own.system + own.children_user + own.children_system


PARTS: dict[str, Callable[[Path], object]] = {
    "commits": lambda folder: commits(),
    "idle": lambda folder: asyncio.run(idle(folder)),
    "queue": lambda folder: asyncio.run(queue(folder)),
    "workers": lambda folder: asyncio.run(workers(folder)),
}


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    chosen = parser.parse_args().parts or list(PARTS)
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with serving(), tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for part in chosen:
            PARTS[part](Path(folder))


if __name__ == "__main__":
    main()
