"""The HTTP endpoint of a worker, for monitoring: metrics, health and readiness. It only answers GET and HEAD."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from teamwright.errors import UsageError

READ_SECONDS = 5.0
LARGEST_HEAD = 16 * 1024
MOST_CONNECTIONS = 32


class Page(NamedTuple):
    """What one path answers."""

    text: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Awaitable[Page]]]
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def parse_place(place: str) -> tuple[str, int]:
    """Return host and port of `PORT` or `HOST:PORT`; the host is loopback unless it is named."""
    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"Metrics can't be served at {place!r}: use a port such as 9100, or HOST:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)


@asynccontextmanager
async def serving(place: str, pages: Pages) -> AsyncGenerator[str]:
    """Serve pages within the block; yields the address."""
    host, port = parse_place(place)
    open_connections = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_connections
        open_connections += 1
        try:
            if open_connections <= MOST_CONNECTIONS:
                async with asyncio.timeout(READ_SECONDS):
                    writer.write(await _answer(reader, pages))
                    await writer.drain()
        except (TimeoutError, ConnectionError):
            pass
        finally:
            open_connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(connected, host, port, limit=LARGEST_HEAD)
    except OSError as error:
        raise UsageError(f"Metrics can't be served at {place!r}: {error.strerror or error}.") from error
    try:
        found = server.sockets[0].getsockname()
        yield f"http://{f'[{host}]' if ':' in host else host}:{found[1]}"
    finally:
        server.close()


async def _answer(reader: asyncio.StreamReader, pages: Pages) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return _response(Page("This is not a request.\n", 400))
    method, path = (*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", "")[:2]
    if method not in {"GET", "HEAD"}:
        return _response(Page("Use GET.\n", 405))
    make = pages.get(path.partition("?")[0])
    page = await make() if make is not None else Page(f"There are: {' '.join(pages)}\n", 404)
    return _response(page, with_body=method == "GET")


def _response(page: Page, *, with_body: bool = True) -> bytes:
    body = page.text.encode()
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
