"""Keeps the processes of the benchmark off the network and turns off the tracing of other frameworks."""

import os
import socket
from typing import NoReturn

QUIET = {
    "AGENT_FRAMEWORK_FEATURE_MASK_DISABLED": "true",
    "AGENT_FRAMEWORK_USER_AGENT_DISABLED": "true",
    "ENABLE_INSTRUMENTATION": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OTEL_SDK_DISABLED": "true",
}


class NetworkRefused(Exception):
    """A measured case tried to reach the network."""


def quiet_environment() -> dict[str, str]:
    """This process's environment, with tracing and telemetry of other frameworks off."""
    return {**os.environ, **QUIET}


def _loopback_info(host: object, port: object, *_: object, **__: object) -> list[object]:
    if host not in ("127.0.0.1", b"127.0.0.1"):
        raise NetworkRefused(f"the benchmark stays on this machine, so {host!r} was refused")
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


def refuse_network(*, loopback: bool = False) -> None:
    """Make every connection and every name lookup fail from now on; unused replacements cost nothing.

    With `loopback`, connections to this machine are left, by its address.
    """
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: object) -> None:
        if not (isinstance(address, tuple) and address[:1] == ("127.0.0.1",)):
            refuse(address)
        connect(self, address)  # pyright: ignore[reportArgumentType]

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise NetworkRefused(f"the benchmark stays on this machine, so {arguments!r} was refused")

    for owner, name in ((socket.socket, "connect"), (socket.socket, "connect_ex"), (socket, "getaddrinfo")):
        setattr(owner, name, refuse)
    if loopback:
        socket.socket.connect = local_only  # pyright: ignore[reportAttributeAccessIssue]
        socket.getaddrinfo = _loopback_info
