"""From which size branches pay on workers: `python -m bench.placement`. docs/contributing/scale.md has the figures.

A `fan_out` of branches that each compute for a while, in one process and on workers of the same machine. One process
has one core for them all; the break-even is where workers are faster.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.cluster import started
from bench.postgres_server import new_database, serving
from teamwright import Engine
from teamwright.cluster.placement import WorkerPlacement
from teamwright.teams.team_loader import load_team

WIDTH, WORKERS = 16, 2
WORKER = ["teamwright", "worker", "--at-once", "4", "--allow", "module:bench", "--journal"]
MILLISECONDS = (0, 20, 100, 500)


def compute(text: str) -> str:
    """Keep a core busy for so many milliseconds."""
    end = time.thread_time() + int(text.rsplit(maxsplit=1)[-1]) / 1000
    while time.thread_time() < end:
        pass
    return "done"


async def measure(url: str, folder: Path, milliseconds: int, placement: str) -> float:
    """Return the seconds of one run."""
    path = folder / f"{placement}-{milliseconds}.yaml"
    chunks = ", ".join([f'"{milliseconds}"'] * WIDTH)
    options = f"{{chunks: [{chunks}], max_parallel: {WIDTH}, placement: {placement}}}"
    path.write_text(
        'agents: {worker: {function: "bench.placement:compute"}}\n'
        f"teams: {{wide: {{strategy: fan_out, members: [worker], share: output, fan_out: {options}}}}}\n",
        encoding="utf-8",
    )
    async with Engine(url, placement=WorkerPlacement()) as engine:
        began = time.perf_counter()
        result = await engine.run(load_team(path), "go")
        assert result.status == "completed", result
        return time.perf_counter() - began


async def main() -> None:
    """Print the seconds of each size in one process and on workers."""
    url = new_database()
    with tempfile.TemporaryDirectory() as folder, started([[*WORKER, url]] * WORKERS):
        await measure(url, Path(folder), 0, "workers")  # the workers are there, and warm
        print(f"\n{WIDTH} branches, in one process and on {WORKERS} workers\n")
        print("| ms of one branch | here, s | on workers, s |\n|---|---|---|")
        more = 0.0
        for milliseconds in MILLISECONDS:
            here = await measure(url, Path(folder), milliseconds, "here")
            away = await measure(url, Path(folder), milliseconds, "workers")
            more = more or (away - here) / WIDTH * 1000
            print(f"| {milliseconds} | {here:.2f} | {away:.2f} |", flush=True)
        even = more / (1 - 1 / WORKERS)
        print(f"\na branch costs {more:.0f} ms more on a worker: it pays from {even:.0f} ms of computing on")


if __name__ == "__main__":
    with serving():
        asyncio.run(main())
