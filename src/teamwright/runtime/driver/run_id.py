"""New run ids and seeds."""

from __future__ import annotations

import time


def new_seed() -> int:
    """Return a seed for the random numbers of one run."""
    import secrets

    return secrets.randbits(48)


def new_run_id(now: float) -> str:
    """Return a new run id, which sorts by time and is unique within a second."""
    import secrets

    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"
