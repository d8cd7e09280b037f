"""Webhooks: the notice that one receives when a run waits for a person, delivered in the background.

A delivery starts when the run's pause is durable and its lock released, so it never delays a run; each attempt is
recorded. An attempt connects only to an address that it has checked, signs the body, follows no redirect, and bounds
the time and the bytes it reads.
"""

from __future__ import annotations

import base64
import hmac
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from shlex import quote
from types import MappingProxyType
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from teamwright.agents.functions.threads import run_in_thread
from teamwright.errors import JournalError, RunIsLive, UsageError
from teamwright.journal.protocol import Batch, Journal, commit, driver_lock
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunCheckpoint, RunNotified
from teamwright.values.people import (
    ACCEPT,
    APPROVE,
    NO,
    REJECT,
    REVISE,
    SMALLER,
    STOP,
    YES,
    Notify,
    Question,
    is_confirmation,
    is_review,
    signing_key,
)
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text, visible
from teamwright.values.text.secrets import HIDDEN, mask_text
from teamwright.values.turns.results import StopReason
from teamwright.values.value import JsonValue, Record

LONGEST_DRAFT = 4000
SERVER = "TEAMWRIGHT_URL"
"""The variable with the address of the server, which a server sets for the runs that it drives."""
LOG = logging.getLogger("teamwright")
BACKOFF = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each further attempt."""
DELIVERY_GRACE = 5.0
"""Seconds that a closing engine gives to deliveries in flight."""
WEBHOOK = "TEAMWRIGHT_WEBHOOK"
SECRET = "TEAMWRIGHT_WEBHOOK_SECRET"
ALLOW_PRIVATE = "TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK"
TIMEOUT = 5.0
"""Seconds for one attempt, from the connection to the last header of the response."""
LARGEST_HEAD = 16 * 1024
LONGEST_RETRY_AFTER = 600.0
NAT64 = IPv6Network("64:ff9b::/96")
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
RETRY_AFTER = re.compile(rb"^retry-after:[ \t]*([0-9]{1,6})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
VISIBLE = re.compile(r"[!-~]+")


class Notice(Record, frozen=True):
    """Which run waits since which event, for what, and the commands that continue it."""

    run_id: str
    team: str
    stop_reason: StopReason
    checkpoint: int
    questions: tuple[dict[str, JsonValue], ...]
    answer: tuple[str, ...]
    resume: str
    url: str | None = None

    @classmethod
    def of(
        cls, run_id: str, team: str, stop_reason: StopReason, checkpoint: int, open_: Mapping[str, Question]
    ) -> Notice:
        return cls(
            run_id=run_id,
            team=team,
            stop_reason=stop_reason,
            checkpoint=checkpoint,
            questions=tuple(_question_json(key, question) for key, question in open_.items()),
            answer=tuple(answer_command(run_id, key, question) for key, question in open_.items()),
            resume=resume_command(run_id),
            url=page_address(run_id),
        )


def page_address(run_id: str) -> str | None:
    """Return the address of a run on the page of a server; `None` if the environment names no server."""
    server = os.environ.get(SERVER, "").rstrip("/")
    return f"{server}/#/runs/{run_id}" if server else None


def answer_command(run_id: str, key: str | None, question: Question) -> str:
    """Return the command that answers a question; without a key if it is the only one."""
    which = f" --key {quote(key)}" if key is not None else ""
    if question.reason == "pause":
        return f"teamwright runs steer {quote(run_id)} resume {quote(question.about)}"
    command = f"teamwright runs answer {quote(run_id)}{which}"
    if is_confirmation(question):
        return f"{command} {YES}   (or {SMALLER} --max-usd X, {SMALLER} --max-tokens N, or {NO})"
    if is_review(question):
        return f'{command} {ACCEPT}   (or {REVISE} "…", or {STOP})'
    if question.reason == "approval":
        return f'{command} {APPROVE}   (or {REJECT} "why", or edit "…")'
    if question.choices:
        first, *others = map(quote, question.choices)
        return f"{command} {first}" + (f"   (or {', '.join(others)})" if others else "")
    return f'{command} "…"'


def resume_command(run_id: str) -> str:
    """Return the command that resumes a run."""
    return f"teamwright runs resume {quote(run_id)}"


def _question_json(key: str, question: Question) -> dict[str, JsonValue]:
    """Return a question as the reader of the notice sees it: only what looks like a secret is masked."""
    draft = None if question.draft is None else _masked(question.draft)
    if draft is not None and len(draft) > LONGEST_DRAFT:
        draft = draft[:LONGEST_DRAFT] + "…"
    return {
        "key": key,
        "text": _masked(question.text),
        "choices": list(question.choices),
        "reason": question.reason,
        "to": question.to,
        "draft": draft,
    }


def _masked(text: str) -> str:
    return mask_text(visible(text))


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where notices go, the secret that signs them, and whether the address may be private."""

    url: str
    secret: str | None = None
    allow_private: bool = False

    @classmethod
    def of(cls, notify: Notify | None) -> Webhook | None:
        """Return the webhook that the team declares, or the environment's, also for an address that a record hides.

        The environment's secret signs only for the environment's address. Only the environment can allow private
        addresses: a manifest can't allow itself to reach them.
        """
        allowed = private_is_allowed()
        general = os.environ.get(WEBHOOK) or None
        if notify is not None and (notify.webhook != HIDDEN or general is None):
            return cls(notify.webhook, notify.secret, allowed)
        return cls(general, os.environ.get(SECRET) or None, allowed) if general is not None else None


def private_is_allowed() -> bool:
    """Whether the environment allows webhooks at private addresses."""
    return os.environ.get(ALLOW_PRIVATE, "").strip().lower() in {"1", "true", "yes", "on"}


@dataclass(frozen=True, slots=True)
class Response:
    """The outcome of one attempt: success, or the error and whether a retry may help."""

    error: str | None = None
    retryable: bool = False
    retry_after: float = 0.0


class WebhookRejected(Exception):
    """The webhook is not called at all, and a retry would not change that."""


@dataclass(frozen=True, slots=True)
class Address:
    """A URL in the parts that a request needs."""

    tls: bool
    host: str
    port: int
    target: str
    authority: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse a URL; raises `WebhookRejected` unless it is plain http or https."""
        if not VISIBLE.fullmatch(url) or "\\" in url:
            raise WebhookRejected(
                "the webhook is not an http address: it has blanks, backslashes or other odd characters"
            )
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise WebhookRejected("the webhook is not an http address") from None
        if parts.scheme not in {"http", "https"} or not host:
            raise WebhookRejected("the webhook is not an http address")
        if "@" in parts.netloc:
            raise WebhookRejected(
                "the webhook has a user name in its address; put a token into its path or sign with a secret"
            )
        tls = parts.scheme == "https"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(tls, host, port or (443 if tls else 80), target, parts.netloc)


def post(
    webhook: Webhook, message_id: str, timestamp: int, body: bytes, more: Mapping[str, str] = NO_HEADERS
) -> Response:
    """Send one signed request, with `more` headers. Blocks for at most `TIMEOUT` seconds once its host is resolved."""
    if webhook.url == HIDDEN:
        return Response(
            f"the webhook was written in the manifest, which no record keeps: write ${{NAME}} there, or set {WEBHOOK}"
        )
    if webhook.secret == HIDDEN:
        return Response(
            "the webhook's secret was written in the manifest, which no record keeps: write ${NAME} there instead"
        )
    try:
        address = Address.of(webhook.url)
        headers = {**more, **signed_headers(webhook.secret, message_id, timestamp, body)}
        checked = resolve(address.host, address.port, allow_private=webhook.allow_private)
        status, head = _exchange(address, checked, headers, body)
    except (WebhookRejected, UsageError) as error:
        return Response(str(error))
    except socket.gaierror as error:
        return Response(f"its host name can't be resolved: {error.strerror}", retryable=True)
    except TimeoutError:
        return Response("it did not answer in time", retryable=True)
    except OSError as error:
        return Response(f"it can't be reached: {error.strerror or error}", retryable=True)
    except ValueError:  # of the resolver, for labels that no host name has
        return Response("the webhook's host is no host name")
    return _response_for(status, head)


def signed_headers(secret: str | None, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks; without a secret there is no signature."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    if secret:
        signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
        signature = hmac.digest(signing_key(secret), signed, "sha256")
        headers["webhook-signature"] = f"v1,{base64.b64encode(signature).decode()}"
    return headers


def resolve(host: str, port: int, *, allow_private: bool) -> tuple[str, ...]:
    """Resolve a host and check its addresses; the caller must connect to these and never to the name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allow_private and not all(map(is_public, addresses)):
        raise WebhookRejected(
            f"the webhook's host is at a private address; set {ALLOW_PRIVATE}=1 in the environment to allow that"
        )
    return addresses


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet, also if it is embedded in an IPv6 address."""
    try:
        found: IPv4Address | IPv6Address | None = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        inside = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if found in NAT64:
            inside = IPv4Address(int(found) & 0xFFFFFFFF)
        if inside is not None:
            return is_public(str(inside))
    return found.is_global and not (found.is_multicast or found.is_reserved)


def _exchange(address: Address, checked: tuple[str, ...], headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """Send the request to the first address that accepts a connection; returns the response's status and headers."""
    deadline = time.monotonic() + TIMEOUT
    plain = {
        "Host": address.authority,
        "User-Agent": "teamwright",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    lines = [f"POST {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in plain.items()), "", ""]
    with _connect(address, checked, deadline) as connection:
        connection.settimeout(_remaining_time(deadline))
        connection.sendall("\r\n".join(lines).encode("ascii") + body)
        return _read_head(connection, deadline)


def _connect(address: Address, checked: tuple[str, ...], deadline: float) -> socket.socket:
    failure: OSError | None = None
    for one in checked:
        try:
            connection = socket.create_connection((one, address.port), timeout=_remaining_time(deadline))
        except OSError as error:
            failure = error
            continue
        if not address.tls:
            return connection
        import ssl

        try:
            connection.settimeout(_remaining_time(deadline))
            return ssl.create_default_context().wrap_socket(connection, server_hostname=address.host)
        except BaseException:
            connection.close()
            raise
    raise failure or OSError("the host has no address")


def _read_head(connection: socket.socket, deadline: float) -> tuple[int, bytes]:
    """Read up to the end of the headers and no further; interim responses are skipped."""
    read = b""
    while True:
        head, ended, rest = read.partition(b"\r\n\r\n")
        found = STATUS.match(head + b"\r\n")
        if ended and found is not None and found[1].startswith(b"1"):
            read = rest
            continue
        if found is not None and ended:
            return int(found[1]), head
        if len(read) > LARGEST_HEAD:
            raise OSError("its response has no end to its headers")
        connection.settimeout(_remaining_time(deadline))
        piece = connection.recv(4096)
        if not piece:
            if found is not None:
                return int(found[1]), head
            raise ConnectionError("it closed the connection without an HTTP response")
        read += piece


def _remaining_time(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _response_for(status: int, head: bytes) -> Response:
    if 200 <= status < 300:
        return Response()
    if 300 <= status < 400:
        return Response(f"HTTP {status}: it redirects, and redirects are not followed")
    after = RETRY_AFTER.search(head)
    wait = min(LONGEST_RETRY_AFTER, float(after[1])) if after is not None else 0.0
    return Response(f"HTTP {status}", status in {408, 425, 429} or status >= 500, wait)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice to deliver: the pause that it reports, its webhook, and its body."""

    paused: Event
    webhook: Webhook
    body: bytes
    redact: Callable[[str], str]

    @property
    def run_id(self) -> str:
        return self.paused.run_id

    @property
    def message_id(self) -> str:
        """The same id for all attempts, so that a receiver can detect duplicates."""
        return f"msg_{blake2b(f'{self.run_id}/{self.paused.number}'.encode(), digest_size=16).hexdigest()}"


class Deliveries:
    """All deliveries in flight of one engine. Hold `recording` to take over a run that one of them may write to."""

    def __init__(self, journal: Journal, wall: Callable[[], float]) -> None:
        self._journal = journal
        self._wall = wall
        self.recording = anyio.Lock()
        self.backoff: Sequence[float] = BACKOFF
        self._scopes: set[anyio.CancelScope] = set()
        self._under_way = 0
        self._settled = anyio.Event()
        self._closing = anyio.Event()
        self._ends_at = float("inf")

    def open(self) -> None:
        """Accept deliveries, also after `close`."""
        self._closing, self._ends_at = anyio.Event(), float("inf")

    def start(self, tasks: TaskGroup, delivery: Delivery) -> None:
        self._under_way += 1
        tasks.start_soon(self._deliver, delivery)

    async def wait_settled(self) -> None:
        """Wait until no delivery is in flight."""
        while self._under_way:
            self._settled = anyio.Event()
            await self._settled.wait()

    async def close(self) -> None:
        """Give deliveries in flight a grace time, then cancel them."""
        self._ends_at = anyio.current_time() + DELIVERY_GRACE
        self._closing.set()
        with anyio.move_on_after(DELIVERY_GRACE):
            await self.wait_settled()
        for scope in list(self._scopes):
            scope.cancel()
        with anyio.move_on_after(DELIVERY_GRACE):
            await self.wait_settled()

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._attempts(delivery)
        except JournalError as error:
            LOG.warning("a webhook's delivery for run %s can't be recorded: %s", delivery.run_id, error)
        finally:
            self._under_way -= 1
            self._settled.set()

    async def _attempts(self, delivery: Delivery) -> None:
        for attempt, backoff in enumerate((*self.backoff, None), start=1):
            if attempt > 1 and await self._last_event(delivery) is None:
                return
            response = await self._attempt(delivery)
            wait = max(backoff, response.retry_after) if response.retryable and backoff is not None else None
            if wait is not None and anyio.current_time() + wait > self._ends_at:
                wait = None
            error = None if response.error is None else cut(delivery.redact(response.error), LONGEST_ERROR)
            self._log(delivery, error, wait)
            still_waits = await self._record(delivery, RunNotified(error=error, attempt=attempt, retry_in=wait))
            if wait is None or not still_waits:
                return
            if not await self._sleep_unless_closing(wait):
                error = f"gave up after {attempt} of {len(self.backoff) + 1} attempts, because the process ended"
                self._log(delivery, error, None)
                await self._record(delivery, RunNotified(error=error, attempt=attempt))
                return

    async def _attempt(self, delivery: Delivery) -> Response:
        def send() -> Response:
            return post(delivery.webhook, delivery.message_id, int(self._wall()), delivery.body)

        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await run_in_thread(send, "teamwright webhook")
            except Exception as error:  # noqa: BLE001 - an error here fails the delivery and never the run
                return Response(f"the attempt failed: {error_text(error)}")
            finally:
                self._scopes.discard(scope)
        return Response("the process ended before it had answered")

    async def _sleep_unless_closing(self, seconds: float) -> bool:
        """Wait before the next attempt; returns false if the engine is closed first."""
        until = anyio.current_time() + seconds
        with anyio.move_on_after(seconds):
            await self._closing.wait()
        remaining = until - anyio.current_time()
        if remaining > 0 and until > self._ends_at:
            return False
        await anyio.sleep(max(0.0, remaining))
        return True

    def _log(self, delivery: Delivery, error: str | None, wait: float | None) -> None:
        if error is None:
            return
        masked = mask_text(error)
        if wait is None:
            LOG.warning("no webhook could be notified that run %s waits for a person: %s", delivery.run_id, masked)
        else:
            LOG.info("a webhook for run %s failed and is called again in %g s: %s", delivery.run_id, wait, masked)

    async def _record(self, delivery: Delivery, fact: RunNotified) -> bool:
        """Record an attempt in the run's record; returns false if the run no longer waits."""
        async with self.recording:
            try:
                async with driver_lock(self._journal, delivery.run_id):
                    last = await self._last_event(delivery)
                    if last is None:
                        return False
                    now = max(self._wall(), last.time)
                    event = Event(delivery.run_id, last.number + 1, now, "", "", fact)
                    await commit(self._journal, Batch([event], {}))
            except RunIsLive:
                return False
        return True

    async def _last_event(self, delivery: Delivery) -> Event | None:
        """Return the last event of a run that still waits, or `None` if it was resumed or has ended."""
        later = await self._journal.read(delivery.run_id, delivery.paused.number)
        if not all(isinstance(event.fact, RunNotified | RunCheckpoint) for event in later):
            return None
        return later[-1] if later else delivery.paused
