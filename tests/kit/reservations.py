"""Reservations in accounts, for tests of the ledger."""

from __future__ import annotations

import asyncio

from teamwright.runtime.budget.ledger import Account, Reservation
from teamwright.runtime.budget.reservation_size import ReservationRequest
from teamwright.values.usage_and_prices import Rate

CHEAP = Rate(input=1, output=2)
"""Picodollars per token, chosen so that limits are easy to read."""


def money(picodollars: int) -> float:
    return picodollars / 1e12


async def reserve(account: Account, prompt: int, cap: int | None = None, rate: Rate | None = None) -> Reservation:
    return await account.reserve(ReservationRequest(prompt, cap, model=True, rate=rate))


def queue(account: Account, prompt: int, cap: int | None = None, rate: Rate | None = None) -> asyncio.Task[Reservation]:
    return asyncio.get_running_loop().create_task(reserve(account, prompt, cap, rate))


async def quiet() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
