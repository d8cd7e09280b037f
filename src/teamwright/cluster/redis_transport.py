"""The transport between processes, over publish and subscribe of a Redis (or Valkey) server.

It never holds up a run: a sender only puts a message into a bounded queue. While the server is away, slow or hostile,
signals to other processes are dropped and counted; those within this process arrive as before. Signals are JSON with
the name of who sent them, and names of channels show nothing of a run. What arrives was written by anyone who may write
to the server: it is data, bounded in size, and dropped if it is invalid.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from random import uniform
from secrets import token_hex
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Meta, Struct
from redis._parsers.resp2 import _AsyncRESP2Parser  # pyright: ignore[reportPrivateUsage]
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse
from typing_extensions import override

from teamwright.agents.functions.threads import finish
from teamwright.errors import UsageError
from teamwright.runtime.transport import MOST_QUEUED, InProcessTransport, LiveSignal, SignalHandler, Traffic, Transport
from teamwright.values.text.secrets import mask_text

LARGEST_MESSAGE: Final = 64 * 1024
"""Bytes of one message; a larger one is neither sent nor read."""
PREFIX: Final = "teamwright:"
CONNECT_SECONDS: Final = 3.0
PING_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = 8.0
"""After so long without a word, not even an answer to a ping, a connection counts as lost."""
BACKOFF_SECONDS: Final = (0.1, 10.0)
"""The first and the longest pause before a connection is tried again."""
MOST_UNSENT, UNSENT_BYTES = 4096, 4 * 1024 * 1024
AT_ONCE: Final = 64
"""How many messages go into one packet."""
MOST_FIELDS: Final = 16
SCHEMES = ("redis", "rediss", "unix")


class WireMessage(Struct, frozen=True):
    """A signal and its sender, a random name for each transport."""

    sender: Annotated[str, Meta(max_length=64)]
    signal: LiveSignal


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(WireMessage)


def encode_message(sender: str, signal: LiveSignal) -> bytes | None:
    """Return a message as JSON; `None` if it is too large."""
    data = _ENCODER.encode(WireMessage(sender, signal))
    return data if len(data) <= LARGEST_MESSAGE else None


def decode_message(data: object) -> WireMessage | None:
    """Return what arrived as a message; `None` for anything else."""
    if not isinstance(data, bytes) or len(data) > LARGEST_MESSAGE:
        return None
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def wire_channel(namespace: str, channel: str) -> str:
    """Return the name of a channel on the server: a digest, which has the same length for every name."""
    name = blake2b(f"{namespace}\0{channel}".encode("utf-8", "surrogatepass"), digest_size=16)
    return PREFIX + name.hexdigest()


# pyright: reportUnknownMemberType=false
# Some methods of the library have arguments without types.


LOG = logging.getLogger("teamwright")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The address of a server. Publish and subscribe knows no databases, so the `namespace` keeps programs apart."""

    url: str
    namespace: str
    shown: str

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Return the address of a URL; no message shows its password."""
        flaw = UsageError(
            "The address of Redis is no URL that can be used; write it as  redis://host:6379  or, with TLS,  "
            "rediss://user:password@host:6379?namespace=name"
        )
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query))
            namespace = options.pop("namespace", "")
            bare = urlunsplit(parts._replace(query=urlencode(options)))
            parse_url(bare)
            place = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}{parts.path}"
        except ValueError:
            raise flaw from None
        if parts.scheme not in SCHEMES or not (parts.hostname or parts.path):
            raise flaw
        database = parts.path.strip("/") if parts.scheme != "unix" else options.get("db", "")
        return cls(bare, f"{database or 0}/{namespace}", f"{parts.scheme}://{place}")

    def pool(self) -> ConnectionPool:
        """Return connections of which each gives up soon, reads little, and never tries again by itself."""
        options = cast("dict[str, Any]", parse_url(self.url))
        options |= {
            "parser_class": BoundedParser,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "health_check_interval": 0,
            "decode_responses": False,
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": CONNECT_SECONDS,
        }
        if not self.shown.startswith("unix"):
            options["socket_keepalive"] = True
        return ConnectionPool(**options)


class BoundedParser(_AsyncRESP2Parser):
    """Reads replies of the server, none of them larger than a message: a sender could send half a gigabyte."""

    __slots__ = ("_lists",)

    @override
    async def read_response(self, disable_decoding: bool = False) -> Any:
        self._lists = 0
        return await super().read_response(disable_decoding)

    @override
    async def _readline(self) -> bytes:
        line = await super()._readline()
        if line[:1] == b"*":
            self._lists += 1
        if self._lists > 2 or (line[:1] in b"*$" and int(line[1:] or b"0") > _most(line)):
            raise InvalidResponse("a reply is larger than any message")
        return line


def _most(line: bytes) -> int:
    return MOST_FIELDS if line[:1] == b"*" else LARGEST_MESSAGE


class Backoff:
    """Pauses that grow, at random, so that not everyone comes back at once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._seconds = BACKOFF_SECONDS[0]

    async def pause(self) -> None:
        """Wait, and wait longer the next time."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, BACKOFF_SECONDS[1])
        await asyncio.sleep(uniform(seconds / 2, seconds))


class RedisTransport(Transport):
    """Channels that processes share. `traffic` counts what it has carried, and what it has dropped."""

    def __init__(self, url: str, most_queued: int = MOST_QUEUED) -> None:
        self._address = RedisAddress.parse(url)
        self._name = token_hex(8)
        self._local = InProcessTransport(most_queued)
        self._local.listened = self._listened
        self.traffic = Traffic()
        self._channels: dict[bytes, str] = {}
        self._rearranged = asyncio.Event()
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._unsent_bytes = 0
        self._has_unsent = asyncio.Event()
        self._is_away, self._is_closed, self._warned = False, False, False
        self._publisher: asyncio.Task[None] | None = None
        self._receiver: asyncio.Task[None] | None = None

    async def send(self, channel: str, signal: LiveSignal) -> None:
        """Send to the listeners here, for which it may wait, and to those in other processes, for which it never does.

        There, a signal that finds no room is dropped.
        """
        await self._local.send(channel, signal)
        if self._is_closed:
            return
        data = encode_message(self._name, signal)
        is_full = len(self._unsent) >= MOST_UNSENT or self._unsent_bytes >= UNSENT_BYTES
        if data is None or is_full or self._is_away:
            self.traffic.dropped += 1
            return
        self._unsent.append((wire_channel(self._address.namespace, channel), data))
        self._unsent_bytes += len(data)
        self._has_unsent.set()
        self._publisher = self._publisher or _started(self._publish())

    def listen(self, channel: str) -> AsyncGenerator[LiveSignal]:
        """Yield the signals of this process and of others; from others, soon after this call."""
        return self._local.listen(channel)

    def register(self, channel: str, handler: SignalHandler) -> Callable[[], None]:
        """Add a handler; returns what removes it. What another process sent never waits for a handler's process."""
        return self._local.register(channel, handler)

    async def close(self) -> None:
        """Wake everyone, and leave the server."""
        self._is_closed = True
        await self._local.close()
        await _end([task for task in (self._publisher, self._receiver) if task is not None])

    def _listened(self, channel: str) -> None:
        """Subscribe to a channel that is listened to here, and unsubscribe from one that is not any more."""
        name = wire_channel(self._address.namespace, channel).encode()
        if self._local.has_listeners(channel):
            self._channels[name] = channel
            if not self._is_closed:
                self._receiver = self._receiver or _started(self._receive())
        else:
            self._channels.pop(name, None)
        self._rearranged.set()

    async def _publish(self) -> None:
        """Send what is queued, until cancelled."""
        backoff = Backoff()
        while True:
            await self._has_unsent.wait()
            pool = self._address.pool()
            try:
                client = Redis(connection_pool=pool)
                while True:
                    await self._has_unsent.wait()
                    await self._send_some(client)
                    backoff.reset()
                    self._returned()
            except Exception as error:  # noqa: BLE001 - the library raises anything where a server is not Redis
                self._lost(error)
            finally:
                await finish(_close(pool))
            self._is_away = True
            self.traffic.dropped += len(self._unsent)  # what is not live any more is worth nothing
            self._unsent.clear()
            self._unsent_bytes = 0
            await backoff.pause()
            self._is_away = False
            self._has_unsent.clear()

    async def _send_some(self, client: Redis) -> None:
        batch = [self._unsent.popleft() for _ in range(min(len(self._unsent), AT_ONCE))]
        self._unsent_bytes -= sum(len(data) for _, data in batch)
        if not self._unsent:
            self._has_unsent.clear()
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                packet = client.pipeline(transaction=False)
                for channel, data in batch:
                    packet.publish(channel, data)
                await packet.execute()
        except BaseException:
            self.traffic.dropped += len(batch)
            raise
        self.traffic.sent += len(batch)

    async def _receive(self) -> None:
        """Deliver what arrives, until cancelled."""
        backoff = Backoff()
        while True:
            pool = self._address.pool()
            pubsub = PubSub(pool)
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    await pubsub.subscribe(PREFIX)  # without messages: it keeps a session that has no other channel
                await _either(self._keep_subscribed(pubsub), self._hear(pubsub, backoff))
            except Exception as error:  # noqa: BLE001 - the library raises anything where a server is not Redis
                self._lost(error)
            finally:
                await finish(_close(pubsub, pool))  # cancelled in the middle, a connection would stay open
            await backoff.pause()

    async def _keep_subscribed(self, pubsub: PubSub) -> None:
        """Subscribe to what is listened to; ping the server in between, whose silence would say nothing else."""
        subscribed: set[bytes] = set()
        while True:
            self._rearranged.clear()
            wanted = set(self._channels)
            async with asyncio.timeout(SILENCE_SECONDS):
                if wanted - subscribed:
                    await pubsub.subscribe(*wanted - subscribed)
                if subscribed - wanted:
                    await pubsub.unsubscribe(*subscribed - wanted)
                await pubsub.ping()
            subscribed = wanted
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    await self._rearranged.wait()

    async def _hear(self, pubsub: PubSub, backoff: Backoff) -> None:
        while True:
            async with asyncio.timeout(SILENCE_SECONDS):
                heard = cast("dict[str, Any] | None", await pubsub.get_message(True, timeout=None))
            backoff.reset()
            self._returned()
            if heard is not None and heard["type"] == "message":
                await self._deliver(heard["channel"], heard["data"])

    async def _deliver(self, name: bytes, data: object) -> None:
        """Pass a message on to the listeners of its channel, without waiting for a slow one."""
        message = decode_message(data)
        if message is None:
            self.traffic.invalid += 1
        elif message.sender != self._name and (channel := self._channels.get(name)) is not None:
            self.traffic.received += 1
            self.traffic.dropped += not await self._local.offer(channel, message.signal)

    def _lost(self, error: BaseException) -> None:
        self.traffic.losses += 1
        if not self._warned:
            self._warned = True
            reason = mask_text(str(error) or type(error).__name__)
            LOG.warning("no live text between processes: Redis at %s is away (%s)", self._address.shown, reason)

    def _returned(self) -> None:
        if self._warned:
            self._warned = False
            LOG.info("Redis at %s is back", self._address.shown)


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name="teamwright redis")


async def _close(*opened: PubSub | ConnectionPool) -> None:
    for one in opened:
        with suppress(Exception):
            await one.aclose()


async def _either(*works: Coroutine[Any, Any, None]) -> None:
    """Do several things until one ends, and end the others."""
    tasks = [_started(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)
    for task in done:
        task.result()


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: the library loses a cancellation that comes while it connects or sends."""
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending, timeout=0.05)
        except asyncio.CancelledError as error:
            cancelled = error  # raised below, once nothing is left behind
    await asyncio.gather(*tasks, return_exceptions=True)
    if cancelled is not None:
        raise cancelled
