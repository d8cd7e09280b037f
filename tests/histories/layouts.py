"""Databases of every layout that was ever written: `python -m tests.histories.layouts` adds that of the present one.

A layout never changes in place: what this version reads, it reads from these files, which are never written again.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

import anyio

from teamwright import Engine, FunctionAgent, Team

FOLDER = Path(__file__).parent
TASK = "Measure the yard."
SAID = ["a: twelve metres, as long as a plank", "b: twelve metres, as long as a plank", "c: sawn"]


def layouts() -> dict[int, Path]:
    """The databases by the number of their layout."""
    return {int(path.stem.removeprefix("layout-")): path for path in sorted(FOLDER.glob("layout-*.db"))}


def yard(asked: list[str], stop: str = "") -> Team:
    """A team of three that answers with `SAID`; a member that is to hang never answers."""

    def agent(name: str, said: str) -> FunctionAgent:
        async def respond(task: str) -> str:
            asked.append(name)
            if name == stop:
                await anyio.sleep_forever()
            return said

        return FunctionAgent(name, respond)

    return Team("yard", members=[agent(said[0], said) for said in SAID])


async def record(path: Path) -> None:
    """Write a run that has ended and one whose process was stopped while `c` was at work."""
    async with Engine(path) as engine:
        await engine.run(yard([]), TASK, run_id="ended")
        asked: list[str] = []
        handle = await engine.start(yard(asked, stop="c"), TASK, run_id="stopped")
        while "c" not in asked:  # noqa: ASYNC110 - the agents know nothing of this
            await anyio.sleep(0.01)
        handle.interrupt()
        await handle.result()


def main() -> None:
    """Write the database of the present layout, unless there is one."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "journal.db"
        anyio.run(record, draft)
        connection = sqlite3.connect(draft)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.close()
        path = FOLDER / f"layout-{version}.db"
        if path.exists():
            print(f"{path.name} is never written again")
        else:
            shutil.copyfile(draft, path)
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
