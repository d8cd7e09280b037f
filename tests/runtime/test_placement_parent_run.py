"""What places branches needs workers; in a simulation the branches stay in the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Limits, RunResult, Team
from teamwright.errors import UsageError
from teamwright.runtime.placement import child_run_id
from teamwright.teams.team_loader import load_team
from teamwright.testing.model_server import ModelServer, Say
from teamwright.values.names import check_name
from tests.kit.local_placement import placing_engine

WIDE = """\
agents:
  worker: {{model: house, instructions: "{instructions}"}}
  editor: {{model: house, instructions: "{instructions}"}}
models:
  house: {{url: "{url}", name: house, price: {{input: 1.25, output: 10}}}}
teams:
  wide:
    strategy: fan_out
    members: [worker]
    fan_out: {{placement: {placement}, max_parallel: 10, answer: editor, chunks: [{chunks}]}}
"""


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


@pytest.mark.parametrize("unit", ["tokens", "usd"])
async def test_children_get_shares_of_the_whole_and_do_what_branches_here_do(tmp_path: Path, unit: str) -> None:
    """Ten at once with long instructions and short replies: a tenth of the budget pays for no request of a child."""
    chunks, instructions = ", ".join(f"part {number}" for number in range(10)), "Say in a word what it is about. " * 12

    async def run(placement: str, limits: Limits | None) -> RunResult:
        path = tmp_path / f"{placement}.yaml"
        text = WIDE.format(url=server.url, placement=placement, chunks=chunks, instructions=instructions)
        path.write_text(text, encoding="utf-8")
        async with placing_engine() as engine:
            return await engine.run(load_team(path), "Go.", limits=limits)

    with ModelServer(lambda _: Say(text="It is about the food in the house.")) as server:
        free = await run("here", None)
        need = free.usage.total_tokens if unit == "tokens" else free.usage.usd or 0
        limits = Limits.model_validate({unit: need * 2})
        here, there = await run("here", limits), await run("workers", limits)
    assert (here.status, there.status) == ("completed", "completed"), (here.warnings, there.warnings)
    assert there.output == here.output
    assert (there.usage.total_tokens if unit == "tokens" else there.usage.usd or 0) <= need * 2


@pytest.mark.parametrize(("unit", "percent"), [("tokens", 150), ("tokens", 200), ("usd", 120)])
async def test_what_an_unknown_tokenizer_counts_too_much_at_first_refuses_no_branches(
    tmp_path: Path, unit: str, percent: int
) -> None:  # Z-10
    """The editor reads ten replies, of which four times their tokens are kept until the rates are learnt."""
    path, chunks = tmp_path / "wide.yaml", ", ".join(f"part {number}" for number in range(10))
    with ModelServer(lambda _: Say(text="It is " + " ".join(["food"] * 90))) as server:
        instructions = "Say in a word what it is about. " * 12
        text = WIDE.format(url=server.url, placement="here", chunks=chunks, instructions=instructions)
        path.write_text(text, encoding="utf-8")
        async with Engine("memory") as engine:
            free = await engine.run(load_team(path), "Go.")
        need = free.usage.total_tokens if unit == "tokens" else free.usage.usd or 0
        limit = need * percent // 100 if unit == "tokens" else need * percent / 100
        async with Engine("memory") as engine:
            run = await engine.run(load_team(path), "Go.", limits=Limits.model_validate({unit: limit}))
    assert run.status == "completed", run.warnings
    assert (run.usage.total_tokens if unit == "tokens" else run.usage.usd or 0) <= limit
