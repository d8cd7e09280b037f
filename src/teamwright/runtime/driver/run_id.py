"""New run ids and seeds, and the name of a driver."""

from __future__ import annotations

import os
import time


def new_seed() -> int:
    """Return a seed for the random numbers of one run."""
    import secrets

    return secrets.randbits(48)


def new_run_id(now: float) -> str:
    """Return a new run id, which sorts by time and is unique within a second."""
    import secrets

    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"


def process_name() -> str:
    """Return the name of this process as a driver: its host and its id."""
    import socket

    return f"{socket.gethostname()}:{os.getpid()}"
