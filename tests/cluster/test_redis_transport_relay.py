"""Followers in other processes, over a Redis server that is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.cluster import redis_transport as redis
from teamwright.cluster.redis_transport import RedisTransport
from teamwright.runtime import event_publisher as remote_run
from teamwright.runtime.transport import LiveSignal, opened_transport
from tests.kit.redis import redis_server
from tests.runtime.test_event_publisher_followers import FOLLOW, Follower, Speaker, is_followed, two_engines


async def test_a_redis_server_that_is_killed_in_the_middle_of_a_run_costs_live_words_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "BACKOFF_SECONDS", (0.01, 0.05))
    monkeypatch.setattr(remote_run, "ASK_SECONDS", 0.05)
    speakers = [Speaker("one"), Speaker("two")]
    with redis_server() as server:
        one, other = RedisTransport(server.url), RedisTransport(server.url)
        async with two_engines(tmp_path, one, other) as (driver, elsewhere):
            handle = await driver.start(Team("t", members=speakers), "go", run_id="r")
            follower = Follower(elsewhere)
            following = asyncio.create_task(follower.follow())
            await is_followed(driver)
            speakers[0].say("before ")
            await follower.sees(lambda: follower.text == "before ")
            server.kill()
            speakers[0].say(*["lost "] * 50, None)
            await follower.sees(lambda: any(one.kind == "agent.replied" for one in follower.seen))
            server.start()
            await reaches(one, other)
            await reaches(other, one)
            speakers[1].say("back")
            await follower.sees(lambda: follower.text.endswith("back"))
            speakers[1].say(None)
            result = await handle.result()
            await following
            assert result.output == "back"
            assert follower.numbers == [event.number for event in await driver.journal.read("r")]
        await one.close()
        await other.close()


async def reaches(one: RedisTransport, other: RedisTransport) -> None:
    """Wait until signals pass from one process to another."""
    heard = asyncio.Event()

    async def hear(signal: LiveSignal) -> None:
        heard.set()

    remove = other.register("probe", hear)
    async with asyncio.timeout(20):
        while not heard.is_set():
            await one.send("probe", FOLLOW)
            await asyncio.sleep(0.01)
    remove()


async def test_the_server_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_REDIS", "redis://h")
    async with opened_transport(None, by_default=True) as transport:
        assert isinstance(transport, RedisTransport)
