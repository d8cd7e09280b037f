"""A proxy on loopback in front of the embedded local model's server, which authenticates each request.

Loopback is open to every user of the machine, and to web pages through DNS rebinding. A request passes only with the
key of this start and with this address as its Host. One connection carries one request.
"""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

LONGEST_HEAD = 65_536
HEAD_SECONDS = 30.0
PIECE = 65_536
END_OF_HEAD = b"\r\n\r\n"


class LocalProxy:
    """Listens on a port, and forwards authorized requests to a connection from `connect`."""

    def __init__(self, key: str, connect: Callable[[], socket.socket]) -> None:
        self._key, self._connect = key.encode(), connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._hosts = {f"{name}:{self.port}".encode() for name in ("127.0.0.1", "localhost")}
        threading.Thread(target=self._accept, name="local model", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL it listens on."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(HEAD_SECONDS)
            head, rest = _read_head(client)
            if (refusal := self._refusal(head)) is not None:
                client.sendall(refusal)
                return
            client.settimeout(None)
            with self._connect() as server:
                server.sendall(_with_connection_close(head) + rest)
                threading.Thread(target=_copy, args=(client, server), daemon=True).start()
                _copy(server, client)

    def _refusal(self, head: bytes) -> bytes | None:
        """Return the error response to a request that must not pass, or `None`."""
        headers = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        found = {b"host": list[bytes](), b"authorization": list[bytes]()}
        for name, _, value in headers:
            found.get(name.strip().lower(), []).append(value.strip())
        if not head:
            return _answer(b"400 Bad Request", b"malformed request")
        if len(found[b"host"]) != 1 or found[b"host"][0].lower() not in self._hosts:
            return _answer(b"403 Forbidden", b"the Host header does not name this address")
        sent = found[b"authorization"]
        if len(sent) != 1 or not hmac.compare_digest(sent[0], b"Bearer " + self._key):
            return _answer(b"401 Unauthorized", b"the key is missing or wrong")
        return None


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Read the head of a request and the bytes after it; return empty bytes if it is malformed."""
    data = b""
    while END_OF_HEAD not in data:
        piece = client.recv(PIECE)
        if not piece or len(data) + len(piece) > LONGEST_HEAD + PIECE:
            return b"", b""
        data += piece
    head, _, rest = data.partition(END_OF_HEAD)
    return (head, rest) if len(head) <= LONGEST_HEAD else (b"", b"")


def _with_connection_close(head: bytes) -> bytes:
    """Return the head with `Connection: close`."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + END_OF_HEAD


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side closes, then close both."""
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _answer(status: bytes, reason: bytes) -> bytes:
    body = b'{"error": {"message": "%b", "type": "authentication_error"}}' % reason
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, len(body)) + body
