"""Commits a batch and waits for it."""

from __future__ import annotations

import anyio

from teamwright.journal.protocol import Batch, Journal


async def commit(journal: Journal, batch: Batch) -> None:
    """Append a batch and wait until it is durable; raise the error if the journal rejects it."""
    done = anyio.Event()
    failure: list[BaseException] = []

    def committed(error: BaseException | None) -> None:
        failure.extend([error] if error else [])
        done.set()

    journal.append(batch, committed)
    await done.wait()
    if failure:
        raise failure[0]
