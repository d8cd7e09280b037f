"""Of all processes one drives a run: the lock of its driver is a file that the operating system locks."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from teamwright.errors import JournalUnavailable, RunIsLive
from teamwright.journal.sqlite.files import DriverLocks

AWKWARD = ["CON", "a" * 64, "x.", "A", "a", "0..", "nul.txt"]


@pytest.fixture
def locks(tmp_path: Path) -> DriverLocks:
    return DriverLocks(tmp_path, "journal.db")


def test_every_valid_name_has_its_own_lock(locks: DriverLocks) -> None:
    for one in AWKWARD:
        with locks.hold(one):
            assert [other for other in AWKWARD if locks.is_held(other)] == [one]


def test_a_lock_that_was_let_go_leaves_no_file(locks: DriverLocks, tmp_path: Path) -> None:
    with locks.hold("run"):
        assert len(list(tmp_path.iterdir())) == 1
    assert not locks.is_held("run")
    assert list(tmp_path.iterdir()) == []


def test_journals_in_one_folder_have_locks_of_their_own(locks: DriverLocks, tmp_path: Path) -> None:
    with locks.hold("run"), DriverLocks(tmp_path, "other.db").hold("run"):
        pass


def test_looking_never_makes_a_driver_fail(locks: DriverLocks) -> None:
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            locks.is_held("run")

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(300):
            with locks.hold("run"):
                assert locks.is_held("run")
    finally:
        ended.set()
        for watcher in watchers:
            watcher.join()


def test_of_many_concurrent_drivers_one_holds_the_lock(locks: DriverLocks) -> None:
    held, most = 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal held, most
        for _ in range(100):
            try:
                with locks.hold("run"):
                    with guard:
                        held += 1
                        most = max(most, held)
                    time.sleep(0)
                    with guard:
                        held -= 1
            except RunIsLive:
                pass

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == 1


def test_a_forked_child_neither_keeps_nor_breaks_its_parents_lock(locks: DriverLocks) -> None:
    """The parent holds the lock and forks a child that outlives it; both are children of this test."""
    told, tell = os.pipe()
    stays, end = os.pipe()
    parent = os.fork()
    if not parent:
        with locks.hold("run"):
            if not os.fork():
                os.write(tell, b"!")
                os.read(stays, 1)
                os._exit(0)
            signal.pause()
    os.read(told, 1)
    assert locks.is_held("run")
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert not locks.is_held("run")
    os.write(end, b"!")
    for pipe in (told, tell, stays, end):
        os.close(pipe)


def test_a_child_that_leaves_the_block_does_not_let_go_for_its_parent(locks: DriverLocks) -> None:
    child = 0
    with locks.hold("run"):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            assert locks.is_held("run")
    if not child:
        os._exit(0)


def test_a_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    locks = DriverLocks(tmp_path / "missing", "journal.db")
    assert not locks.is_held("run")
    with pytest.raises(JournalUnavailable, match="TEAMWRIGHT_HOME"), locks.hold("run"):
        pass
