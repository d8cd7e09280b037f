"""A server of raw bytes on loopback: it reads a request and lets a function write whatever it likes to the socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

from teamwright.values.specs.models import ServerModel

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
"""A stream whose end is the end of the connection."""
Write = Callable[[socket.socket], None]


def event(delta: object, finish: str | None = None) -> bytes:
    """One event of a chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "raw", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def says(text: str, finish: str | None = None) -> bytes:
    """An event that brings text."""
    return event({"role": "assistant", "content": text}, finish)


DONE = b"data: [DONE]\n\n"


class RawServer:
    """Answers each connection by the next of `writes`, the last of them from then on."""

    def __init__(self, *writes: bytes | Write) -> None:
        self._writes = [_sending(one) if isinstance(one, bytes) else one for one in writes]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[dict[str, str]] = []
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def model(self) -> ServerModel:
        return ServerModel(url=self.url, name="raw")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed.set()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self.closed.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(20)
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536) or b"\r\n\r\n"
            head, _, rest = data.partition(b"\r\n\r\n")
            lines = [line.partition(": ") for line in head.decode().split("\r\n")]
            headers = {name.lower(): value for name, _, value in lines[1:]}
            while len(rest) < int(headers.get("content-length", "0")):
                rest += connection.recv(65536)
            self.heads.append({"": lines[0][0], **headers})
            write = self._writes[min(len(self.heads), len(self._writes)) - 1]
            write(connection)
            connection.shutdown(socket.SHUT_RDWR)


def _sending(data: bytes) -> Write:
    return lambda connection: connection.sendall(data)


def endless(head: bytes, piece: bytes, most: int = 400_000_000) -> Write:
    """Send the head and then the same piece, until the other side has had enough."""

    def write(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(most // len(piece)):
            connection.sendall(piece)

    return write


def slowly(pieces: Iterable[bytes], pause: threading.Event, seconds: float) -> Write:
    """Send pieces with a pause after each, which setting the event ends."""

    def write(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
            pause.wait(seconds)

    return write
