"""Durable timers: a wait that is recorded when it is set and when it fires, so that a crash does not restart it."""

from __future__ import annotations

import anyio

from teamwright.runtime.scope import Scope
from teamwright.runtime.steady_clock import remaining_wait
from teamwright.values.events.run import TimerFired, TimerSet
from teamwright.values.key import join_key


async def sleep_durably(scope: Scope, name: str, seconds: float) -> None:
    """Wait, and go on in journal order; `name` is claimed here."""
    run = scope.run
    if scope.closed:
        await run.park_until_cancelled()
    place = scope.claim(name)
    full = join_key(scope.path, place)
    past = run.past
    if full in past.fired_timers:
        await run.delivery.arrive(scope.lane, full, scope.agent_scope)
        run.advance_to(past.deliveries.arrivals[full])
        return
    if full not in past.timers:
        run.recorder.add(scope.path, place, TimerSet(seconds=seconds))
    left = remaining_wait(past.timers[full], run.wall(), seconds) if full in past.timers else seconds
    await _wait_outside(scope, left)
    event = run.recorder.add(scope.path, place, TimerFired())
    run.delivery.announce(full)
    await run.delivery.arrive(scope.lane, full, scope.agent_scope)
    run.advance_to(event)


async def _wait_outside(scope: Scope, seconds: float) -> None:
    """Let time pass while the branch counts as waiting and the run as busy."""
    run = scope.run
    if scope.agent_scope:
        await run.delivery.caught_up(scope.lane, scope.agent_scope)
    run.agents_at_work += 1
    run.delivery.park(scope.lane)
    try:
        await run.recorder.durable()
        await anyio.sleep(max(0.0, seconds))
    finally:
        run.agents_at_work -= 1
