"""Engines on one journal in Postgres keep the pace of a model together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from teamwright import Engine
from teamwright.cluster.limits.limits import ClusterLimits
from teamwright.values.limits.limits import Pace
from tests.kit.postgres import schema_url
from tests.runtime.virtual_time import Caller, Provider, side_by_side


async def test_engines_keep_the_concurrency_of_a_model_together(postgres_server: str, tmp_path: Path) -> None:
    url = schema_url(postgres_server, tmp_path)
    provider, pace = Provider(lambda number: 0.02), Pace(concurrency=2)

    async def drive(name: str) -> str:
        async with Engine(url, shared=ClusterLimits(url)) as engine:
            members = [Caller(f"{name}-{number}", provider, pace) for number in range(4)]
            return (await engine.run(side_by_side(name, members), "go")).status

    assert await asyncio.gather(*map(drive, ("one", "two", "three"))) == ["completed"] * 3
    assert len(provider.began) == 12
    assert provider.peak == 2
