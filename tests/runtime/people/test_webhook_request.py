"""One attempt to call a webhook: accepted addresses, the signature of the request, bounds on the response."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import UsageError
from teamwright.runtime.people import webhook as module
from teamwright.runtime.people.webhook import (
    Address,
    Response,
    Webhook,
    WebhookRejected,
    is_public,
    post,
    resolve,
    signed_headers,
)
from teamwright.values.people import Notify, signing_key

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
TLS_HANDSHAKE = b"\x16\x03"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Server:
    """A bare TCP server that keeps requests and answers each with the given bytes, piece by piece."""

    def __init__(self, answer: bytes | list[bytes] = OK, host: str = "127.0.0.1", pause: float = 0.0) -> None:
        self.requests: list[bytes] = []
        self._answer, self._pause = [answer] if isinstance(answer, bytes) else answer, pause
        self._socket = socket.create_server((host, 0))
        self._socket.settimeout(0.05)
        self.port = int(self._socket.getsockname()[1])
        self._over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    @contextmanager
    def open(self) -> Generator[Server]:
        thread = threading.Thread(target=self._serve)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()
            self._socket.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(2.0)
                self._handle(connection)

    def _handle(self, connection: socket.socket) -> None:
        read = b""
        while b"\r\n\r\n" not in read:
            piece = connection.recv(65536)
            if not piece or piece.startswith(TLS_HANDSHAKE):
                return
            read += piece
        head, _, body = read.partition(b"\r\n\r\n")
        length = int(next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")).split(b":")[1])
        while len(body) < length:
            body += connection.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        try:
            for piece in self._answer:
                connection.sendall(piece)
                if self._over.wait(self._pause):
                    return
        except OSError:
            return


def sent(server: Server, secret: str | None = None) -> Response:
    return post(Webhook(server.url, secret, allow_private=True), "msg_1", 1_700_000_000, b'{"a": 1}')


def parsed(request: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}, body


def verify(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """The check of a receiver, written from the text of Standard Webhooks and not from the sender."""
    key = base64.b64decode(secret.split("_", 1)[1])
    content = headers["webhook-id"] + "." + headers["webhook-timestamp"] + "." + body.decode()
    expected = base64.b64encode(hmac.new(key, content.encode(), hashlib.sha256).digest()).decode()
    candidates = [part.split(",", 1) for part in headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(found, expected) for version, found in candidates)


def test_a_request_is_signed_so_that_a_receiver_can_verify_it() -> None:  # S-07
    with Server().open() as server:
        assert sent(server, SECRET) == Response()
    (request,) = server.requests
    first, headers, body = parsed(request)
    assert first == "POST /hook?x=1 HTTP/1.1"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_1", "1700000000")
    assert headers["content-type"] == "application/json"
    assert verify(SECRET, headers, body)
    assert not verify(SECRET, headers, body + b" ")
    assert not verify(SECRET, {**headers, "webhook-timestamp": "1700000001"}, body)
    assert not verify("whsec_" + base64.b64encode(b"x" * 32).decode(), headers, body)


def test_the_signature_is_the_one_of_the_published_test_vector() -> None:  # S-07
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = signed_headers(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_without_a_secret_nothing_is_signed() -> None:
    with Server().open() as server:
        assert sent(server) == Response()
    _, headers, _ = parsed(server.requests[0])
    assert "webhook-signature" not in headers
    assert headers["webhook-id"] == "msg_1"


@pytest.mark.parametrize(
    "secret", ["", "plain", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"short").decode(), SECRET[6:]]
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(UsageError) as refused:
        signing_key(secret)
    assert "whsec_" in str(refused.value)
    assert len(secret) < 7 or secret not in str(refused.value)


@given(st.binary(min_size=24, max_size=64))
def test_every_key_of_a_fitting_length_is_taken(key: bytes) -> None:
    assert signing_key("whsec_" + base64.b64encode(key).decode()) == key


PRIVATE = [
    "127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
    "2002:7f00:1::", "2002:a00:1::", "2001:0:a00:1:0:0:80ff:fffe", "2001:db8::1", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_on_the_public_internet_is_private(address: str) -> None:  # S-07
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_on_the_public_internet_is_public(address: str) -> None:
    assert is_public(address)


WAYS_TO_LOOPBACK = [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/", "http://127.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://0:{port}/",
    "http://0.0.0.0:{port}/", "http://[::1]:{port}/", "http://[::]:{port}/", "http://LOCALHOST.:{port}/",
    "http://example.com@127.0.0.1:{port}/", "http://127.0.0.1:{port}\\@example.com/",
    "http://example.com:80@127.0.0.1:{port}/", "http://127.0.0.1:{port}#@example.com/",
]  # fmt: skip


@pytest.mark.parametrize("url", WAYS_TO_LOOPBACK)
def test_no_way_to_write_loopback_reaches_it(url: str) -> None:  # S-07
    with Server().open() as server:
        response = post(Webhook(url.format(port=server.port)), "msg_1", 1, b"{}")
        assert server.requests == []
    assert response.error is not None


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://example.com/", "gopher://x/", "http://", "http:///x", "//x/y", "x", "",
        "http://[", "http://x:99999/", "http://x:port/", "http://x/\r\nHost: y", "http://x/ y", "http://x/\x00",
        "http://ex\u00e4mple/", "javascript:alert(1)", "http://user:pass@example.com/",
    ],
)  # fmt: skip
def test_only_plain_http_addresses_are_taken(url: str) -> None:  # S-07
    with pytest.raises(WebhookRejected):
        Address.of(url)
    response = post(Webhook(url, allow_private=True), "msg_1", 1, b"{}")
    assert response.error is not None
    assert not response.retryable


@pytest.mark.parametrize("url", ["http://a..b/", "http://.../", f"http://{'a' * 70}.example/"])
def test_an_invalid_host_is_reported(url: str) -> None:
    assert post(Webhook(url), "msg_1", 1, b"{}").error is not None


def test_a_bad_secret_of_the_environment_is_reported_and_nothing_is_sent() -> None:
    with Server().open() as server:
        response = sent(server, "guess me")
        assert server.requests == []
    assert response.error is not None
    assert "whsec_" in response.error
    assert "guess me" not in response.error
    assert not response.retryable


@given(st.text())
def test_whatever_stands_there_as_an_address_is_a_response_and_no_crash(text: str) -> None:
    try:
        address = Address.of(text)
    except WebhookRejected:
        return
    assert address.host
    assert 0 <= address.port < 65536
    assert "\r" not in address.target + address.authority


def test_what_is_connected_to_is_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:  # S-07
    """A name that would resolve to another address the second time gains nothing: it is resolved once."""
    asked: list[str] = []

    def rebinding(host: str, port: int, **kinds: object) -> list[object]:
        asked.append(host)
        address = "127.0.0.2" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    real = socket.getaddrinfo

    def resolver(host: str, port: int, *args: object, **kinds: object) -> object:
        return rebinding(host, port) if host == "hooks.example" else real(host, port, *args, **kinds)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    monkeypatch.setattr(module, "is_public", lambda address: address == "127.0.0.2")
    with Server(host="127.0.0.2").open() as checked:
        response = post(Webhook(f"http://hooks.example:{checked.port}/"), "msg_1", 1, b"{}")
        assert response == Response()
        assert parsed(checked.requests[0])[1]["host"] == f"hooks.example:{checked.port}"
        assert asked == ["hooks.example"]
        assert post(Webhook(f"http://hooks.example:{checked.port}/"), "msg_1", 1, b"{}").error is not None
        assert len(checked.requests) == 1


def test_a_host_with_a_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:  # S-07
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(WebhookRejected, match="private address"):
        resolve("mixed.example", 80, allow_private=False)
    assert resolve("mixed.example", 80, allow_private=True) == ("8.8.8.8", "10.0.0.1")


def test_a_redirect_is_not_followed() -> None:  # S-07
    with Server().open() as other:
        away = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\n\r\n".encode()
        with Server(away).open() as server:
            response = sent(server)
        assert other.requests == []
    assert response.error is not None
    assert "redirect" in response.error
    assert not response.retryable


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(200, None), (202, None), (400, False), (401, False), (404, False), (410, False), (408, True), (429, True),
     (500, True), (503, True), (301, False), (307, False)],
)  # fmt: skip
def test_what_may_pass_is_tried_again_and_what_will_not_is_not(status: int, *, retryable: bool | None) -> None:
    with Server(f"HTTP/1.1 {status} Said\r\nRetry-After: 7\r\n\r\n".encode()).open() as server:
        response = sent(server)
    assert (response.error is None) == (retryable is None)
    assert response.retryable == bool(retryable)
    assert response.retry_after == (7.0 if status >= 400 else 0.0)


def test_an_interim_response_is_not_the_answer() -> None:
    with Server([b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 2", b"00 OK\r\n\r\n"]).open() as server:
        assert sent(server) == Response()


def test_a_refused_connection_is_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    response = post(Webhook(f"http://127.0.0.1:{port}/", allow_private=True), "msg_1", 1, b"{}")
    assert response.error is not None
    assert response.retryable


ENDLESS: dict[str, tuple[bytes | list[bytes], float]] = {
    "headers without an end": ([b"HTTP/1.1 200 OK\r\n", *[b"x: " + b"y" * 4000 + b"\r\n"] * 500], 0.0),
    "a line without an end": ([b"y" * 65536] * 100, 0.0),
    "one byte at a time": ([b"H", b"T", b"T", b"P"] * 100, 0.1),
    "silence": (b"", 30.0),
    "no http": (b"220 smtp ready\r\n\r\n", 30.0),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_server_that_never_ends_is_left(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:  # S-07
    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    answer, pause = ENDLESS[kind]
    with Server(answer, pause=pause).open() as server:
        began = time.monotonic()
        response = sent(server)
        took = time.monotonic() - began
    assert response.error is not None
    assert took < 20  # and not until the server has sent everything


def test_a_large_body_is_not_read() -> None:
    with Server([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 65536] * 200]).open() as server:
        assert sent(server) == Response()


def test_a_server_that_speaks_no_tls_gets_nothing_over_https(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 1.0)
    with Server(b"not tls").open() as server:
        response = post(Webhook(f"https://127.0.0.1:{server.port}/", allow_private=True), "msg_1", 1, b"{}")
        assert server.requests == []
    assert response.error is not None


def test_a_secret_of_the_environment_signs_for_the_address_of_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S-07
    monkeypatch.setenv("TEAMWRIGHT_WEBHOOK", "https://general.example/")
    monkeypatch.setenv("TEAMWRIGHT_WEBHOOK_SECRET", SECRET)
    own = Notify(webhook="https://own.example/")
    assert Webhook.of(None) == Webhook("https://general.example/", SECRET)
    assert Webhook.of(own) == Webhook("https://own.example/")
    recorded = Notify.model_validate({"webhook": "[redacted]", "secret": "[redacted]"})
    assert Webhook.of(recorded) == Webhook("https://general.example/", SECRET)


@pytest.mark.parametrize(("said", "allowed"), [("1", True), ("true", True), ("", False), ("0", False), ("no", False)])
def test_only_the_environment_allows_private_addresses(
    said: str, monkeypatch: pytest.MonkeyPatch, *, allowed: bool
) -> None:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK", said)
    found = Webhook.of(Notify(webhook="http://127.0.0.1/"))
    assert found is not None
    assert found.allow_private == allowed


def test_a_random_secret_is_never_in_what_is_sent_or_said() -> None:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    with Server(b"HTTP/1.1 500 no\r\n\r\n").open() as server:
        response = sent(server, secret)
    assert secret[6:].encode() not in server.requests[0]
    assert secret[6:] not in str(response)
