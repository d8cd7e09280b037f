"""Measures one reservation of the ledger, from request to settlement, with many concurrent spenders."""

import asyncio
import time
from collections.abc import Mapping

from bench.workload import WrongAnswer
from teamwright.runtime.budget.ledger import Account, Reservation
from teamwright.runtime.budget.reservation_size import ReservationRequest
from teamwright.values.limits import Limits
from teamwright.values.usage_and_prices import Cost

RESERVATIONS = 20_000
PROMPT, CAP, USED = 100, 100, 50
"""Each call reserves twice what it finally costs."""
ROOM: Mapping[str, int | None] = {"room for all": None, "room for ten": 10}


async def microseconds(room: str, spenders: int) -> float:
    """Return the time per reservation of a member in a team in a run, all with limits, at this concurrency."""
    run = Account("", Limits(tokens=_limit(room, spenders), usd=1.0), None)
    team = Account("team", Limits(tokens=10**12), run)
    members = [Account(f"team/{number}", Limits(calls=RESERVATIONS), team) for number in range(spenders)]
    each = max(1, RESERVATIONS // spenders)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(_spend(member, each))
    elapsed = time.perf_counter() - started
    if run.spent != [each * spenders * USED, 0, each * spenders] or any(run.held):
        raise WrongAnswer(f"the ledger says {run.spent} was spent and {run.held} is held")
    return elapsed / (each * spenders) * 1e6


def _limit(room: str, spenders: int) -> int:
    """Return limits for everything that is spent, plus this number of concurrent reservations."""
    at_once = ROOM[room] or spenders
    return max(1, RESERVATIONS // spenders) * spenders * USED + at_once * (PROMPT + CAP)


async def _spend(account: Account, times: int) -> None:
    request = ReservationRequest(PROMPT, CAP, model=True)
    for _ in range(times):
        reservation: Reservation = await account.reserve(request)
        await asyncio.sleep(0)
        reservation.settle(Cost(USED))
