"""The fork server of the crash tests: a test that runs out of time spoils no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.laws.crash.fork_server import ForkServer


def warm_up(marker: str = "", **_: str) -> None:
    """End the server that runs this, the first time."""
    if marker and not Path(marker).exists():
        Path(marker).touch()
        os.write(2, b"it hangs here")
        os._exit(1)


def name_of(marker: str) -> str:
    return Path(marker).name


def test_the_result_of_a_job_that_was_given_up_is_not_that_of_the_next(fork_server: ForkServer) -> None:
    fork_server.send("os.path:basename", p="first")
    assert fork_server.run("os.path:basename", p="second").value == "second"


def test_a_server_that_ended_is_replaced_with_a_warning_that_says_where(tmp_path: Path) -> None:
    with ForkServer() as server, pytest.warns(UserWarning, match="(?s)replaced at .*name_of.*it hangs here"):
        assert server.run(f"{__name__}:{name_of.__name__}", marker=str(tmp_path / "ended")).value == "ended"
