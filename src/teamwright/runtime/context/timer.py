"""Durable timers: a wait is recorded when it is set and when it fires, so that a crash does not restart it."""

from __future__ import annotations

import anyio

from teamwright.runtime.driver.steady_clock import remaining_wait
from teamwright.runtime.scope import Scope
from teamwright.values.events.run import TimerFired, TimerSet
from teamwright.values.key import join_key


async def sleep_durably(scope: Scope, name: str, seconds: float) -> None:
    """Wait, then continue in journal order; `name` is claimed here."""
    run = scope.run
    if scope.is_closed:
        await run.park_until_cancelled()
    place = scope.claim(name)
    full = join_key(scope.path, place)
    record = run.record
    if full in record.fired_timers:
        await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
        run.advance_to(record.deliveries.arrivals[full])
        return
    if full not in record.timers:
        run.recorder.add(scope.path, place, TimerSet(seconds=seconds))
    left = remaining_wait(record.timers[full], run.wall(), seconds) if full in record.timers else seconds
    await _wait_outside(scope, left)
    event = run.recorder.add(scope.path, place, TimerFired())
    run.delivery.enqueue(full)
    await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
    run.advance_to(event)


async def _wait_outside(scope: Scope, seconds: float) -> None:
    """Let time pass while the branch is parked and the run counts as busy."""
    run = scope.run
    if scope.agent_scope:
        await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
    run.busy_agents += 1
    run.delivery.park(scope.lane)
    try:
        await run.recorder.flush()
        await anyio.sleep(max(0.0, seconds))
    finally:
        run.busy_agents -= 1
