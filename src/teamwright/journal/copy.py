"""Copies runs from one journal to another, of whichever kind, and compares what was written with what was read.

A run is copied while both journals hold its driver lock. A copy that broke off is continued: what the target has must
be the beginning of the run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Literal

from teamwright.errors import JournalCorrupt, JournalError, RunIsLive
from teamwright.journal.codec import encode_intervention, references, to_row
from teamwright.journal.protocol import Batch, InboxItem, Journal, commit
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event
from teamwright.values.turns.messages import digest
from teamwright.values.value import Record

BATCH = 200
"""Events of one commit."""

Outcome = Literal["copied", "present", "live", "differs", "failed"]


class CopiedRun(Record, frozen=True):
    """What became of one run; `digest` identifies its events, bodies and inbox in both journals."""

    run_id: str
    outcome: Outcome
    events: int = 0
    bodies: int = 0
    digest: str = ""
    reason: str = ""


async def copy_runs(
    source: Journal, target: Journal, run_ids: Sequence[str] | None = None
) -> AsyncGenerator[CopiedRun]:
    """Copy runs, or all, the oldest first, and yield what became of each; the source stays as it is."""
    if run_ids is None:
        run_ids = [summary.id for summary in reversed(await source.runs())]
    for run_id in run_ids:
        try:
            async with AsyncExitStack() as held:
                await held.enter_async_context(source.drive(run_id))
                await held.enter_async_context(target.drive(run_id))
                copied = await _copy(source, target, run_id)
        except RunIsLive:
            copied = CopiedRun(run_id, "live", reason="it is being driven; copy it once it has stopped")
        except JournalError as error:
            copied = CopiedRun(run_id, "failed", reason=str(error))
        yield copied


async def _copy(source: Journal, target: Journal, run_id: str) -> CopiedRun:
    events, there = await source.read(run_id), await target.read(run_id)
    bodies = await _bodies(source, events)
    inbox = await source.inbox(run_id)
    wanted = _digest(events, bodies, inbox)
    if there != events[: len(there)]:
        reason = "the target has a run with this id and another record"
        return CopiedRun(run_id, "differs", len(events), len(bodies), wanted, reason)
    left = events[len(there) :]
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        used = {body for event in batch for body in _references(event)}
        await commit(target, Batch(batch, {body: bodies[body] for body in used if body in bodies}))
    for item in inbox:
        await target.restore(item)
    written = _digest(await target.read(run_id), await _bodies(target, events), await target.inbox(run_id))
    if written != wanted:
        return CopiedRun(run_id, "failed", len(events), len(bodies), wanted, "what was written differs from the source")
    return CopiedRun(run_id, "copied" if left else "present", len(events), len(bodies), wanted)


def _references(event: Event) -> list[Body]:
    return references(to_row(event.number, event, None)[5])


async def _bodies(journal: Journal, events: Collection[Event]) -> dict[Body, str]:
    """The bodies that events refer to. Not everything that looks like a hash is one."""
    return await _existing(journal, sorted({body for event in events for body in _references(event)}))


async def _existing(journal: Journal, hashes: list[Body]) -> dict[Body, str]:
    try:
        return await journal.bodies(hashes)
    except JournalCorrupt:
        if len(hashes) == 1:
            return {}
    half = len(hashes) // 2
    return await _existing(journal, hashes[:half]) | await _existing(journal, hashes[half:])


def _digest(events: Sequence[Event], bodies: dict[Body, str], inbox: Sequence[InboxItem]) -> str:
    rows = [repr(to_row(event.number, event, None)) for event in events]
    texts = [f"{body} {digest(text)}" for body, text in sorted(bodies.items())]
    letters = [f"{item.id} {encode_intervention(item.intervention)}" for item in inbox]
    return digest("\n".join((*rows, *texts, *letters)))
