"""The transport over Redis passes the conformance suite, and no server can hold up a sender."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from teamwright.cluster import redis_transport as redis
from teamwright.cluster.redis_transport import LARGEST_MESSAGE, RedisAddress, RedisTransport, wire_channel
from teamwright.errors import UsageError
from teamwright.runtime.transport import MOST_QUEUED, LiveSignal
from teamwright.testing.transport import TransportConformance, signal, take
from tests.kit.proxy import SocketProxy
from tests.kit.redis import redis_server

CALL = signal(1_000_000)
"""What is sent until someone hears it."""


class TestRedisTransport(TransportConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self._url = redis_url

    async def make(self) -> RedisTransport:
        return RedisTransport(self._url)


class TestRedisTransportWithoutServer(TransportConformance):
    """Within a process, signals arrive without a server."""

    async def make(self) -> RedisTransport:
        return RedisTransport("unix:///nowhere/redis.sock")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "BACKOFF_SECONDS", (0.01, 0.05))
    monkeypatch.setattr(redis, "PING_SECONDS", 0.05)
    monkeypatch.setattr(redis, "SILENCE_SECONDS", 0.3)


@asynccontextmanager
async def processes(*urls: str) -> AsyncGenerator[list[RedisTransport]]:
    """Transports as of several processes."""
    made = [RedisTransport(url) for url in urls]
    try:
        yield made
    finally:
        for one in made:
            await one.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what another process does raises no event here
            await asyncio.sleep(0.01)


class Heard(list[LiveSignal]):
    """The signals that a handler got, except the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called = False

    async def __call__(self, one: LiveSignal) -> None:
        if one == CALL:
            self.called = True
        else:
            self.append(one)

    async def reached_from(self, sender: RedisTransport, channel: str = "c") -> None:
        """Call until it is heard: a process needs a moment to subscribe."""
        self.called = False
        async with asyncio.timeout(20):
            while not self.called:
                await sender.send(channel, CALL)
                await asyncio.sleep(0.01)


async def test_signals_reach_every_listener_of_other_processes_in_order(redis_url: str) -> None:
    async with processes(*[redis_url] * 3) as (sender, one, other):
        heard = [Heard() for _ in range(3)]
        one.register("c", heard[0])
        one.register("c", heard[1])
        other.register("c", heard[2])
        for one_heard in heard:
            await one_heard.reached_from(sender)
        for number in range(200):
            await sender.send("c", signal(number))
        await until(lambda: all(len(one_heard) == 200 for one_heard in heard))
        assert all([one.number for one in one_heard] == list(range(200)) for one_heard in heard)


async def test_a_text_keeps_every_field_on_its_way(redis_url: str) -> None:
    text = LiveSignal(
        type="text",
        run_id="r",
        number=7,
        member="writer",
        text="żółć \x00 \U0001f642",
        sequence=3,
        part="arguments",
        key="a/b",
        attempt=2,
        offset=5,
        output="wrapped",
        tool="search",
        call=1,
    )
    async with processes(redis_url, redis_url) as (sender, other):
        heard = Heard()
        other.register("c", heard)
        await heard.reached_from(sender)
        await sender.send("c", text)
        await until(lambda: bool(heard))
        assert heard == [text]
        assert LiveSignal.of_delta(heard[0].to_delta(), 7, 3) == text


async def test_a_channel_that_nobody_handles_any_more_is_left(redis_url: str) -> None:
    async with processes(redis_url, redis_url) as (sender, other), Redis.from_url(_bare(redis_url)) as client:
        heard, name = Heard(), wire_channel(RedisAddress.parse(redis_url).namespace, "c")
        remove = other.register("c", heard)
        await heard.reached_from(sender)
        assert (await client.pubsub_numsub(name))[0][1] == 1
        remove()
        async with asyncio.timeout(10):
            while (await client.pubsub_numsub(name))[0][1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_slow_listener_of_another_process_loses_signals_and_holds_nobody_up(redis_url: str) -> None:
    async with processes(redis_url, redis_url) as (sender, other):
        slow, heard = other.listen("c"), Heard()
        other.register("c", heard)
        await heard.reached_from(sender)
        for number in range(MOST_QUEUED + 200):
            await asyncio.wait_for(sender.send("c", signal(number)), 5)
        await until(lambda: len(heard) == MOST_QUEUED + 200)
        assert other.traffic.dropped >= 200
        assert (await take(slow, 1)) != []
        await slow.aclose()


async def test_what_others_write_is_dropped_and_counted_if_it_is_no_message(redis_url: str) -> None:
    name = wire_channel(RedisAddress.parse(redis_url).namespace, "c")
    wrong = (b"", b"\xff\xfe", b"[[[", b"{}", b'{"sender": 1}', b'{"sender": "x", "signal": {"type": "run_this"}}')
    async with processes(redis_url, redis_url) as (sender, other), Redis.from_url(_bare(redis_url)) as client:
        heard = Heard()
        other.register("c", heard)
        await heard.reached_from(sender)
        for data in (*wrong, b'{"sender":"x","signal":{"type":"wake","run_id":"r","number":-1}}', b"[" * 60_000):
            await client.publish(name, data)
        await client.publish(name, b'{"sender":"x","signal":{"type":"wake","run_id":"r","number":5,"later":1}}')
        await until(lambda: bool(heard))
        assert heard == [signal(5)]
        assert other.traffic.invalid == len(wrong) + 2


async def test_a_message_that_is_too_large_is_never_read(redis_url: str, impatient: None) -> None:
    name = wire_channel(RedisAddress.parse(redis_url).namespace, "c")
    async with processes(redis_url, redis_url) as (sender, other), Redis.from_url(_bare(redis_url)) as client:
        heard = Heard()
        other.register("c", heard)
        await heard.reached_from(sender)
        await client.publish(name, b"x" * (LARGEST_MESSAGE + 1))
        await until(lambda: other.traffic.losses == 1)
        await heard.reached_from(sender)
        await sender.send("c", signal(1).changed(text="x" * LARGEST_MESSAGE))
        assert sender.traffic.dropped == 1
        assert not heard


async def test_a_server_that_is_killed_and_comes_back_is_found_again(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "teamwright")
    with redis_server() as server:
        async with processes(server.url, server.url) as (sender, other):
            heard = Heard()
            other.register("c", heard)
            await heard.reached_from(sender)
            server.kill()
            for number in range(2000):
                await asyncio.wait_for(sender.send("c", signal(number)), 1)
            await until(lambda: bool(sender.traffic.losses and other.traffic.losses))
            server.start()
            await heard.reached_from(sender)
            await sender.send("c", signal(9999))
            await until(lambda: signal(9999) in heard)
    assert "is away" in caplog.text
    assert "is back" in caplog.text


async def test_a_network_that_drops_everything_silently_is_noticed(impatient: None) -> None:
    with redis_server() as server, tempfile.TemporaryDirectory(prefix="tw-proxy-") as folder:
        proxy = SocketProxy(server.socket, Path(folder) / "proxy.sock")
        url = f"unix://{folder}/proxy.sock"
        async with proxy.running(), processes(url, url) as (sender, other):
            heard = Heard()
            other.register("c", heard)
            await heard.reached_from(sender)
            proxy.hold()
            for number in range(5000):
                await asyncio.wait_for(sender.send("c", signal(number)), 1)
            await until(lambda: bool(sender.traffic.losses and other.traffic.losses))
            assert sender.traffic.dropped
            proxy.release()
            proxy.cut()
            await heard.reached_from(sender)


@pytest.mark.parametrize(
    "reply",
    [
        b"*1000000000\r\n",
        b"*1\r\n" * 5000,
        b"$9000000000\r\n",
        b"\x00" * 100_000,
        b"-ERR no\r\n" * 50,
        b"*x\r\n",
        b":1\r\n" * 9,
    ],
)
async def test_a_hostile_server_costs_signals_only(reply: bytes, impatient: None) -> None:
    async with server_that_answers(reply) as url, processes(url) as (transport,):
        heard = Heard()
        transport.register("c", heard)
        await transport.send("c", signal(1))
        await until(lambda: transport.traffic.losses > 1)
        await transport.send("c", signal(2))
        assert [one.number for one in heard] == [1, 2]


async def test_who_leaves_in_the_middle_of_closing_leaves_no_connection_open(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = PubSub.aclose
    left = asyncio.Event()

    async def slowly(pubsub: PubSub) -> None:
        left.set()
        await asyncio.sleep(0.2)
        await closing(pubsub)

    monkeypatch.setattr(PubSub, "aclose", slowly)
    async with server_that_answers(b"-ERR no\r\n") as url, processes(url) as (transport,):
        transport.register("c", Heard())
        await left.wait()


@asynccontextmanager
async def server_that_answers(reply: bytes) -> AsyncGenerator[str]:
    """A server that says one thing to whatever it hears; at the end, no one is connected to it any more."""
    connected: set[asyncio.BaseTransport] = set()

    class Answers(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)
            connected.add(transport)

        def data_received(self, data: bytes) -> None:
            self.transport.write(reply)

        def connection_lost(self, exc: Exception | None) -> None:
            connected.remove(self.transport)

    with tempfile.TemporaryDirectory(prefix="tw-hostile-") as folder:
        server = await asyncio.get_running_loop().create_unix_server(Answers, f"{folder}/s")
        yield f"unix://{folder}/s"
        server.close()
        await until(lambda: not connected)


async def test_a_handler_that_fails_does_not_end_the_others(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(one: LiveSignal) -> None:
        if one != CALL:
            raise ZeroDivisionError

    async with processes(redis_url, redis_url) as (sender, other):
        heard = Heard()
        other.register("c", fail)
        other.register("c", heard)
        await heard.reached_from(sender)
        await sender.send("c", signal(1))
        await sender.send("c", signal(2))
        await until(lambda: len(heard) == 2)
        await until(lambda: caplog.text.count("a handler of live signals failed") == 2)


@pytest.mark.parametrize("url", ["", "http://h", "redis://", "redis://h:port", "localhost:6379"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="rediss://user:password@host"):
        RedisTransport(url)


def test_a_password_is_never_shown() -> None:
    address = RedisAddress.parse("rediss://me:hunter2hunter2@h:1/3?namespace=n")
    assert (address.shown, address.namespace) == ("rediss://h:1/3", "3/n")
    with pytest.raises(UsageError) as refused:
        RedisAddress.parse("redis://me:hunter2hunter2@h:port")
    assert "hunter2" not in f"{refused.value!r}{refused.value.__cause__}"


def _bare(url: str) -> str:
    return RedisAddress.parse(url).url
