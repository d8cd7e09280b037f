"""Law 2: killed at any journal write, a run resumes to the same result and repeats nothing that was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.kit.killing_journal import When
from tests.laws.crash.fork_server import ForkServer
from tests.laws.crash.matrix import ScenarioRuns, StateAtKill, check_calls, check_log, open_scenario, result_of
from tests.laws.crash.scenarios import SCENARIOS
from tests.profiles import is_thorough, sampled

ORDERED = ["branches", "locks", "first_wins", "clock", "hierarchical", "workspace", "mixed"]
"""Scenarios whose result depends on the order of arrival."""

ON_POSTGRES = ["sequential", "branches", "nested", "first_wins"]

STEP: dict[When, int] = (
    {"before": 1, "inside": 1, "after": 1}
    if is_thorough()
    else {"before": sampled(4, 2), "inside": sampled(2, 1), "after": 5}
)
"""At which writes a run is killed. After one write, less has happened than before the next, with the same record; so
the quick suite takes fewer of them, and before a write every fourth."""


def writes(scenario: str, when: When) -> Iterator[int]:
    """The numbers of the writes at which a run is killed; scenarios begin at the first, second and third in turn."""
    return count(1 + list(SCENARIOS).index(scenario) % min(STEP[when], 3), STEP[when])


MOMENTS: list[tuple[str, When]] = [
    *((name, "before") for name in SCENARIOS),
    *((name, "after") for name in list(SCENARIOS)[:: sampled(4, 1)]),
    ("sequential", "inside"),
    ("branches", "inside"),
]


def uninterrupted(made: ScenarioRuns) -> dict[str, Any]:
    made.begin("uninterrupted")
    result = result_of(made.drive())
    assert result["status"] in ("completed", "degraded")
    return result


def kill_at_every_write(made: ScenarioRuns, when: When) -> None:
    """Kill a run at each of its writes in turn; each time it resumes to the same result and repeats nothing."""
    expected = uninterrupted(made)
    for write in writes(made.name, when):
        made.begin(f"killed-{write}")
        report = made.drive(write=write, when=when)
        if not report.killed:
            assert result_of(report) == expected
            assert write > report.value["writes"] > 2, "it was to be killed at this write"
            assert write > STEP[when], "it was never killed"
            break
        before = StateAtKill.of(made)
        assert set(before.counts) <= before.announced, "a call left before its intent was durable"
        assert result_of(made.drive(resume=bool(before.events))) == expected
        after = made.events()
        check_calls(made, before, after)
        check_log(before, after)


@pytest.mark.parametrize(("scenario", "when"), MOMENTS)
def test_a_run_that_is_killed_at_any_write_resumes_to_the_same_result(
    scenario: str, when: When, fork_server: ForkServer, tmp_path: Path
) -> None:
    with open_scenario(scenario, fork_server, tmp_path) as made:
        kill_at_every_write(made, when)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", ON_POSTGRES)
def test_a_run_on_postgres_that_is_killed_at_any_write_resumes_to_the_same_result(
    scenario: str, when: When, fork_server: ForkServer, tmp_path: Path, postgres_server: str
) -> None:
    with open_scenario(scenario, fork_server, tmp_path, postgres_server) as made:
        kill_at_every_write(made, when)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", ["nested", *ORDERED])
def test_a_run_that_is_killed_again_while_it_is_resumed_resumes_to_the_same_result(
    scenario: str, when: When, fork_server: ForkServer, tmp_path: Path
) -> None:
    with open_scenario(scenario, fork_server, tmp_path) as made:
        expected = uninterrupted(made)
        made.begin("killed")
        assert made.drive(write=4, when="before").killed
        killed, first, seen = made.journal, StateAtKill.of(made), made.counts()
        for write in writes(scenario, when):
            made.go_back_to(killed, f"again-{write}")
            if not made.drive(resume=True, write=write, when=when).killed:
                assert write > STEP[when], "it was never killed"
                break
            second = StateAtKill.of(made)
            assert result_of(made.drive(resume=True)) == expected
            after = made.events()
            check_calls(made, second, after)
            check_log(first, after)
            check_log(second, after)
            assert not first.recorded & set(made.counts()), "what the first driver recorded was made again"
        assert set(seen) <= first.announced


@pytest.mark.parametrize("scenario", ["sequential", "nested", *ORDERED])
def test_a_run_whose_every_driver_is_killed_still_has_the_same_result(
    scenario: str, fork_server: ForkServer, tmp_path: Path
) -> None:
    with open_scenario(scenario, fork_server, tmp_path) as made:
        expected = uninterrupted(made)
        made.begin("killed")
        report = made.drive(write=3, when="after")
        lives: list[StateAtKill] = []
        while report.killed:
            lives.append(StateAtKill.of(made))
            assert len(lives) < 30
            report = made.drive(resume=True, write=3, when="after")
        assert result_of(report) == expected
        assert lives
        after, counts = made.events(), made.counts()
        for life in lives:
            check_log(life, after)
            repeated = Counter({key: counts[key] for key in life.recorded})
            assert repeated == Counter({key: life.counts[key] for key in life.recorded})
