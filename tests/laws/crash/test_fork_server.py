"""The fork server of the crash tests: a test that runs out of time spoils no other, and says where it hung."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.laws.crash.fork_server import ForkServer


def hang_until_the_alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(60)


def test_the_result_of_a_job_that_was_given_up_is_not_that_of_the_next(fork_server: ForkServer) -> None:
    fork_server.send("os.path:basename", p="first")
    assert fork_server.run("os.path:basename", p="second").value == "second"


def test_a_child_that_hangs_says_where(fork_server: ForkServer) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)SIGALRM.*{hang_until_the_alarm.__name__}"):
        fork_server.run(f"{__name__}:{hang_until_the_alarm.__name__}")


def test_a_server_that_ends_says_what_it_printed() -> None:
    with ForkServer() as server, pytest.raises(AssertionError, match=r"(?s)the fork server ended.*it ends here"):
        server.run(f"{__name__}:{name_of.__name__}", path="none")


def warm_up(path: str = "") -> None:
    """End the server that runs this."""
    if path:
        os.write(2, b"it ends here")
        os._exit(1)


def name_of(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - a function of the standard library
