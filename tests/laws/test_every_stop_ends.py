"""Law 4 with members that resist cancellation: every stop ends within the grace time, whatever caused it.

The matrix: every strategy, every way to stop a run or a part of it, every kind of member. D-01
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from pydantic import JsonValue

from teamwright.agents.agent import Agent
from teamwright.agents.clients.client_pool import import_models
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.tasks import has_abandoned_tasks
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentAbandoned
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.turn import Turn
from tests.laws.program import program_team
from tests.laws.random_programs import RUN_ID, TASK, log_of
from tests.laws.test_every_task_has_a_parent import check_endings, shapes
from tests.profiles import sampled

GRACE = 0.3
MARGIN = 4.0
"""Seconds beyond the grace time that a busy machine may take."""

NEVER = RetryPolicy(times=0)


@dataclass
class Barrier:
    """Where members wait: each reports that it has begun, and answers only after the release."""

    begun: int = 0
    open: bool = False
    opened: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.open = True
        self.opened.set()

    async def wait(self) -> str:
        self.begun += 1
        while not self.open:  # noqa: ASYNC110 - several event loops may wait for it, one after the other
            await asyncio.sleep(0.01)
        return "done"

    async def well_behaved(self, turn: Turn) -> str:
        return await self.wait()

    async def uncancelling(self, turn: Turn) -> str:
        """Reset the count of cancellations and raise, as the task group of a library may do."""
        try:
            return await self.wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            raise

    async def swallowing_once(self, turn: Turn) -> str:
        with suppress(asyncio.CancelledError):
            return await self.wait()
        return await self.wait()

    async def swallowing(self, turn: Turn) -> str:
        while True:
            with suppress(asyncio.CancelledError):
                return await self.wait()

    async def answering_anyway(self, turn: Turn) -> str:
        """Answer with a partial result when cancelled."""
        with suppress(asyncio.CancelledError):
            return await self.wait()
        return "what there is"

    async def raising_something_else(self, turn: Turn) -> str:
        try:
            return await self.wait()
        except asyncio.CancelledError:
            raise RuntimeError("cannot schedule new futures after shutdown") from None

    def blocking(self, turn: Turn) -> str:
        """Block a thread, which can't be cancelled."""
        self.begun += 1
        self.opened.wait()
        return "done"

    def agent(self, kind: str, name: str) -> FunctionAgent:
        return FunctionAgent(name, getattr(self, kind), retry=NEVER)


KINDS = (
    "well_behaved", "uncancelling", "swallowing_once", "swallowing", "answering_anyway", "raising_something_else",
    "blocking",
)  # fmt: skip
RUN_STOPS = ("interrupt", "cancel", "deadline", "leave_engine")
PART_STOPS = (
    "member_deadline", "scope_deadline", "branches_in_a_scope", "call_timeout", "cancel_others", "first_wins",
)  # fmt: skip


PROGRAMS = ("scope_deadline", "branches_in_a_scope", "first_wins")


@pytest.fixture(autouse=True)
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwright.agents.functions.threads.THREAD_GRACE", 0.1)


async def has_begun(barrier: Barrier, count: int = 1) -> None:
    with anyio.fail_after(10):
        while barrier.begun < count:  # noqa: ASYNC110 - threads count as well
            await asyncio.sleep(0.005)


async def let_abandoned_tasks_end() -> None:
    """Release abandoned members, whose results must not reach the run."""
    with anyio.fail_after(10):
        while has_abandoned_tasks():  # noqa: ASYNC110 - no task waits for them, so there is no event
            await asyncio.sleep(0.01)


async def stop_a_run(
    shape: str, how: str, members: Sequence[Agent], barrier: Barrier, pause: float = 0.0, seconds: float = 0.05
) -> None:
    """Stop a running team; the stop must end in time, and the run must be final or resumable."""
    make, _ = shapes()[shape]
    journal, team = MemoryJournal(), make(members)
    team.policy = team.policy.changed(limits=Limits(seconds=seconds + pause) if how == "deadline" else None)
    with anyio.fail_after(GRACE + MARGIN + seconds):
        async with Engine(journal, grace=GRACE) as engine:
            handle = await engine.start(team, TASK, run_id=RUN_ID)
            if how != "deadline":
                await has_begun(barrier)
                await asyncio.sleep(pause)
            if how == "interrupt":
                handle.interrupt()
            elif how == "cancel":
                await engine.runs.cancel(RUN_ID)
            status = "interrupted" if how == "leave_engine" else (await handle.result()).status
    barrier.release()
    await let_abandoned_tasks_end()
    allowed = {"interrupt": "interrupted", "leave_engine": "interrupted", "cancel": "cancelled", "deadline": "timeout"}
    assert status in (allowed[how], "failed", "completed")  # a member may have ended in the same instant
    if status == "interrupted":
        async with Engine(journal) as engine:
            with anyio.fail_after(10):
                assert (await engine.resume(RUN_ID, team=make(members))).status in ("completed", "failed")
    log = log_of(journal)
    assert [event.kind for event in log].count("run.ended") == 1
    assert log[-1].kind == "run.ended"
    check_endings(log)


@pytest.mark.parametrize("how", RUN_STOPS)
@pytest.mark.parametrize("shape", list(shapes()))
async def test_a_run_stops_in_time_whatever_its_members_do(shape: str, how: str) -> None:
    """A run for each kind of member. They run side by side, because most of their time they wait."""

    async def stop(member: str) -> None:
        barrier = Barrier()
        await stop_a_run(shape, how, [barrier.agent(member, f"h{number}") for number in range(3)], barrier)

    await side_by_side(stop, KINDS)


@pytest.mark.parametrize("how", RUN_STOPS)
@pytest.mark.parametrize("shape", ["sequential", "fan_out", "nested"])
async def test_model_agents_in_the_middle_of_a_tool_call_stop_in_time(shape: str, how: str) -> None:
    """A run for each kind of tool, side by side."""
    await import_models()  # once per process, or it counts as part of the stop
    await side_by_side(partial(stop_models, shape, how), ("well_behaved", "swallowing", "uncancelling"))


async def side_by_side(stop: Callable[[str], Awaitable[None]], kinds: Sequence[str]) -> None:
    """Stop a run of each kind at the same time; a failure names its kind."""

    async def named(kind: str) -> None:
        try:
            await stop(kind)
        except Exception as error:
            error.add_note(f"in the run of {kind!r}")
            raise

    async with anyio.create_task_group() as group:
        for kind in kinds:
            group.start_soon(named, kind)


async def stop_models(shape: str, how: str, tool: str) -> None:
    barrier = Barrier()

    async def wait() -> str:
        return await getattr(barrier, tool)(Turn(""))

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.messages[-1].role == "tool":
            return Say(text="done")
        return CallTools(calls=(ToolCall(name="wait"), ToolCall(name="wait")))

    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="m")
        members = [ModelAgent(f"h{number}", model=model, tools=[wait], retry=NEVER) for number in range(3)]
        await stop_a_run(shape, how, members, barrier, seconds=1.5)  # so that a busy machine reaches the tool call


async def quick(turn: Turn) -> str:
    return "quick"


async def failing(turn: Turn) -> str:
    await asyncio.sleep(0.05)
    raise ValueError("no")


def part_team(how: str, barrier: Barrier, member: str) -> Team:
    """A team in which members that hang are stopped while the run goes on."""
    hanging = [barrier.agent(member, "h0"), barrier.agent(member, "h1")]
    fast = FunctionAgent("fast", quick)
    match how:
        case "member_deadline":
            hanging[0].policy = hanging[0].policy.changed(limits=Limits(seconds=0.05), optional=True)
            return Team("t", members=[hanging[0], fast])
        case "scope_deadline":
            return program_team("t", ["seq", ["hurry", 0.05, ["ask", "h0"]], ["ask", "fast"]], [hanging[0], fast])
        case "branches_in_a_scope":
            side_by_side = ["all", 2, ["ask", "h0"], ["ask", "h1"]]
            return program_team("t", ["seq", ["hurry", 0.05, side_by_side], ["ask", "fast"]], [*hanging, fast])
        case "call_timeout":
            hanging[0] = FunctionAgent("h0", getattr(barrier, member), timeout=0.05, retry=NEVER, optional=True)
            return Team("t", members=[hanging[0], fast])
        case "cancel_others":
            steps: list[JsonValue] = [{"id": name} for name in ("h0", "h1", "bad")]
            members = [*hanging, FunctionAgent("bad", failing, retry=NEVER)]
            return Team("t", members=members, strategy="dag", options={"steps": steps, "on_failure": "cancel"})
        case _:
            return program_team(
                "t",
                ["seq", ["race", 1, ["ask", "h0"], ["ask", "h1"], ["ask", "fast"]], ["ask", "fast"]],
                [*hanging, fast],
            )


def expected_status(how: str, member: str) -> str:
    if how == "cancel_others":
        return "failed"
    if how == "call_timeout" and member == "answering_anyway":  # an answer that was paid for is used
        return "completed"
    return "completed" if how in PROGRAMS else "degraded"


@pytest.mark.parametrize("member", KINDS)
@pytest.mark.parametrize("how", PART_STOPS)
async def test_a_member_that_does_not_stop_does_not_hold_the_run(how: str, member: str) -> None:
    barrier, journal = Barrier(), MemoryJournal()
    grace = GRACE if member in ("swallowing", "blocking") else MARGIN  # on a busy machine others take longer to end
    with anyio.fail_after(grace + MARGIN):
        async with Engine(journal, grace=grace) as engine:
            result = await engine.run(part_team(how, barrier, member), TASK, run_id=RUN_ID)
    barrier.release()
    await let_abandoned_tasks_end()
    log = log_of(journal)
    assert result.status == expected_status(how, member)
    assert log[-1].kind == "run.ended"
    check_endings(log)
    abandoned = [event.fact.name for event in log if isinstance(event.fact, AgentAbandoned)]
    assert bool(abandoned) == (member in ("swallowing", "blocking") and barrier.begun > 0)


@pytest.mark.parametrize("seed", range(sampled(4, 10)))
async def test_random_stops_all_end(seed: int) -> None:
    """Fifty random stops, ten at a time, with concurrent members of all kinds."""
    dice = random.Random(seed)
    for _ in range(5):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                barrier = Barrier()
                members = [barrier.agent(dice.choice(KINDS[:4] + KINDS[:3]), f"h{number}") for number in range(3)]
                shape, how = dice.choice(list(shapes())), dice.choice(RUN_STOPS)
                group.start_soon(stop_a_run, shape, how, members, barrier, dice.random() * 0.03)


@pytest.mark.parametrize("shape", ["sequential", "fan_out"])
async def test_a_resume_that_is_stopped_while_models_are_being_built_records_no_error(  # D-09
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    building = asyncio.Event()

    async def interrupted_import() -> None:
        building.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            raise ImportError("cannot import name 'Agent' from partially initialized module") from None

    journal = MemoryJournal()
    make, _ = shapes()[shape]
    with ModelServer() as server:
        model = ServerModel(url=server.url, name="m")
        members = [ModelAgent(f"h{number}", model=model, retry=NEVER) for number in range(3)]
        for start in (True, False):
            with monkeypatch.context() as patched:
                patched.setattr("teamwright.agents.clients.client_pool.import_models", interrupted_import)
                async with Engine(journal, grace=GRACE) as engine:
                    building.clear()
                    handle = await (
                        engine.start(make(members), TASK, run_id=RUN_ID)
                        if start
                        else engine.start_resume(RUN_ID, team=make(members))
                    )
                    await building.wait()
                    handle.interrupt()
                    assert (await handle.result()).status == "interrupted"
        async with Engine(journal) as engine:
            assert (await engine.resume(RUN_ID, team=make(members))).status == "completed"
    assert not [event for event in log_of(journal) if event.kind == "agent.failed"]
