"""What places branches needs workers; in a simulation the branches stay in the run."""

from __future__ import annotations

import pytest

from teamwright import Engine, Team
from teamwright.agents import FunctionAgent
from teamwright.errors import UsageError
from teamwright.runtime.placement.parent_run import child_run_id
from teamwright.values.names import check_name


def _team() -> Team:
    member = FunctionAgent("worker", lambda turn: f"{turn.task}!")
    return Team(
        "wide",
        members=[member],
        strategy="fan_out",
        options={"chunks": ["a", "b"], "task": "{{ chunk }}", "placement": "workers"},
    )


async def test_a_team_that_places_branches_needs_a_journal_in_postgres() -> None:
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match=r"'wide' has  placement: workers , which needs workers and a journal"):
            await engine.run(_team(), "go")


async def test_branches_stay_in_the_run_where_the_engine_says_so() -> None:
    async with Engine("memory", placement="here") as engine:
        assert (await engine.run(_team(), "go")).data == ["a!", "b!"]


def test_the_id_of_a_child_depends_on_its_parent_and_its_key_alone() -> None:
    one = child_run_id("r" * 64, 7, "wide/chunk-1/work/run")
    assert one == child_run_id("r" * 64, 7, "wide/chunk-1/work/run")
    assert one != child_run_id("r" * 64, 8, "wide/chunk-1/work/run")
    assert one != child_run_id("r" * 64, 7, "wide/chunk-2/work/run")
    assert check_name("run", one)
