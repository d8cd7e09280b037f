"""Results as text."""

from __future__ import annotations

import asyncio

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.cli.views.result_wording import failure_text, next_steps, status_text
from teamwright.values.limits import Limits
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Failure


def test_nothing_is_said_twice_of_how_a_run_ended() -> None:
    assert status_text(RunResult(run_id="r", status="cancelled", stop_reason="cancelled")) == "cancelled"
    assert status_text(RunResult(run_id="r", status="failed", stop_reason="error")) == "failed (error)"
    assert failure_text(Failure("t", "cancelled", "cancelled")) == "cancelled"
    assert failure_text(Failure("t", "cancelled", "Too slow.")) == "cancelled: Too slow."


def test_a_budget_stop_names_the_limits_that_a_fork_replaces() -> None:  # Z-10
    ended = RunResult(run_id="r", status="degraded", stop_reason="budget")
    (step,) = next_steps(ended, {})
    assert "whichever ran out; limits of members and steps still apply" in step


async def test_more_time_is_offered_where_it_can_be_had() -> None:
    async def dawdle(turn: Turn) -> str:
        await asyncio.sleep(60)
        return "late"

    inner = Team("inner", members=[FunctionAgent("a", dawdle)], limits=Limits(seconds=0.05))
    async with Engine("memory") as engine:
        own = await engine.run(inner, "Go", run_id="own")
        nested = await engine.run(Team("outer", members=[inner]), "Go", run_id="nested")
    assert [own.status, nested.status] == ["timeout", "timeout"]
    assert next_steps(own, {}) == ["continue with more time: teamwright runs fork own --max-seconds N"]
    (step,) = next_steps(nested, {})
    assert step.startswith("raise the time of 'inner' in its manifest")
    assert step.endswith('then: teamwright run MANIFEST --continue nested "…"')
