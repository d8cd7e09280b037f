"""A schedule starts a run again and again. Each tick starts one run, whose id names the tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from msgspec import convert, structs
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.cluster.submission.cron import Cron
from teamwright.errors import JournalCorrupt
from teamwright.journal.codec import decode_event, encode_event
from teamwright.journal.postgres.stores import ScheduleRow
from teamwright.journal.protocol import Batch
from teamwright.journal.stores import BudgetClaim
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.names import check_name
from teamwright.values.turns.messages import digest

_SEED_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Tick:
    """One time of a schedule: when it was due, the id of its run, and the time of the tick after it."""

    time: float
    run_id: str
    following: float


def run_id_at(name: str, time: float) -> str:
    """Return the id of the run that a schedule starts at a time: the same in every process."""
    return check_name("run", f"{name}-{datetime.fromtimestamp(time, UTC):%Y%m%d-%H%M%S}")


def next_tick(schedule: ScheduleRow, now: float) -> Tick:
    """Return the tick that is due now: ticks that were missed, while no worker ran, are made up by the last of them."""
    cron = Cron(schedule.cron, schedule.zone)
    time = max(schedule.next, cron.latest(now))
    return Tick(time, run_id_at(schedule.name, time), cron.after(max(now, time)))


def template_of(batch: Batch) -> str:
    """Return the first batch of a run as text, from which each tick makes its own."""
    events = [encode_event(event) for event in batch.events]
    claim = None if batch.claim is None else structs.asdict(batch.claim)
    return to_json({"events": events, "bodies": dict(batch.bodies), "claim": claim}).decode()


def batch_at(template: str, tick: Tick) -> Batch:
    """Return the first batch of the run of a tick; raises `JournalCorrupt` if the template was damaged."""
    try:
        data = cast("Mapping[str, JsonValue]", from_json(template))
        events, bodies = data["events"], data["bodies"]
        if not isinstance(events, list) or not events or not isinstance(bodies, dict):
            raise ValueError("it has no events and bodies")
        claim = convert(data.get("claim"), BudgetClaim | None)
    except (ValueError, KeyError, TypeError) as error:
        raise JournalCorrupt(f"What the schedule of run {tick.run_id!r} starts can't be read: {error}.") from error
    return Batch(
        [_event_at(decode_event(tick.run_id, str(text)), tick) for text in events],
        {body: str(text) for body, text in bodies.items()},
        claim=claim,
    )


def _event_at(event: Event, tick: Tick) -> Event:
    fact = event.fact
    if isinstance(fact, RunStarted):
        fact = fact.changed(seed=int(digest(tick.run_id)[:_SEED_DIGITS], 16))
    return structs.replace(event, time=tick.time, fact=fact)
