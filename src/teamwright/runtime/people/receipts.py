"""What becomes of an intervention that was sent to a run: sent, accepted by its driver, in effect, or refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Literal

from teamwright.errors import InterventionRefused, NotResumable
from teamwright.journal.protocol import Journal
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunApplied, RunEnded, RunIntervened, RunRefused
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.values.people import Steer


ReceiptStatus = Literal["sent", "accepted", "applied"]
"""In the inbox of a run without a driver; accepted by its driver; in effect."""


Follow = Callable[[str, int], AsyncGenerator[Event | AnyDelta]]


class Receipt(Record, frozen=True):
    """How far an intervention has come: `number` and `key` are the event that says so, and its place.

    `inbox_id` identifies the intervention in the inbox and in the events of the run.
    """

    run_id: str
    intervention: str
    inbox_id: int
    status: ReceiptStatus
    number: int | None = None
    key: str = ""


class Sender:
    """Sends one intervention to a run, after the event `number`, and follows what becomes of it."""

    def __init__(self, journal: Journal, follow: Follow, run_id: str, number: int) -> None:
        self._journal, self._follow, self._run_id, self._number = journal, follow, run_id, number

    async def send(self, steer: Steer, *, wait: bool) -> Receipt:
        """Send the intervention; wait until it is accepted, or in effect. Raises `InterventionRefused`.

        A run without a driver accepts it when it is resumed.
        """
        before = await self._journal.inbox(self._run_id)
        await self._journal.send(self._run_id, steer)
        items = await self._journal.inbox(self._run_id, before[-1].id if before else 0)
        inbox_id = next(item.id for item in items if item.intervention == steer)
        receipt = Receipt(run_id=self._run_id, intervention=steer.kind, inbox_id=inbox_id, status="sent")
        async for event in self._follow(self._run_id, self._number):
            if not isinstance(event, Event):
                continue
            match event.fact:
                case RunIntervened(inbox_id=found) if found == inbox_id:
                    receipt = receipt.changed(status="accepted", number=event.number, key=event.key)
                    if not wait:
                        return receipt
                case RunApplied(inbox_id=found) if found == inbox_id:
                    return receipt.changed(status="applied", number=event.number, key=event.key)
                case RunRefused(inbox_id=found, reason=reason) if found == inbox_id:
                    raise InterventionRefused(f"Run {self._run_id!r} can't take it: {reason}.")
                case RunEnded(status=status):
                    raise NotResumable(f"Run {self._run_id!r} ended ({status}) before it took effect.")
                case _:
                    pass
        return receipt
