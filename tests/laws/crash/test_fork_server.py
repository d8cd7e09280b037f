"""The fork server of the crash tests: a test that runs out of time spoils no other."""

from __future__ import annotations

from tests.laws.crash.fork_server import ForkServer


def test_the_result_of_a_job_that_was_given_up_is_not_that_of_the_next(fork_server: ForkServer) -> None:
    fork_server.send("os.path:basename", p="first")
    assert fork_server.run("os.path:basename", p="second").value == "second"
