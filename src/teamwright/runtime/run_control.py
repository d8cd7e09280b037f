"""What stops, pauses and steers a run while it is driven: its driver, its handle, people, and the run itself; and the
runs that an engine drives, to which it delivers the items of their inboxes.

Everything here only decides and records. The root task of the run is stopped through its state, and what then becomes
of the run is up to `Run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import anyio

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import InboxItem, Journal
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.budget.tenant_budgets import TenantBudgets
from teamwright.runtime.context.timers import Deadline
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.locks import ActionLedger
from teamwright.runtime.ordered_delivery import OrderedDelivery
from teamwright.runtime.people.applied_interventions import receive_steer
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.run_state import RunState
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunCheckpoint, RunIntervened
from teamwright.values.people import ActionClaim, Answered, Cancel, Mark, Pause, Question, Reason, Undo
from teamwright.values.turns.results import StopReason

POLL_INTERVAL = 0.08
"""Seconds between two polls of a journal that can't notify of changes."""
NOTIFIED_INTERVAL = 1.0
"""Seconds between two polls of one that can, in case a notification or a driver was lost."""


class LiveRuns:
    """Runs by id, from their launch until their driver has released them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._runs: dict[str, RunControl] = {}
        self._launched = anyio.Event()
        self._watchers: list[Callable[[], None]] = []

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def __iter__(self) -> Iterator[RunControl]:
        return iter(list(self._runs.values()))

    def get(self, run_id: str) -> RunControl | None:
        """Return the run of this id, or `None` if it is not driven here."""
        return self._runs.get(run_id)

    def add(self, run: RunControl) -> None:
        self._runs[run.run_id] = run
        self._launched.set()

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watching(self, watcher: Callable[[], None]) -> Generator[None]:
        """For the duration of the block, call this whenever a run is no longer driven here."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    async def watch_inboxes(self) -> None:
        """Deliver inbox items as they arrive, until cancelled. The journal is not polled while no run is live."""
        while True:
            if not self._runs:
                self._launched = anyio.Event()
                await self._launched.wait()
            with suppress(JournalError):  # the run that writes to the journal reports it; here we poll again
                await self._journal.changed(POLL_INTERVAL)
                await self.deliver_inboxes()

    async def deliver_inboxes(self) -> None:
        """Pass each run the inbox items that it has not received yet."""
        for run in self:
            try:
                items = await self._journal.inbox(run.run_id, run.last_inbox_id)
            except (JournalCorrupt, JournalTooNew) as error:  # a run must not wait for ever for an unreadable inbox
                run.journal_failed(error)
                continue
            for item in items:
                run.receive(item, await run.refusal_of(item))


PAUSE_REASONS: dict[Reason, StopReason] = {
    "failure": "retries_exhausted", "approval": "approval", "question": "person", "pause": "pause",
}  # fmt: skip
"""The stop reason of a run that pauses for people, by the kind of question; the first kind that is open decides."""


class RunControl:
    """The state of one run under one driver, and everything that may stop, pause or steer it."""

    def __init__(
        self,
        run_id: str,
        team: Team,
        journal: Journal,
        bus: Bus,
        wall: Callable[[], float],
        limiters: RateLimiters,
        record: RunRecord,
        *,
        grace: float,
        prompt_meter: PromptMeter | None = None,
    ) -> None:
        self.run_id, self._team, self._journal, self._record = run_id, team, journal, record
        self.begun = asyncio.Event()
        """Set when the run is in the journal, or when it is certain that it will not be."""
        self.interactive = False
        self.last_inbox_id = 0
        self.pause_reason: StopReason | None = None
        self.resume_at: float | None = None
        """When a paused run goes on by itself."""
        self.waiting_for: dict[str, Question] = {}
        """The questions that a paused run waits for, by key."""
        self.next_queue: str | None = None
        """The queue in which the run waits for its next driver, if it is handed back."""
        self.cancel_request: Cancel | None = None
        self.is_over = self.has_ended = False
        self.state = state = RunState(
            run_id=run_id,
            seed=0,
            record=record,
            recorder=Recorder(journal, run_id, record.number, wall, self._publish, self.journal_failed),
            delivery=OrderedDelivery(record.deliveries.due, self._on_stuck, self._on_caught_up),
            redactor=Redactor(team.known_secrets()),
            bus=bus,
            wall=wall,
            read_bodies=journal.bodies,
            limiters=limiters,
            prompt_meter=prompt_meter or PromptMeter(),
            store=record.workspace.store(record.bodies),
            requests=record.requests(),
            call_returned=self._on_call_returned,
            grace=grace,
            cancel=self._cancel,
            new_actions=partial(ActionLedger, journal, run_id, record),
        )
        state.delivery.when_idle = self._on_idle

    def _publish(self, events: Sequence[Event]) -> None:
        """Publish the first durable events; from now on, other processes can find the run."""
        self.begun.set()
        self.state.recorder.publish = self.state.bus.publish
        self.state.bus.publish(events)

    @property
    def pending_cancel(self) -> Cancel | None:
        """A cancel that arrived while the driver was stopping and has not been carried out."""
        return self.cancel_request if self.state.closing and not self.has_ended else None

    @property
    def budget(self) -> str:
        """The tenant's budget that the run draws on; empty if it draws on none."""
        return self._record.started.budget if self._record.started is not None else ""

    def is_past_deadline(self, seconds: float) -> bool:
        """Whether a deadline passed more than `seconds` ago without the event loop acting on it. Thread-safe."""
        return any(isinstance(part, Deadline) and part.is_overdue(seconds) for part in tuple(self.state.open_resources))

    def interrupt(self) -> None:
        """Stop driving; the run can be resumed."""
        self.state.closing = True
        self.state.stop()

    def hand_back(self, queue: str) -> None:
        """Stop driving once in-flight calls have finished; the run then waits in this queue, unless a person pauses."""
        if not self.state.pausing:
            self.next_queue, self.state.pausing = queue, True
        if self.state.delivery.is_replaying:
            self.interrupt()
        self._check_pause()

    def set_interactive(self, interactive: bool) -> None:
        """Wait for answers in place, or pause once only an answer can unblock the run."""
        self.interactive = interactive
        if not interactive:
            self.state.delivery.check_idle()

    def journal_failed(self, error: JournalError) -> None:
        """Stop driving and leave the record as it is, because the journal can't be used for this run."""
        self.state.abort(error)

    async def refusal_of(self, item: InboxItem) -> str | None:
        """Return why the tenant's budget has no room for what an inbox item raises; reserve it if it has."""
        if not self.budget or item.id <= max(self.last_inbox_id, self._record.last_inbox_item):
            return None
        return await TenantBudgets(self._journal).refusal_of(self.run_id, self.budget, item)

    def receive(self, item: InboxItem, refusal: str | None = None) -> None:
        """Act on an inbox item once; one that arrives after the run's end or pause stays in the inbox.

        An intervention is refused for the reason `refusal`, if there is one.
        """
        if self.is_over or item.id <= self.last_inbox_id:
            return
        self.last_inbox_id = item.id
        state = self.state
        if item.id <= self._record.last_inbox_item and item.intervention.kind != "answer":
            return
        match item.intervention:
            case Answered(key=key, answer=given):
                text, data = state.redactor.text(given.text), state.redactor.value(given.data)
                state.answers[key] = answer = given.changed(text=text, data=data)
                if (waiting := state.questions.get(key)) and not waiting.answer.done():
                    waiting.answer.set_result(answer)
            case Cancel() as cancel:
                if not state.cancelled:
                    cancel = cancel.changed(reason=state.redactor.text(cancel.reason))
                    state.recorder.add("", "", RunIntervened(intervention=cancel, inbox_id=item.id))
                    self.cancel_request = cancel
                    self._cancel()
            case Pause():
                state.recorder.add("", "", RunIntervened(intervention=item.intervention, inbox_id=item.id))
                state.pausing = True
                self._check_pause()
            case Mark(name=name, by=by) as mark:
                state.recorder.add("", "", RunIntervened(intervention=mark, inbox_id=item.id))
                state.recorder.add("", "", RunCheckpoint(name=name, by=by))
            case Undo() | ActionClaim():
                pass  # the one concerns the conversation of the run, the other is read by the calls that claim actions
            case steer:
                receive_steer(state, self._team, steer, item.id, refusal)

    def _on_call_returned(self) -> None:
        self._check_pause()
        if self.state.questions or self.state.provider_waits:
            self.state.delivery.check_idle()

    def _check_pause(self) -> None:
        """Pause the run if that was requested and no call is in flight."""
        state = self.state
        in_flight = any(not call.goes_on for call in state.open_calls.values())
        if not state.pausing or in_flight or state.delivery.is_replaying:
            return
        if self.next_queue is None:
            self._pause("pause")
        elif not state.closing:
            state.closing = True
            asyncio.get_running_loop().call_soon(state.stop)

    def _on_idle(self) -> None:
        """Pause the run if every branch waits for people or providers; for people unless the run is interactive."""
        if not self.state.is_waiting_outside or (self.state.questions and self.interactive):
            return
        reasons = {waiting.question.reason for waiting in self.state.questions.values()}
        stops: list[StopReason] = [stop for reason, stop in PAUSE_REASONS.items() if reason in reasons]
        self._pause(stops[0] if stops else "quota")

    def _pause(self, reason: StopReason) -> None:
        state = self.state
        if self.pause_reason or state.closing or state.cancelled:
            return
        self.pause_reason, self.resume_at = reason, None if reason == "pause" else state.resume_at
        self.waiting_for = {key: waiting.question for key, waiting in state.questions.items()}
        state.closing = True
        asyncio.get_running_loop().call_soon(state.stop)

    def _on_caught_up(self) -> None:
        if self.state.closing:  # a driver that stops during replay records nothing
            return
        self.state.recorder.release()
        self._check_pause()
        if self.state.cancelled:
            self.state.stop()

    def _cancel(self) -> None:
        """End the run, after what is recorded has been replayed, so that no recorded message is lost."""
        self.state.cancelled = True
        if not self.state.delivery.is_replaying:
            self.state.stop()

    def _on_stuck(self, recorded: str, waiting: list[str]) -> None:
        if self.state.error is not None or self.state.closing:  # everything is being stopped
            return
        waits = ", ".join(map(repr, waiting)) or "nothing"
        self.state.report_mismatch(recorded, f"that {recorded!r} came next", f"waits for {waits}")
