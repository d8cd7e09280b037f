"""A durable turn on Postgres over a bare commit, alternating in one process: `python -m bench.commit_ratio`.

On a machine with other work the speed of the disk changes from second to second, and only what is measured close
together can be compared. A slice is one run of 500 turns, with its start and end, and then 500 bare commits.
"""

import asyncio
import os
from statistics import median

from bench.bare_case import BareRows
from bench.postgres_server import new_database, serving
from bench.teamwright_case import Teamwright

SLICES, TURNS = 20, 500


async def measure() -> list[tuple[float, float]]:
    """Return the µs of a turn and of a bare commit, slice by slice."""
    journal, bare = new_database(), new_database()
    await Teamwright().chain(TURNS, journal)
    found: list[tuple[float, float]] = []
    for _ in range(SLICES):
        turn = await Teamwright().chain(TURNS, journal)
        found.append((turn / TURNS * 1e6, await BareRows().chain(TURNS, bare) / TURNS * 1e6))
    return found


def main() -> None:
    """Measure, and print the ratio of the medians."""
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with serving():
        found = asyncio.run(measure())
    turns, bare = zip(*found, strict=True)
    print(f"medians of {SLICES} slices: {median(turns):,.0f} µs a turn, {median(bare):,.0f} µs a bare commit,"
          f" ratio {median(turns) / median(bare):.2f}; of the best: {min(turns):,.0f} and {min(bare):,.0f} µs,"
          f" ratio {min(turns) / min(bare):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
