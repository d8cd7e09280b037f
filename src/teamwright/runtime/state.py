"""What all contexts of one run share while it is being driven."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from teamwright.budget.ledger import Account, Ledger
from teamwright.bus import Bus
from teamwright.errors import NonDeterminism, TeamwrightError
from teamwright.runtime.limiter import Limiters
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.replay import EXPIRED, Past, Spending
from teamwright.runtime.turnstile import Turnstile
from teamwright.runtime.workspace import Horizon
from teamwright.values.events import Body, Event, ScopeWaited
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Question
from teamwright.values.turns import Failure, Reply
from teamwright.workspace.store import Store

WORTH_NOTING = 0.01
"""Seconds of waiting for people that are worth a line in the record."""


class Waiting(NamedTuple):
    """A question that somebody in this process waits to have answered."""

    question: Question
    answer: asyncio.Future[Answer]


@dataclass(slots=True)
class RunState:
    """One run under one driver."""

    run_id: str
    seed: int
    past: Past
    recorder: Recorder
    turnstile: Turnstile
    redactor: Redactor
    bus: Bus
    wall: Callable[[], float]
    read_bodies: Callable[[Collection[Body]], Awaitable[dict[Body, str]]]
    limiters: Limiters = field(default_factory=Limiters)
    ledger: Ledger = field(default_factory=Ledger)
    cancel_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    error: TeamwrightError | None = None
    closing: bool = False
    cancelled: bool = False
    pausing: bool = False
    agents_at_work: int = 0
    calls_out: int = 0
    now: float = 0.0
    task: str = ""
    horizon: Horizon = field(default_factory=Horizon)
    store: Store = field(default_factory=Store)
    heard: dict[str, tuple[int, Reply | Failure]] = field(default_factory=dict[str, tuple[int, "Reply | Failure"]])
    marks: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    tallies: dict[str, Spending] = field(default_factory=dict[str, Spending])
    questions: dict[str, Waiting] = field(default_factory=dict[str, "Waiting"])
    call_returned: Callable[[], None] = lambda: None

    def arrived(self, event: Event) -> None:
        """Something has reached the run: from here on it is past, in time and in what can be seen."""
        self.now = event.time
        self.horizon.number = max(self.horizon.number, event.number)

    def abort(self, error: TeamwrightError) -> None:
        """Something is wrong with the run itself: stop everything and leave the record as it is."""
        if self.error is None:
            self.error = error
        self.closing = True
        self.recorder.drop()
        self.cancel_scope.cancel()

    def waited(self, scope: str, since: float) -> None:
        """Write down that a scope has waited for people, unless its record has to stay as it is."""
        seconds = self.wall() - since
        if seconds >= WORTH_NOTING and self.error is None:
            self.recorder.add(scope, "", ScopeWaited(seconds=seconds))

    async def left(self) -> None:
        """The driver is leaving: whoever gets here waits to be stopped, so that nothing more is decided or written."""
        await asyncio.get_running_loop().create_future()

    @property
    def waits_for_people(self) -> bool:
        """Whether, with every branch waiting, nothing but an answer can move the run on."""
        answered = any(waiting.answer.done() for waiting in self.questions.values())
        return bool(self.questions) and not self.agents_at_work and not self.calls_out and not answered

    def disagree(self, key: str, recorded: str, replayed: str) -> None:
        """Replay and record differ at an ask: an error, but for what a fork took over, where the record gives way."""
        ask = self.past.asks.get(self.past.turn_of(key.removesuffix(EXPIRED)))
        self.differ(ask.number if ask else None, recorded, replayed)

    def differ(self, number: int | None, recorded: str, replayed: str) -> None:
        """Replay and the event of this number differ; without one it is nothing that a fork took over."""
        if number is None or number > self.past.taken_over:
            error = NonDeterminism(self.run_id, recorded, replayed)
            self.abort(error)
            raise error

    def tally(self, agent_scope: str) -> Spending:
        """What the effects of the turn under way at this scope have come to, in this process and before."""
        if agent_scope not in self.tallies:
            self.tallies[agent_scope] = self.past.open.pop(agent_scope, None) or Spending()
        return self.tallies[agent_scope]

    def account(self, scope: str, limits: Limits | None, parent: Account | None) -> Account | None:
        """The account of a scope; a scope without limits uses the one around it."""
        if limits is None or (limits.tokens is None and limits.calls is None):
            return parent
        spent = self.past.spent[scope]
        return Account(scope, limits, parent, spent.tokens, spent.calls)
