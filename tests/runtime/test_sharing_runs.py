"""One run and several callers: started twice, resumed by two, paused or closed by its driver."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, Team, Turn
from teamwright.errors import NonDeterminism, NotResumable, RunIsLive, UsageError
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from tests.kit.members import FakeMembers
from tests.kit.strategies import FunctionStrategy, outcome


class GatedMember:
    """A member that answers once it is released."""

    def __init__(self) -> None:
        self.reached, self.go, self.calls = anyio.Event(), anyio.Event(), 0

    def team(self) -> Team:
        async def answer(turn: Turn) -> str:
            self.calls += 1
            self.reached.set()
            await self.go.wait()
            return "done"

        return Team("t", members=[FunctionAgent("a", answer)])


async def test_starting_a_live_run_again_waits_for_its_end() -> None:
    gated = GatedMember()
    outputs: list[str | None] = []

    async with Engine("memory") as engine, anyio.create_task_group() as tasks:

        async def run() -> None:
            outputs.append((await engine.run(gated.team(), "go", run_id="r")).output)

        tasks.start_soon(run)
        await gated.reached.wait()
        tasks.start_soon(run)
        await anyio.sleep(0.05)
        assert outputs == []
        gated.go.set()
    assert (outputs, gated.calls) == (["done", "done"], 1)


async def test_a_caller_that_stops_waiting_does_not_stop_the_run() -> None:
    gated = GatedMember()
    async with Engine("memory") as engine:
        first = await engine.start(gated.team(), "go", run_id="r")
        second = await engine.start(gated.team(), "go", run_id="r")
        await gated.reached.wait()
        with anyio.move_on_after(0.05):
            await second.result()
        gated.go.set()
        assert (await first.result()).status == "completed"


async def test_two_engines_that_start_one_id_at_the_same_moment_share_its_run(tmp_path: Path) -> None:
    gated = GatedMember()
    results: list[str | None] = []
    async with Engine(tmp_path / "j.db") as one, Engine(tmp_path / "j.db") as two, anyio.create_task_group() as tasks:

        async def run(engine: Engine) -> None:
            results.append((await engine.run(gated.team(), "go", run_id="r")).output)

        tasks.start_soon(run, one)
        tasks.start_soon(run, two)
        await gated.reached.wait()
        gated.go.set()
    assert (results, gated.calls) == (["done", "done"], 1)


async def test_the_second_resume_of_a_run_is_refused_before_anything_happens(tmp_path: Path) -> None:
    gated = GatedMember()
    async with Engine(tmp_path / "j.db") as one, Engine(tmp_path / "j.db") as two:
        handle = await one.start(gated.team(), "go", run_id="r")
        await gated.reached.wait()
        handle.interrupt()
        await handle.result()
        first = await one.start_resume("r", team=gated.team())
        with pytest.raises(RunIsLive):
            await two.start_resume("r", team=gated.team())
        gated.go.set()
        assert (await first.result()).status == "completed"


async def test_a_resume_that_is_refused_leaves_the_run_to_others() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        for _ in range(2):
            with pytest.raises(NotResumable):
                await engine.resume("r")


async def test_a_run_without_a_driver_cannot_be_paused() -> None:
    gated = GatedMember()
    async with Engine("memory") as engine:
        handle = await engine.start(gated.team(), "go", run_id="r")
        await gated.reached.wait()
        handle.interrupt()
        await handle.result()
        with pytest.raises(NotResumable, match="it has no driver"):
            await engine.runs.pause("r")
        gated.go.set()
        assert (await engine.resume("r", team=gated.team())).status == "completed"


async def test_an_interrupted_driver_counts_up_to_when_it_left() -> None:  # law 3
    now, gated = 1000.0, GatedMember()
    async with Engine("memory", wall=lambda: now, monotonic=lambda: now) as engine:
        handle = await engine.start(gated.team(), "go", run_id="r", limits=Limits(seconds=5))
        await gated.reached.wait()
        now += 3
        handle.interrupt()
        assert (await handle.result()).seconds == pytest.approx(3)
        now += 1000
        (summary,) = await engine.runs.list()
        assert (summary.status, summary.seconds) == ("interrupted", pytest.approx(3))
        await engine.runs.checkpoint("r", "later")
        (summary,) = await engine.runs.list()
        assert summary.seconds == pytest.approx(3)
        gated.reached = anyio.Event()
        handle = await engine.start_resume("r", team=gated.team())
        await gated.reached.wait()
        now += 1
        handle.interrupt()
        assert (await handle.result()).seconds == pytest.approx(4)
        with anyio.fail_after(5):
            assert (await engine.resume("r", team=gated.team())).status == "timeout"


async def test_a_driver_that_leaves_in_the_middle_of_a_replay_is_no_non_determinism() -> None:
    gated, heard = GatedMember(), list[str]()

    async def side_by_side(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(limit=30) as branches:
            for member in members:
                branches.start(member.name, lambda part, member=member: part.ask(member, Turn(task.text), key="answer"))
        return outcome("all")

    quick = [FakeMembers().member(f"m{number}") for number in range(20)]
    team = Team("all", members=[*quick, gated.team()], strategy=FunctionStrategy(side_by_side))
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await gated.reached.wait()
        await anyio.sleep(0.05)
        handle.interrupt()
        await handle.result()
        for hops in range(12):
            handle = await engine.start_resume("r", team=team)
            for _ in range(hops):
                await anyio.lowlevel.checkpoint()
            handle.interrupt()
            heard.append((await handle.result()).status)
        gated.go.set()
        assert (await engine.resume("r", team=team)).status == "completed"
    assert heard == ["interrupted"] * 12


async def test_a_program_that_leaves_out_what_was_under_way_is_reported() -> None:
    gated, members = GatedMember(), FakeMembers()
    async with Engine("memory") as engine:
        last = gated.team().members[0]
        handle = await engine.start(Team("t", members=[members.member("first"), last]), "go", run_id="r")
        await gated.reached.wait()
        handle.interrupt()
        await handle.result()
        with pytest.raises(NonDeterminism, match="'t/step-2' was asked"):
            await engine.resume("r", team=Team("t", members=[members.member("first")]))
        gated.go.set()
        again = await engine.resume("r", team=Team("t", members=[members.member("first"), last]))
    assert (again.status, members.calls) == ("completed", ["first"])


async def test_an_engine_that_is_closed_says_so() -> None:
    async with Engine("memory") as engine:
        pass
    with pytest.raises(UsageError, match="not open"):
        await engine.run(FakeMembers().chain(1), "go")
