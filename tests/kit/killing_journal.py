"""A journal in a file whose process is killed at a given write, and so at any point of a run that a test names."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.commits import Committer
from teamwright.journal.sqlite.database import Database
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.people import Intervention

INSIDE = 30
"""Steps of the SQLite virtual machine after which a commit has begun and not ended."""
When = Literal["before", "inside", "after"]


class KillingCommitter(Committer):
    """Commits as its journal lets it live."""

    def __init__(self, journal: KillingJournal, database: Database, driven: Set[str]) -> None:
        super().__init__(database, driven)
        self._journal = journal

    def commit(self, batches: Sequence[Batch]) -> None:
        self._journal.before_commit()
        super().commit(batches)
        self._journal.die("after")


class KillingJournal(SqliteJournal):
    """A journal whose process dies by SIGKILL at its nth commit: before it, inside its transaction, or after it."""

    def __init__(self, path: str, write: int | None = None, when: When = "before", *, locked: bool = True) -> None:
        super().__init__(path)
        self._fatal, self._when, self._locked = write, when, locked
        self.writes = 0
        self._new_committer = partial(KillingCommitter, self)

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        """Hold the driver lock, unless the test bypasses it."""
        if self._locked:
            async with super().drive(run_id):
                yield
        else:
            yield

    async def is_driven(self, run_id: str) -> bool:
        return self._locked and await super().is_driven(run_id)

    def before_commit(self) -> None:
        self.writes += 1
        self.die("before")
        if self.writes == self._fatal and self._when == "inside":
            self._database.writer.set_progress_handler(lambda: self.die("inside"), INSIDE)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Send an intervention, which counts as a write."""
        self.writes += 1
        self.die("before")
        await super().send(run_id, intervention)
        self.die("after")

    def die(self, when: When) -> None:
        if self.writes == self._fatal and when == self._when:
            os.kill(os.getpid(), signal.SIGKILL)
