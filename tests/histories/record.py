"""Records histories: `python -m tests.histories.record` records those that are missing, those named, or `--all`.

Record one again only with a new version of its strategy, because runs of users hold the old one.
"""

from __future__ import annotations

import sys

import anyio

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from tests.histories.history import FOLDER, RUN_ID, History, comparable
from tests.histories.teams import TASK, TEAMS, speak


async def record(name: str) -> None:
    """Run a team and write down what happened."""
    journal = MemoryJournal()
    times = iter(range(1_000_000))
    async with Engine(journal, wall=lambda: 1_760_000_000.0, monotonic=lambda: float(next(times))) as engine:
        result = await engine.run(TEAMS[name](speak), TASK, run_id=RUN_ID)
    History(await journal.read(RUN_ID), dict(journal._bodies), comparable(result)).save(name)


def main() -> None:
    """Record what is named, or else what is missing."""
    missing = [name for name in TEAMS if not (FOLDER / f"{name}.json").exists()]
    for name in list(TEAMS) if "--all" in sys.argv else sys.argv[1:] or missing:
        anyio.run(record, name)
        print(f"recorded {name}")


if __name__ == "__main__":
    main()
