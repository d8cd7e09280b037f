"""The shares of processes in the pace of a model, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from teamwright.cluster import shared_limits as paces
from teamwright.errors import RateLimited
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.usage_and_prices import Usage
from tests.cluster.simulated_processes import Cluster, settled
from tests.kit.postgres import schema_url


@pytest.fixture
async def cluster(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Cluster]:
    url = schema_url(postgres_server, Path(str(tmp_path_factory.getbasetemp()), "paces"))
    opened = await Cluster.open(url, Pace(max_parallel=4))
    yield opened
    await opened.close()


async def test_one_process_gets_the_whole_pace(cluster: Cluster) -> None:
    process = cluster.start()
    for _ in range(9):
        await process.call()
    assert cluster.in_flight == 0
    await process.renew()
    assert cluster.in_flight == 4


async def test_processes_share_the_calls_in_flight(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    for _ in range(9):
        await one.call()
        await two.call()
    await one.renew()
    await two.renew()
    assert (len(one.flying), len(two.flying)) == (4, 0)
    for _ in range(6):
        await one.renew()
        await two.renew()
        await one.end_call()
        assert cluster.in_flight <= 4
    await two.renew()
    assert (len(one.flying), len(two.flying)) == (2, 2)


async def test_an_idle_process_keeps_nothing_from_the_others(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    for _ in range(4):
        await one.call()
    await one.renew()
    for _ in range(4):
        await one.end_call()
    await one.renew()
    await one.renew()
    for _ in range(4):
        await two.call()
    await two.renew()
    assert len(two.flying) == 4


async def test_the_share_of_a_dead_process_comes_back_when_its_lease_has_expired(cluster: Cluster) -> None:
    dead, heir = cluster.start(), cluster.start()
    for _ in range(4):
        await dead.call()
        await heir.call()
    await dead.renew()
    await dead.die()
    for _ in range(3):
        await heir.renew()
        assert not heir.flying
        await cluster.advance(1.0)
    await cluster.advance(1.5)
    await heir.renew()
    assert len(heir.flying) == 4


async def test_a_process_without_the_database_starts_nothing_once_its_lease_has_expired(cluster: Cluster) -> None:
    process = cluster.start()
    await process.call()
    await process.call()
    await process.renew()
    process.network.down = True
    await process.end_call()
    await process.call()
    assert len(process.flying) == 2  # its share is still valid
    await cluster.advance(4.0)
    await process.end_call()
    await process.call()
    await process.renew()
    assert len(process.flying) == 1
    process.network.down = False
    await process.renew()
    assert len(process.flying) == 2


async def test_no_lease_runs_out_while_the_server_is_down(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    for _ in range(4):
        await one.call()
        await two.call()
    await one.renew()
    await cluster.advance(3600)
    await two.renew()
    assert not two.flying  # the calls of the other one may still be in flight
    await one.renew()
    await cluster.advance(1.0)
    await two.renew()
    assert (len(one.flying), len(two.flying)) == (4, 0)


@pytest.mark.parametrize(
    "pace", [Pace(max_parallel=1), Pace(per_minute=PerMinute(calls=1)), Pace(per_minute=PerMinute(tokens=100))]
)
async def test_a_pace_smaller_than_the_number_of_processes_rotates(cluster: Cluster, pace: Pace) -> None:
    cluster.pace = pace
    processes = [cluster.start() for _ in range(5)]
    for process in processes:
        for _ in range(50):
            await process.call(prompt_bytes=400)
    for _ in range(60):
        for process in processes:
            await process.renew()
            assert cluster.in_flight <= (pace.max_parallel or 1)
            assert cluster.in_a_minute()[0] <= (pace.per_minute.calls or 1000)
            await process.end_call()
        await cluster.advance(1.1 if pace.max_parallel else 17.0)
    assert min(process.begun for process in processes) >= 2, [process.begun for process in processes]


async def test_a_call_of_a_whole_minute_is_not_starved_by_small_ones(cluster: Cluster) -> None:
    cluster.pace = Pace(per_minute=PerMinute(tokens=1000))
    small, large = cluster.start(), cluster.start()
    for _ in range(500):
        await small.call(prompt_bytes=400)
    await small.renew()
    await large.call(prompt_bytes=4000)
    for _ in range(100):
        for process in (small, large):
            await process.renew()
            assert cluster.in_a_minute()[1] <= 1000
            if large.flying:
                return
            while process.flying:
                await process.end_call()
        await cluster.advance(3.0)
    raise AssertionError("the large call never began")


async def test_a_provider_that_asks_one_process_to_slow_down_slows_all(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    await one.call()
    await one.renew()
    one.flying.pop().failed(RateLimited("slow down", retry_after=30), None)
    await one.renew()
    await two.call()
    await two.renew()
    assert not two.flying
    assert two.limiter.cooldown == pytest.approx(30, abs=1)


async def test_fewer_calls_are_in_flight_everywhere_after_a_provider_asked_to_slow_down(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    for process in (one, one, two, two):
        await process.call()
        await process.renew()
    one.flying.pop().failed(RateLimited("slow down"), None)
    await one.renew()
    while cluster.in_flight:
        await one.end_call()
        await two.end_call()
    for _ in range(3):
        for process in (one, two):
            await process.call()
            await process.renew()
    assert cluster.in_flight == 2


async def test_the_tightest_declared_pace_counts(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start(Pace(max_parallel=2))
    for _ in range(4):
        await one.call()
        await two.call()
    await two.renew()
    await one.renew()
    assert cluster.in_flight == 2


async def test_a_model_without_a_declared_pace_waits_for_nobody(cluster: Cluster) -> None:
    process = cluster.start(Pace())
    await process.call()
    assert len(process.flying) == 1


async def test_a_share_that_is_lowered_counts_until_its_calls_have_ended(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    for _ in range(4):
        await one.call()
    await one.renew()
    for _ in range(4):
        await two.call()
    for _ in range(3):
        await two.renew()
        await one.renew()
        assert (len(one.flying), len(two.flying)) == (4, 0)


async def test_a_request_that_arrives_late_changes_nothing(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    await one.call()
    await one.renew()
    one.network.hold_back = True
    assert not await one.renew()
    for _ in range(3):
        await one.call()
    await one.renew()
    for _ in range(3):
        await one.end_call()
    await one.network.deliver_late()  # it says that one call is in flight, and no more are wanted
    for _ in range(3):
        await one.call()
    for _ in range(4):
        await two.call()
    await two.renew()
    assert cluster.in_flight <= 4


async def test_what_an_answer_granted_that_was_lost_is_given_back(cluster: Cluster) -> None:
    cluster.pace = Pace(per_minute=PerMinute(calls=2))
    one, two = cluster.start(), cluster.start()
    await one.call()
    await one.call()
    one.network.lose_answer = True
    assert not await one.renew()
    await one.die()
    await two.call()
    await two.renew()
    assert not two.flying  # the other one may have used them
    await cluster.advance(70.0)
    await two.renew()
    assert len(two.flying) == 1


async def test_no_call_begins_with_a_grant_that_has_expired(cluster: Cluster) -> None:
    cluster.pace = Pace(per_minute=PerMinute(calls=4))
    process = cluster.start()
    await process.call()
    await process.renew()
    await process.renew()  # which grants another request, since calls are made
    await cluster.advance(2.0)
    await process.renew()  # its share goes on, and its grant does not
    await cluster.advance(2.5)
    await process.call()
    assert process.begun == 1
    await process.renew()
    assert process.begun == 2


async def test_a_call_that_used_more_than_was_estimated_leaves_less_for_the_next(cluster: Cluster) -> None:
    cluster.pace = Pace(max_parallel=1, per_minute=PerMinute(tokens=1000))
    process = cluster.start()
    await process.call(prompt_bytes=400)
    await process.call(prompt_bytes=3600)
    await process.renew()
    process.flying.pop().returned(Usage(requests=1, input_tokens=900))
    await settled()
    assert process.begun == 1
    await cluster.advance(70.0)
    await process.renew()
    assert process.begun == 2


async def test_a_process_without_a_declared_pace_hears_of_a_provider_that_asked_to_slow_down(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "RENEW_SECONDS", 0.05)
    one, two = cluster.start(Pace()), cluster.start(Pace())
    keeping = asyncio.create_task(two.paces.keep())
    await settled()
    await two.call()
    await one.call()
    one.flying.pop().failed(RateLimited("slow down", retry_after=30), None)
    await one.renew()
    async with asyncio.timeout(20):
        while not two.limiter.cooldown:  # noqa: ASYNC110 - it is heard in a while
            await asyncio.sleep(0.02)
    keeping.cancel()
    await asyncio.wait((keeping,))


async def test_a_share_that_cannot_be_renewed_is_a_problem_until_it_can(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(paces, "RETRY_SECONDS", 0.05)
    process = cluster.start()
    process.network.down = True
    keeping = asyncio.create_task(process.paces.keep())
    await process.call()
    async with asyncio.timeout(20):
        while not process.paces.problem:  # noqa: ASYNC110 - it fails in a while
            await asyncio.sleep(0.02)
        assert process.begun == 0
        process.network.down = False
        while process.paces.problem:  # noqa: ASYNC110 - it succeeds in a while
            await asyncio.sleep(0.02)
    keeping.cancel()
    await asyncio.wait([keeping])
