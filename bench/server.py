"""What the server takes under load: `python -m bench.server`. A process serves, another holds the sockets.

200 runs at once with 500 sockets that follow them, page events with their texts, a durable SQLite journal. Latency is
from the commit of an event to its arrival in the client. Beside it, the same sockets on a bare uvicorn that echoes.
Steps with shorter pauses between turns show what gives first. Then plain requests, on a connection that is kept and on
a new one each: kept ones have to be the quicker ones. The figures are in docs/contributing/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx2
import websockets
from websockets.asyncio.client import ClientConnection

PAUSES = (4.0, 2.0, 1.0)
"""Seconds between two turns of a run, step by step."""
SECONDS = 10.0
"""How long a step lasts."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: turns per second, deliveries, latencies in milliseconds, and seconds of CPU of the server."""

    turns: float
    delivered: int
    seconds: float
    p50: float
    p99: float
    cpu: float
    cpu_alone: float

    def row(self) -> str:
        each = (self.cpu - self.cpu_alone) * 1e6 / max(self.delivered, 1)
        share = self.cpu / self.seconds
        return (
            f"| {self.turns:.0f} | {self.delivered / self.seconds:,.0f} | {self.p50:.1f} | {self.p99:.1f}"
            f" | {each:.0f} | {share:.0%} |"
        )


class Child:
    """A server in a process of its own, which takes commands as lines and answers each with a line of JSON."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bench.server_child", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    async def ask(self, **command: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return await asyncio.to_thread(self._read)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


async def connect(child: Child, path: str) -> ClientConnection:
    headers = {"Authorization": f"Bearer {child.ready.get('token', '')}"}
    address = f"ws://127.0.0.1:{child.ready['port']}{path}"
    return await websockets.connect(address, additional_headers=headers, compression=None, max_queue=None)


async def receive(socket: ClientConnection, arrived: dict[tuple[str, int], list[float]], run_id: str) -> None:
    async for text in socket:
        now = time.time()
        item = json.loads(text)
        if "number" in item:
            arrived.setdefault((run_id, item["number"]), []).append(now)


async def measure(runs: int, sockets: int) -> list[Step]:
    child = Child("serve")
    base = (await child.ask(do="stat"))["rss"]
    ids = (await child.ask(do="start", runs=runs))["ids"]
    with_runs = (await child.ask(do="stat"))["rss"]
    alone = {}
    for pause in PAUSES:
        alone[pause] = (await child.ask(do="work", pause=pause, seconds=SECONDS))["cpu"]
    before = (await child.ask(do="stat"))["rss"]
    arrived: dict[tuple[str, int], list[float]] = {}
    numbers = (await child.ask(do="numbers"))["numbers"]
    opened: list[ClientConnection] = []
    for place in range(sockets):
        run_id = ids[place % runs]
        opened.append(await connect(child, f"/api/runs/{run_id}/socket?after={numbers[run_id]}"))
    tasks = [asyncio.create_task(receive(one, arrived, ids[place % runs])) for place, one in enumerate(opened)]
    await asyncio.sleep(3)
    with_sockets = (await child.ask(do="stat"))["rss"]
    steps: list[Step] = []
    for pause in PAUSES:
        arrived.clear()
        done = await child.ask(do="work", pause=pause, seconds=SECONDS)
        await asyncio.sleep(1)
        commits = {(run_id, number): at for run_id, number, at in done["commits"]}
        late = sorted(at - commits[key] for key, times in arrived.items() if key in commits for at in times)
        if late:
            p50, p99 = late[len(late) // 2] * 1000, late[len(late) * 99 // 100] * 1000
            steps.append(Step(runs / pause, len(late), SECONDS, p50, p99, done["cpu"], alone[pause]))
    print(f"memory: {(with_runs - base) / runs / 1024:.0f} kB per run")
    print(f"memory: {(with_sockets - before) / sockets / 1024:.0f} kB per socket")
    for task in tasks:
        task.cancel()
    child.stop()
    return steps


async def measure_echo(sockets: int, size: int = 400) -> float:
    """Return the microseconds of CPU that a bare uvicorn takes for one echo."""
    child = Child("echo")
    opened = [await connect(child, "/") for _ in range(sockets)]
    text = "x" * size
    before = (await child.ask(do="stat"))["cpu"]
    count = 0
    until = time.monotonic() + 8
    while time.monotonic() < until:
        await asyncio.gather(*(one.send(text) for one in opened))
        await asyncio.gather(*(one.recv() for one in opened))
        count += len(opened)
    after = (await child.ask(do="stat"))["cpu"]
    child.stop()
    return (after - before) / count * 1e6


def measure_answers(count: int = 200) -> tuple[float, float]:
    """Return the median milliseconds of an answer, on a connection that is kept and on a new one each."""
    child = Child("serve")
    headers = {"Authorization": f"Bearer {child.ready['token']}"}
    address, plain = f"http://127.0.0.1:{child.ready['port']}/api/session", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    medians: list[float] = []
    for more in ({}, {"Connection": "close"}):
        with httpx2.Client(headers={**headers, **more}, verify=plain) as client:
            client.get(address)
            medians.append(statistics.median(_timed(client, address) for _ in range(count)))
    child.stop()
    return medians[0], medians[1]


def _timed(client: httpx2.Client, address: str) -> float:
    before = time.perf_counter()
    client.get(address).raise_for_status()
    return (time.perf_counter() - before) * 1000


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--sockets", type=int, default=500)
    options = parser.parse_args()
    steps = asyncio.run(measure(options.runs, options.sockets))
    print(f"bare echo: {asyncio.run(measure_echo(options.sockets)):.0f} µs of CPU each")
    print("| turns/s | deliveries/s | p50 ms | p99 ms | CPU µs per delivery | CPU of the server |")
    print("|---|---|---|---|---|---|")
    for step in steps:
        print(step.row())
    kept, new = measure_answers()
    print(f"answers: {kept:.1f} ms on a kept connection, {kept / new:.2f} of those on a new one each")


if __name__ == "__main__":
    main()
