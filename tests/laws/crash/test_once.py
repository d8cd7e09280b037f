"""An action with `once` is made at most once, and with a `check` exactly once, wherever and how often it is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import anyio
import pytest

from teamwright.runtime.context.effect_charges import ALREADY_DONE
from tests.kit.killing_journal import When
from tests.laws.crash.fork_server import ForkServer
from tests.laws.crash.payments import Endpoint, delete_first_run
from tests.profiles import sampled

DRIVE = "tests.laws.crash.payments:drive"
KILLS = sampled(5, 12)
"""Runs that are killed at random instants, each several times."""
MOST_WRITES = 9
"""The number of writes of a run; some share a commit."""
LONGEST = 0.12
"""Seconds after which a run has ended on most machines."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with made.served():
        yield made


def check_payments(endpoint: Endpoint, results: list[object], *, check: bool) -> None:
    """Compare the results of the member with what happened."""
    if check:
        assert endpoint.paid == {"a": 1, "b": 1}
    assert max(endpoint.paid.values(), default=0) <= 1
    for result, order in zip(results, ["a", "b", "a"], strict=True):
        known = result in (f"paid {order}", {"note": ALREADY_DONE, "result": f"paid {order}"})
        assert known or (not check and "may have taken effect" in str(result))
        assert not known or endpoint.paid[order] == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("check", [True, False])
def test_killed_at_any_write_an_action_is_not_made_twice(
    check: bool, when: When, endpoint: Endpoint, fork_server: ForkServer, tmp_path: Path
) -> None:
    kills = 0
    for write in range(1, MOST_WRITES + 1):
        endpoint.paid.clear()
        arguments = {"url": endpoint.url, "journal": str(tmp_path / f"{write}.db"), "check": check}
        report = fork_server.run(DRIVE, **arguments, write=write, when=when)
        if report.killed:
            kills += 1
            report = fork_server.run(DRIVE, **arguments)
        check_payments(endpoint, report.value, check=check)
    assert kills >= 3, "the intents, the claims and the results of the calls are writes, some of them together"


@pytest.mark.parametrize("check", [True, False])
def test_killed_at_any_write_a_fork_makes_no_action_that_a_deleted_run_has_made(
    check: bool, endpoint: Endpoint, fork_server: ForkServer, tmp_path: Path
) -> None:
    anyio.run(delete_first_run, endpoint.url, str(tmp_path / "first.db"))
    kills = 0
    for write in range(1, MOST_WRITES + 1):
        journal = copyfile(tmp_path / "first.db", tmp_path / f"{write}.db")
        arguments = {"url": endpoint.url, "journal": str(journal), "check": check}
        report = fork_server.run(DRIVE, **arguments, write=write)
        if report.killed:
            kills += 1
            report = fork_server.run(DRIVE, **arguments)
        assert endpoint.paid == {"a": 1, "b": 1}
        found = [result if isinstance(result, str) else result["result"] for result in report.value]
        known = found == ["paid a", "paid b", "paid a"]
        assert known if check else all("may have taken effect" in result for result in found)
    assert kills >= 3


@pytest.mark.parametrize("check", [True, False])
def test_killed_at_random_instants_an_action_is_not_made_twice(
    check: bool, endpoint: Endpoint, fork_server: ForkServer, tmp_path: Path
) -> None:
    draw, killed, number = random.Random(4711), 0, 0
    while number < KILLS or killed < KILLS // 2:  # on a busy machine a signal comes late, and the run has ended
        assert number < 10 * KILLS, "hardly any run is killed before it ends"
        number += 1
        endpoint.paid.clear()
        arguments = {"url": endpoint.url, "journal": str(tmp_path / f"{number}.db"), "check": check}
        for _ in range(3):
            killed += fork_server.run(DRIVE, **arguments, after=draw.uniform(0.005, LONGEST)).killed
        check_payments(endpoint, fork_server.run(DRIVE, **arguments).value, check=check)
