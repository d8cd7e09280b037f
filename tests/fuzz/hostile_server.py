"""A loopback server that answers HTTP requests with given bytes, pauses and endings."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Self

Step = tuple[str, str | float | int]
"""What to do: `send` or `drip` bytes (as Latin-1), `flood` with them over and over, `pause` for seconds, or how to end:
`reset`, `half` (close our side and wait), `hold` (wait in silence). A connection is closed after its last step."""
FLOOD_BYTES = 256 << 20
LONGEST = 15.0


class HostileServer:
    """Answers the nth request with the nth script, and all later ones with the last."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listening.getsockname()[1])
        self._scripts: list[list[Step]] = [[]]
        self._requests = 0
        self.early = False
        """Answer before the request has come."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, scripts: list[list[Step]], *, early: bool = False) -> None:
        """Answer so from now on; connections that are still open are ended."""
        self.hang_up()
        with self._lock:
            self._scripts, self._requests, self.early = scripts or [[]], 0, early

    def hang_up(self) -> None:
        """End every connection."""
        with self._lock:
            left, self._open = self._open, set()
        for connection in left:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.hang_up()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(LONGEST)
            if not self.early:
                _read_request(connection)
            with self._lock:
                script = self._scripts[min(self._requests, len(self._scripts) - 1)]
                self._requests += 1
            end = time.monotonic() + LONGEST
            for what, value in script:
                _act(connection, what, value, end)
        with self._lock:
            self._open.discard(connection)


def _read_request(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1 << 16)
        if not piece:
            return
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        piece = connection.recv(1 << 16)
        if not piece:
            return
        body += piece


def _act(connection: socket.socket, what: str, value: str | float, end: float) -> None:
    match what:
        case "send":
            connection.sendall(str(value).encode("latin-1"))
        case "drip":
            for one in str(value).encode("latin-1"):
                connection.sendall(bytes((one,)))
                time.sleep(0.002)
        case "flood":
            piece = str(value).encode("latin-1") * max(1, 65536 // max(1, len(str(value))))
            sent = 0
            while sent < FLOOD_BYTES and time.monotonic() < end:
                connection.sendall(piece)
                sent += len(piece)
        case "pause":
            time.sleep(float(value))
        case "hold":
            connection.settimeout(float(value))
            connection.recv(1)
        case "half":
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(float(value))
            connection.recv(1)
        case _:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
