"""Engines on one journal in Postgres keep the pace of a model together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.cluster.shared_limits import LEASE_SECONDS, ClusterLimits
from teamwright.values.limits import Pace
from tests.kit.postgres import schema_url
from tests.kit.postgres_proxy import Proxy
from tests.runtime.virtual_time import Caller, Provider, side_by_side


async def test_engines_keep_the_concurrency_of_a_model_together(postgres_server: str, tmp_path: Path) -> None:
    url = schema_url(postgres_server, tmp_path)
    provider, pace = Provider(lambda number: 0.02), Pace(max_parallel=2)

    async def drive(name: str) -> str:
        async with Engine(url, shared=ClusterLimits(url)) as engine:
            members = [Caller(f"{name}-{number}", provider, pace) for number in range(4)]
            return (await engine.run(side_by_side(name, members), "go")).status

    assert await asyncio.gather(*map(drive, ("one", "two", "three"))) == ["completed"] * 3
    assert len(provider.began) == 12
    assert provider.peak == 2


async def test_calls_stop_while_the_database_is_silent_and_go_on_after_that(
    postgres_server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("p")
    proxy, provider = Proxy(postgres_server, folder), Provider(lambda number: 0.02)
    members = [Caller("m", provider, Pace(max_parallel=1), times=100_000)]

    async def quiet(seconds: float) -> bool:
        before = len(provider.began)
        await asyncio.sleep(seconds)
        return len(provider.began) == before

    url = schema_url(proxy.url, folder)
    async with (
        proxy.running(),
        Engine(schema_url(postgres_server, folder), shared=ClusterLimits(url)) as engine,
        asyncio.timeout(30),
    ):
        handle = await engine.start(side_by_side("t", members), "go")
        while await quiet(0.1):
            pass
        proxy.hold()
        held, started = asyncio.get_running_loop().time(), len(provider.began)
        while not await quiet(0.5):
            pass
        assert asyncio.get_running_loop().time() - held < LEASE_SECONDS + 2
        assert len(provider.began) > started  # its share was valid for a while
        proxy.release()
        while await quiet(0.1):
            pass
        handle.interrupt()
        await handle.result()
