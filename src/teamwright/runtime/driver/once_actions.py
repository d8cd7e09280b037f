"""The actions of tools with `once`: which call of a run, or of its forks, makes each of them, and how it ended.

A call claims its action in the inbox of the root run, which all forks and processes share and which orders the claims.
The outcome of a call is what its own run has recorded. Nothing else may be kept here: a crash must lose nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from teamwright.agents.contract.effect import Returned
from teamwright.errors import NotDone
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import InboxItem, Journal
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.key import is_call, is_inside
from teamwright.values.people import ActionClaim

POLL_SECONDS = 0.2
"""Seconds between two looks at a call that another process makes."""

Unmade = Literal["not_done", "in_doubt", "asking"]
"""A call without a result: it did nothing, its outcome is unknown, or it waits for a person."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The claim that holds: its id, and the call that made it."""

    id: int
    run_id: str
    key: str


class ActionLedger:
    """The actions of one run, as its driver sees them."""

    def __init__(self, journal: Journal, run_id: str, record: RunRecord) -> None:
        self._journal, self._run_id, self._record = journal, run_id, record
        self._ended: dict[str, Returned | Unmade] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._holders: dict[str, Holder] = {}
        self._last_item = 0

    def lock(self, action: str) -> asyncio.Lock:
        """The lock under which calls of this driver claim an action and make it."""
        return self._locks.setdefault(action, asyncio.Lock())

    @property
    def _root(self) -> str:
        """The run whose inbox has the claims: the same for a run and all its forks."""
        origin = self._record.started.origin if self._record.started is not None else None
        return origin.root_run if origin is not None and origin.how == "fork" else self._run_id

    async def are_forgotten(self) -> bool:
        """Whether the root run was deleted, and with it the claims: then any action may have been made.

        True once the claims are gone, because a run and its inbox are deleted together. So ask after a claim.
        """
        return self._root != self._run_id and await self._journal.find(self._root) is None

    async def claim(self, action: str, key: str, replaced: Holder | None = None) -> Holder:
        """Claim an action for a call of this run, unless it is held; returns the holder.

        A claim in place of another one takes effect if no other call was faster.
        """
        held = await self._holder(action)
        if held is not None and (replaced is None or held.id != replaced.id):
            return held
        after = replaced.id if replaced is not None else 0
        claim = ActionClaim(action=action, run_id=self._run_id, key=key, after=after)
        await self._journal.send(self._root, claim)
        held = await self._holder(action)
        assert held is not None
        return held

    def is_own(self, holder: Holder, key: str) -> bool:
        """Whether a call of this run holds the claim."""
        return (holder.run_id, holder.key) == (self._run_id, key)

    def end(self, key: str, outcome: Returned | BaseException) -> None:
        if isinstance(outcome, Returned):
            self._ended[key] = "asking" if outcome.form == "question" else outcome
        else:
            self._ended[key] = "not_done" if isinstance(outcome, NotDone) else "in_doubt"

    async def outcome(self, holder: Holder) -> Returned | Unmade:
        """Return how a call ended; waits while another run makes it."""
        if holder.run_id == self._run_id and holder.key in self._ended:
            return self._ended[holder.key]
        while True:
            driven = holder.run_id != self._run_id and await self._journal.is_driven(holder.run_id)
            events = await self._journal.read(holder.run_id)
            found = _outcome(events, holder.key)
            if isinstance(found, AgentReturned):
                bodies = RecordedBodies(await self._journal.bodies(found.bodies))
                return Returned(bodies.result(found), artifacts=found.artifacts)
            if found is not None or not driven:
                return found or "in_doubt"
            await anyio.sleep(POLL_SECONDS)

    async def _holder(self, action: str) -> Holder | None:
        """Return the last of the claims on an action that each replaced the one before it."""
        for item in await self._journal.inbox(self._root, self._last_item):
            if item.id > self._last_item:  # else another call has applied it meanwhile
                self._last_item = item.id
                self._apply(item)
        return self._holders.get(action)

    def _apply(self, item: InboxItem) -> None:
        claim = item.intervention
        if isinstance(claim, ActionClaim):
            held = self._holders.get(claim.action)
            if claim.after == (held.id if held else 0):
                self._holders[claim.action] = Holder(item.id, claim.run_id, claim.key)


def _outcome(events: Sequence[Event], key: str) -> AgentReturned | Unmade | None:
    """Return the recorded outcome of a call; `None` while it is being made.

    A call that asked a person is executed again: its outcome is that of the last execution.
    """
    found: AgentReturned | Unmade | None = None
    for event in events:
        match event.fact:
            case AgentCalled() if is_call(event.key, key):
                found = None
            case AgentReturned(form="question") if is_call(event.key, key):
                found = "asking"
            case AgentReturned() as fact if is_call(event.key, key):
                found = fact
            case AgentCallFailed(retry_in=None, error=error) if is_call(event.key, key):
                found = "not_done" if error == NotDone.kind else "in_doubt"
            case AgentReplied() | AgentFailed() if found is None and is_inside(key, event.key):
                found = "in_doubt"
            case _:
                pass
    return found
