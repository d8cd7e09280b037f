"""Serves an application until it is told to stop, over an engine that drives the runs it starts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from teamwright.errors import UsageError
from teamwright.journal.location import data_folder
from teamwright.runtime.engine import Engine
from teamwright.server.app import make_app
from teamwright.server.catalogue import Catalogue
from teamwright.server.guard import LOOPBACK
from teamwright.server.state import ServerState
from teamwright.server.tokens import Tokens, Visitor

TOKENS = "server-tokens.json"
OWNER = Visitor("owner", "admin")
"""Who started the server, and opens the address that it prints."""


async def serve(
    folders: Sequence[Path], host: str, port: int, hosts: Sequence[str], started: Callable[[str], None]
) -> None:
    """Serve until a signal arrives; `started` gets the address to open, with a code that works once."""
    listener = _listen(host, port)
    async with Engine() as engine:
        state = ServerState(engine, Catalogue(folders), Tokens(data_folder() / TOKENS))
        app = make_app(state, {*LOOPBACK, host, *hosts})
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
