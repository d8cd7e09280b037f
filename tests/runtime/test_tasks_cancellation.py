"""What a member holds is released once the member is abandoned, and nothing that it still does reaches the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest
from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.tasks import ContainedTask, has_abandoned_tasks
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.limits import Limits
from teamwright.values.people import Question
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.laws.random_programs import RUN_ID, TASK, log_of

GRACE = 0.4
NEVER = RetryPolicy(times=0)


class Hanging:
    """A member that swallows every cancellation until it is released, whatever it waits for."""

    def __init__(self) -> None:
        self.released = False
        self.waits = 0

    async def hang(self, wait: Callable[[], Awaitable[object]]) -> str:
        while not self.released:
            with suppress(asyncio.CancelledError):
                await wait()
        return "late"

    async def plain(self, turn: Turn) -> str:
        return await self.hang(self._sleep)

    async def in_branches(self, turn: Turn, ctx: Context) -> str:
        async with ctx.branches(2) as branches:
            for name in ("x", "y"):
                branches.start(name, self._branch)
            return await self.hang(self._sleep)

    async def waiting_for_branches(self, turn: Turn, ctx: Context) -> str:
        async with ctx.branches(2) as branches:
            for name in ("x", "y"):
                branches.start(name, self._branch)
        return "late"

    async def in_a_scope(self, turn: Turn, ctx: Context) -> str:
        async with ctx.scope("part", Limits(seconds=0.3)):
            return await self.hang(self._sleep)

    async def in_a_longer_scope(self, turn: Turn, ctx: Context) -> str:
        async with ctx.scope("part", Limits(seconds=0.6)):
            return await self.hang(self._sleep)

    async def asking(self, turn: Turn, ctx: Context) -> str:
        async def ask() -> None:
            self.waits += 1
            await ctx.ask_person(Question(text="Well?"), key=f"q-{self.waits}")

        return await self.hang(ask)

    async def sleeping(self, turn: Turn, ctx: Context) -> str:
        return await self.hang(lambda: ctx.clock.sleep(1.0))

    async def _branch(self, ctx: Context) -> str:
        return await self.hang(self._sleep)

    async def _sleep(self) -> None:
        await asyncio.sleep(0.01)


HOLDERS = (
    "plain", "in_branches", "waiting_for_branches", "in_a_scope", "in_a_longer_scope", "asking", "sleeping",
)  # fmt: skip


def function(name: str, respond: Callable[..., Awaitable[str]]) -> FunctionAgent:
    return FunctionAgent(name, respond, retry=NEVER)


async def slow(turn: Turn) -> str:
    await asyncio.sleep(1.2)  # longer than any wait of the abandoned member
    return "done"


async def person(turn: Turn, ctx: Context) -> str:
    return (await ctx.ask_person(Question(text="Ship it?"), key="ship")).text


async def failing(turn: Turn) -> str:
    await asyncio.sleep(0.05)
    raise ValueError("no")


async def run_to_its_end(team: Team, hanging: Hanging) -> tuple[RunResult, list[Event]]:
    journal = MemoryJournal()
    with anyio.fail_after(8):
        async with Engine(journal, grace=GRACE) as engine:
            result = await engine.run(team, TASK, run_id=RUN_ID)
    hanging.released = True
    with anyio.fail_after(5):
        while has_abandoned_tasks():  # noqa: ASYNC110 - no task waits for them, so there is no event
            await asyncio.sleep(0.01)
    return result, log_of(journal)


def check_silence(log: list[Event], scope: str) -> None:
    """Check that after an abandonment only endings are recorded inside the scope."""
    kinds = [event.kind for event in log if event.scope.startswith(scope)]
    assert not set(kinds[kinds.index("agent.abandoned") + 1 :]) - {"agent.failed"}, kinds


@pytest.mark.parametrize("how", HOLDERS)
async def test_a_run_with_an_abandoned_member_waits_only_for_people(how: str) -> None:  # D-01
    hanging = Hanging()
    hung = function("h", getattr(hanging, how))
    hung.policy = hung.policy.changed(limits=Limits(seconds=0.1), optional=True)
    team = Team("t", members=[hung, function("slow", slow), function("person", person)])
    result, log = await run_to_its_end(team, hanging)
    assert result.status == "paused"
    check_silence(log, "t/step-1")


@pytest.mark.parametrize("how", HOLDERS)
async def test_keys_that_an_abandoned_member_owned_are_free(how: str) -> None:  # D-01
    hanging = Hanging()
    steps: list[JsonValue] = [{"id": "h", "owns": ["k"]}, {"id": "bad"}]
    members: list[Agent] = [function("h", getattr(hanging, how)), function("bad", failing)]
    first = Team("first", members=members, strategy="dag", options={"steps": steps, "on_failure": "cancel"})
    first.policy = first.policy.changed(optional=True)
    owner: list[JsonValue] = [{"id": "slow", "owns": ["k"]}]
    second = Team("second", members=[function("slow", slow)], strategy="dag", options={"steps": owner})
    result, log = await run_to_its_end(Team("t", members=[first, second]), hanging)
    assert result.status == "degraded"
    assert result.output == "done"
    check_silence(log, "t/step-1/h")


async def test_who_waits_for_contained_work_continues_as_soon_as_one_who_awaits_its_task() -> None:
    loop = asyncio.get_running_loop()
    iterations = ended = 0

    def count() -> None:
        nonlocal iterations, counting
        iterations += 1
        counting = loop.call_soon(count)

    async def work() -> None:
        nonlocal ended
        await asyncio.sleep(0.001)
        ended = iterations

    counting = loop.call_soon(count)
    await loop.create_task(work())
    awaited = iterations - ended
    await ContainedTask(work, name="work", grace=1, abandoned=lambda: None).wait()
    assert iterations - ended == awaited
    counting.cancel()
