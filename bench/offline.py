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


def refuse_network() -> None:
    """Make every connection and every name lookup fail from now on; unused replacements cost nothing."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise NetworkRefused(f"the benchmark stays on this machine, so {arguments!r} was refused")

    for owner, name in ((socket.socket, "connect"), (socket.socket, "connect_ex"), (socket, "getaddrinfo")):
        setattr(owner, name, refuse)
