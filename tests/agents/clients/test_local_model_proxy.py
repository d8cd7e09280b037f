"""The proxy before the embedded model: which requests may pass, and that it stops when one side disconnects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from teamwright.agents.clients.local_model import LONGEST_HEAD, LocalProxy

KEY = "the-key-of-this-start"


class Upstream:
    """The server behind the proxy: it records requests and the end of connections, and answers."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.ended = threading.Event()
        self.answers = True

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.heads.append(connection.recv(65536))
            if self.answers:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            else:
                connection.recv(1)
        self.ended.set()


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[LocalProxy]:
    made = LocalProxy(KEY, upstream.connect)
    yield made
    made.close()


def asked(proxy: LocalProxy, *lines: str) -> bytes:
    """The response to a request with these headers."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
        client.sendall("\r\n".join(("POST / HTTP/1.1", *lines, "", "")).encode())
        answer = b""
        with suppress(ConnectionError):
            while piece := client.recv(65536):
                answer += piece
        return answer


def test_a_request_passes_with_the_key_and_the_address_alone(proxy: LocalProxy, upstream: Upstream) -> None:  # S-05
    host, key = f"Host: 127.0.0.1:{proxy.port}", f"Authorization: Bearer {KEY}"
    assert asked(proxy, host, key, "Connection: keep-alive").endswith(b"\r\n\r\nok")
    assert b"Connection: close" in upstream.heads[0]
    assert b"keep-alive" not in upstream.heads[0]
    assert asked(proxy, host.replace("127.0.0.1", "LocalHost"), key).startswith(b"HTTP/1.1 200")
    passed = len(upstream.heads)
    for refused in (
        (host,),
        (host, "Authorization: Bearer wrong"),
        (host, f"Authorization: {KEY}"),
        (host, key, key),
        (host, key, "Authorization: Bearer wrong"),
    ):
        assert asked(proxy, *refused).startswith(b"HTTP/1.1 401")
    for refused in (
        (key,),
        (key, "Host: evil.example"),
        (key, f"Host: evil.example:{proxy.port}"),
        (key, "Host: 127.0.0.1"),
        (key, host, "Host: evil.example"),
        (key, host, host),
    ):
        assert asked(proxy, *refused).startswith(b"HTTP/1.1 403")
    assert asked(proxy, host, key, "X: " + "x" * (LONGEST_HEAD + 100_000))[:12] in (b"HTTP/1.1 400", b"")
    assert len(upstream.heads) == passed


def test_an_answer_is_stopped_when_its_client_disconnects(proxy: LocalProxy, upstream: Upstream) -> None:
    upstream.answers = False
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        client.sendall(head.encode())
    assert upstream.ended.wait(10)
