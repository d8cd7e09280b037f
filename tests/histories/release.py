"""Records what a release writes: `python -m tests.histories.release 0.1.0`, once, in the commit of that release.

`releases/VERSION` then holds a database with each team's run, whole and cut in the middle, and what its events and its
results mean. Later versions must read, show, verify and resume it. A recorded release is never recorded again.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from tests.histories.history import FOLDER, RUN_ID, History, comparable
from tests.histories.teams import TASK, TEAMS, speak

RELEASES = FOLDER / "releases"
DATABASE, MEANING = "journal.db", "meaning.json"
ENDED, CUT = "ended", "cut"


async def record_release(folder: Path, names: tuple[str, ...] = tuple(TEAMS)) -> None:
    """Record a release into a new folder."""
    folder.mkdir(parents=True)
    meaning: dict[str, Any] = {}
    with TemporaryDirectory() as home:  # a journal keeps more beside its database
        journal = SqliteJournal(Path(home) / DATABASE)
        await journal.open()
        for name in names:
            run = await _run(name)
            for how in (ENDED, CUT):
                history = History.loads(run.dumps(), f"{name}-{how}")
                count = len(history.events) if how == ENDED else len(history.events) // 2
                journal.append(Batch(history.events[:count], history.bodies), _raise)
            meaning[name] = {"result": run.result, "events": [event.to_json() for event in run.events]}
        await journal.close()
        shutil.copyfile(Path(home) / DATABASE, folder / DATABASE)
    lines = [f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in meaning.items()]
    (folder / MEANING).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


async def _run(name: str) -> History:
    journal = MemoryJournal()
    times = iter(range(1_000_000))
    async with Engine(journal, wall=lambda: 1_760_000_000.0, monotonic=lambda: float(next(times))) as engine:
        await engine.run(TEAMS[name](speak), TASK, run_id=RUN_ID)
        result = await engine.runs.result(RUN_ID)
    return History(await journal.read(RUN_ID), dict(journal._bodies), comparable(result))


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def changed_meanings(recorded: Any, read: Any, at: str = "") -> list[str]:
    """Return where a value is read otherwise than when it was recorded; fields may have been added since."""
    found: list[str] = []
    if isinstance(recorded, dict) and isinstance(read, dict):
        for name, value in recorded.items():
            place = f"{at}.{name}"
            found += changed_meanings(value, read[name], place) if name in read else [f"{place} is gone"]
        return found
    if isinstance(recorded, list) and isinstance(read, list) and len(recorded) == len(read):
        for number, (value, other) in enumerate(zip(recorded, read, strict=True)):
            found += changed_meanings(value, other, f"{at}[{number}]")
        return found
    return [] if recorded == read else [f"{at} was {recorded!r}, and is read as {read!r}"]


def main() -> None:
    """Record the release that is named."""
    (version,) = sys.argv[1:]
    folder = RELEASES / version
    if folder.exists():
        raise SystemExit(f"The release {version!r} is recorded already, and a recorded release never changes.")
    anyio.run(record_release, folder)
    print(f"recorded {len(TEAMS)} runs into {folder.relative_to(FOLDER)}")


if __name__ == "__main__":
    main()
