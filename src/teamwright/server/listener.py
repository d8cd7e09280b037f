"""Serves an application until a signal stops it, over an engine that drives the runs it starts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from teamwright.errors import UsageError
from teamwright.runtime.engine import Engine
from teamwright.server.app import make_app
from teamwright.server.catalogue import Catalogue
from teamwright.server.guard import LOOPBACK
from teamwright.server.state import ServerState
from teamwright.server.tokens import Tokens, Visitor, tokens_file

OWNER = Visitor("owner", "admin")
"""Who started the server, and opens the address that it prints."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server serves, and where. `hosts` are further names under which it may be called."""

    folders: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    journal: Path | None = None


async def serve(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `started` gets the address to open, with a code that works once."""
    host = settings.host
    listener = _listen(host, settings.port)
    async with Engine(settings.journal) as engine:
        state = ServerState(engine, Catalogue(settings.folders), Tokens(tokens_file(settings.journal)))
        app = make_app(state, {*LOOPBACK, _shown(host), *settings.hosts})
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", server_header=False, timeout_graceful_shutdown=3
        )
        number = listener.getsockname()[1]
        started(f"http://{_shown(host)}:{number}/?code={state.sessions.new_code(OWNER)}")
        await uvicorn.Server(config).serve([listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise UsageError(f"Can't listen on {host}:{port}: {error.strerror}; choose another with --port.") from error
    listener.listen(2048)
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
