"""Journals that are notified of what other processes commit. Notifications only make waiting shorter."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable


class Changes(Protocol):
    """What a journal hears of other processes."""

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Within this block, call `wake` when another process may have committed events of a run, or released it."""
        ...


@runtime_checkable
class ReportsChanges(Protocol):
    """A journal that hears of changes, so that followers need not poll it."""

    @property
    def changes(self) -> Changes | None: ...


def changes_of(journal: object) -> Changes | None:
    """What a journal hears of other processes, if it hears anything."""
    return journal.changes if isinstance(journal, ReportsChanges) else None


@contextmanager
def watching(journal: object, run_id: str, wake: Callable[[], None]) -> Generator[bool]:
    """Call `wake` at changes of a run within this block; yields whether the journal reports them."""
    changes = changes_of(journal)
    if changes is None:
        yield False
        return
    with changes.watching(run_id, wake):
        yield True
