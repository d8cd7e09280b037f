"""What people, forks, clocks and limits do to a run that leaves a provider alone."""

from __future__ import annotations

import asyncio

import pytest

from teamwright import Engine, Limits, Team
from teamwright.errors import RateLimited
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.results import seconds_until
from tests.runtime.virtual_time import Caller, Provider, in_virtual_time, now, run, side_by_side

HOURS = 3600.0
PATIENT = RetryPolicy(outlast=6 * HOURS)


def closed_until(opens: float) -> Provider:
    def answer(number: int) -> float | Exception:
        return 1.0 if now() >= opens else RateLimited("come back later", retry_after=opens - now())

    return Provider(answer)


def test_members_that_wait_for_different_times_go_on_one_by_one() -> None:
    async def main() -> None:
        soon, late, journal = closed_until(1 * HOURS), closed_until(3 * HOURS), MemoryJournal()
        members = [Caller("a", late, model="late", retry=PATIENT), Caller("b", soon, model="soon", retry=PATIENT)]
        team = side_by_side("t", members)
        paused, _ = await run(team, journal)
        assert paused.resume_at[:16] == "1970-01-01T01:00"
        async with Engine(journal, wall=now) as engine:
            await asyncio.sleep(seconds_until(paused.resume_at, now()))
            paused = await engine.resume("r", team=team)
            assert (paused.stop_reason, paused.resume_at[:16]) == ("quota", "1970-01-01T03:00")
            assert (len(soon.began), len(late.began)) == (2, 1)
            await asyncio.sleep(seconds_until(paused.resume_at, now()))
            ended = await engine.resume("r", team=team)
        assert (ended.output, len(soon.began), len(late.began)) == ("Reply Reply", 2, 2)

    in_virtual_time(main)


def test_a_run_that_is_cancelled_meanwhile_ends_without_a_call() -> None:
    async def main() -> None:
        closed, journal = closed_until(2 * HOURS), MemoryJournal()
        team = side_by_side("t", [Caller("a", closed, retry=PATIENT)])
        await run(team, journal)
        async with Engine(journal, wall=now) as engine:
            await engine.runs.cancel("r", wait=False)
            ended = await engine.runs.result("r")
        assert (ended.status, ended.resume_at, len(closed.began)) == ("cancelled", "", 1)

    in_virtual_time(main)


def test_a_fork_of_it_leaves_the_provider_alone_too_and_one_from_before_asks() -> None:
    async def main() -> None:
        closed, journal = closed_until(2 * HOURS), MemoryJournal()
        team = side_by_side("t", [Caller("a", closed, retry=PATIENT)])
        _, events = await run(team, journal)
        async with Engine(journal, wall=now) as engine:
            forked = await engine.fork("r", at=len(events) - 1, team=team)
            assert (forked.stop_reason, len(closed.began)) == ("quota", 1)
            before = next(one.number for one in events if one.kind == "agent.called") - 1
            asked = await engine.fork("r", at=before, team=team)
            assert (asked.stop_reason, len(closed.began)) == ("quota", 2)
            await asyncio.sleep(2.1 * HOURS)
            for one in (forked, asked):
                assert (await engine.resume(one.run_id, team=team)).status == "completed"

    in_virtual_time(main)


@pytest.mark.parametrize("jump", [-5 * HOURS, 5 * HOURS])
def test_a_clock_that_jumps_makes_the_wait_longer_or_shorter_and_the_run_ends(jump: float) -> None:
    async def main() -> None:
        closed, journal = closed_until(2 * HOURS), MemoryJournal()
        team = side_by_side("t", [Caller("a", closed, retry=PATIENT)])
        ended, _ = await run(team, journal)

        def wall() -> float:
            return now() + jump

        async with Engine(journal, wall=wall) as engine:
            for _ in range(4):
                ended = await engine.resume("r", team=team)
                if ended.status != "paused":
                    break
                await asyncio.sleep(seconds_until(ended.resume_at, wall()))
        assert ended.status == "completed"
        assert now() < 8 * HOURS
        assert len(closed.began) <= 4

    in_virtual_time(main)


@pytest.mark.parametrize("limits", [Limits(seconds=60), Limits(tokens=1000)])
def test_limits_hold_beside_it(limits: Limits) -> None:
    async def main() -> None:
        closed, journal = closed_until(2 * HOURS), MemoryJournal()
        caller = Caller("a", closed, retry=PATIENT, times=30)
        team = Team("t", members=[side_by_side("inner", [caller])], limits=limits)
        paused, _ = await run(team, journal)
        assert paused.stop_reason == "quota"
        async with Engine(journal, wall=now) as engine:
            await asyncio.sleep(2.1 * HOURS)
            ended = await engine.resume("r", team=team)
        assert ended.usage.total_tokens <= 1000
        assert ended.seconds < 60, "the wait is no time of the run"
        assert ended.status != "paused"

    in_virtual_time(main)


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 10 * 365 * 24 * HOURS, 1e300])
def test_a_time_that_is_absurd_is_no_wait(seconds: float) -> None:
    async def main() -> None:
        provider = Provider(lambda number: 1.0 if number > 1 else RateLimited("later", retry_after=seconds))
        ended, _ = await run(side_by_side("t", [Caller("a", provider, retry=PATIENT)]))
        assert (ended.status, len(provider.began)) == ("completed", 2)
        assert now() < 120

    in_virtual_time(main)
