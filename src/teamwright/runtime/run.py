"""One run under one driver: from its first event, or from its record, to its ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from pydantic_core import to_json

from teamwright.agents.functions.imports import modules_of
from teamwright.agents.tools.protocol import Dependencies
from teamwright.errors import JournalError, NotResumable
from teamwright.history.ending import Ending, abort_failure, ending_of
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import Batch, InboxItem, Journal, driver_lock
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.budget.tenant_budgets import TenantBudgets
from teamwright.runtime.context.context import RunContext
from teamwright.runtime.context.timers import Deadline
from teamwright.runtime.context.turn_outcome import check_scripts
from teamwright.runtime.context.workspace import store_file
from teamwright.runtime.driver.actions import ActionLedger
from teamwright.runtime.driver.cancellation import CANCEL_GRACE, ContainedTask
from teamwright.runtime.driver.delivery import OrderedDelivery
from teamwright.runtime.driver.recorder import Recorder
from teamwright.runtime.driver.redaction import Redactor
from teamwright.runtime.people.intervention_points import apply_pending, raised_limits, receive_steer, refuse_unapplied
from teamwright.runtime.people.webhook import Notice, Webhook
from teamwright.runtime.people.webhook_deliveries import Delivery
from teamwright.runtime.placement import (
    MakeBatch,
    ParentRun,
    Placement,
    inherit,
    notes_team_of,
    placed_fact,
    record_values,
    recorded_turn,
    require_no_placement,
)
from teamwright.runtime.relay import Bus
from teamwright.runtime.run_request import RunInput, process_name
from teamwright.runtime.run_state import ReplayObserver, RunState
from teamwright.runtime.scope import Scope
from teamwright.teams.preflight import known_secrets
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import (
    RUN_FORMAT,
    RunCheckpoint,
    RunEnded,
    RunInterrupted,
    RunIntervened,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
)
from teamwright.values.limits import SpendForecast
from teamwright.values.people import (
    ActionClaim,
    Answered,
    Cancel,
    Mark,
    Pause,
    Question,
    Reason,
    Undo,
    confirmation_key,
)
from teamwright.values.text.secret_names import without_secrets
from teamwright.values.turns.artifacts import Artifact, stored_content
from teamwright.values.turns.messages import History
from teamwright.values.turns.results import FOR_PEOPLE, RunResult, StopReason
from teamwright.values.turns.turn import Failure, Turn

PAUSE_REASONS: dict[Reason, StopReason] = {
    "failure": "retries_exhausted", "approval": "approval", "question": "person", "pause": "pause",
}  # fmt: skip
"""The stop reason of a run that pauses for people, by the kind of question; the first kind that is open decides."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run whose start is recorded: its outermost scope, and the turn of its team."""

    scope: Scope
    turn: Turn


class Run:
    """Drives a team to its ending, under the driver lock, which the caller may hold already. Call `drive` once."""

    def __init__(
        self,
        run_id: str,
        team: Team,
        journal: Journal,
        bus: Bus,
        wall: Callable[[], float],
        limiters: RateLimiters,
        record: RunRecord | None = None,
        *,
        lock: AbstractAsyncContextManager[object] | None = None,
        grace: float = CANCEL_GRACE,
    ) -> None:
        self.run_id, self._team, self._journal, self._wall = run_id, team, journal, wall
        self._lock = lock or driver_lock(journal, run_id)
        self._record = record or RunRecord()
        if record is None:
            team.check_start()
        self._pause_reason: StopReason | None = None
        self._next_queue: str | None = None
        self._is_over = False
        self._cancel_request: Cancel | None = None
        self._ended = False
        self._waiting_for: dict[str, Question] = {}
        self._attachments: tuple[Artifact, ...] = ()
        self._forecast: SpendForecast | None = None
        self._driving_since = wall()
        self._paused_at: float | None = None
        self._seconds_waited = 0.0
        self.interactive, self.driver = False, ""
        self.webhook_delivery: Delivery | None = None
        """The notice to send to a webhook once this driver has released the run."""
        self.budget = record.start.budget if record is not None and record.started is not None else ""
        """The tenant's budget that the run draws on; empty if it draws on none."""
        self._tenants = TenantBudgets(journal)
        self.begun = asyncio.Event()
        """Set when the run is in the journal, or when it is certain that it will not be."""
        self._state = state = RunState(
            run_id=run_id,
            seed=0,
            record=self._record,
            recorder=Recorder(journal, run_id, self._record.number, wall, self._publish, self.journal_failed),
            delivery=OrderedDelivery(self._record.deliveries.due, self._on_stuck, self._on_caught_up),
            redactor=Redactor(known_secrets(team)),
            bus=bus,
            wall=wall,
            read_bodies=journal.bodies,
            limiters=limiters,
            store=self._record.workspace.store(self._record.bodies),
            call_returned=self._on_call_returned,
            grace=grace,
            cancel=self._cancel,
            actions=ActionLedger(journal, run_id, self._record),
        )
        state.delivery.when_idle = self._on_idle
        self.last_inbox_id = 0
        self._parent: ParentRun | None = None

    def share_prompt_meter(self, meter: PromptMeter) -> None:
        """Use what other runs of the engine have counted and learnt about the prompts of models."""
        self._state.prompt_meter = meter

    def place_branches(self, placement: Placement, make_batch: MakeBatch) -> None:
        """Let teams place their branches on workers, each as a child run."""
        self._parent = ParentRun(self._state, self._team, placement, make_batch)
        self._state.place = self._parent.place

    def observe(self, observer: ReplayObserver) -> None:
        """Let a observer look at the turns and calls of a replay."""
        self._state.observer = observer

    async def drive(self, run_input: RunInput | None = None) -> RunResult | None:
        """Start or resume the run and drive it to its end; returns `None` if it is paused or interrupted first."""
        async with self._lock:
            may_have_inbox = run_input is None or run_input.named
            items = await self._journal.inbox(self.run_id) if may_have_inbox else []
            received = [(item, await self.refusal_of(item)) for item in items]
            opening: asyncio.Future[OpenedRun] = asyncio.get_running_loop().create_future()
            root = self._start_root_task(opening)
            try:
                opened = self._open(run_input)
                opening.set_result(opened)
                for item, refusal in received:
                    self.receive(item, refusal)
            except BaseException:
                root.stop()
                raise
            with anyio.CancelScope(shield=True):  # the engine stops a run with `interrupt`
                with suppress(asyncio.CancelledError):  # which has stopped the root task already
                    await root.wait()
            return await self._finish(root, opened.scope)

    def enqueue(self, run_input: RunInput, queue: str, starts: float | None = None) -> Batch:
        """Return the first batch of a run that a worker of this queue will drive; nothing else is recorded here."""
        recorder = self._state.recorder
        recorder.held, self.driver = True, ""
        self._begin(run_input)
        if run_input.placed is not None:
            record_values(recorder, run_input.placed)
        recorder.add("", "", RunQueued(queue=queue, starts=starts))
        return recorder.take_held()

    def _start_root_task(self, opening: asyncio.Future[OpenedRun]) -> ContainedTask[RunResult | None]:
        """Start the root task of the run, which ends the run unless something stops it first.

        It begins after this event-loop iteration, in which the run is opened, so that the first events become one
        batch. All members work inside it, so a cancellation of the driver always arrives in `drive`, as an
        interruption; and their code finds the modules beside the manifest, whether the run is driven or replayed.
        """
        state, declared = self._state, self._team.declared
        state.driver = asyncio.current_task()
        with modules_of(declared.module_folder if declared is not None else ""):
            state.root = ContainedTask(
                partial(self._run_team, opening),
                name=self.run_id,
                grace=state.grace,
                abandoned=state.abandon,
                interrupted=self.interrupt,
            )
        return state.root

    def _open(self, run_input: RunInput | None) -> OpenedRun:
        """Record that the run starts or is resumed."""
        state = self._state
        turn = self._begin(run_input) if run_input else self._resume()
        self._attachments = turn.attachments
        lane = state.delivery.open_lane()
        lane.timers = (self,)
        scope = Scope(state, "", lane)
        if run_input is None and self._record.start.placed is not None:
            inherit(scope, turn, self._record)
        if self._forecast is None:
            self._open_budget(scope)
        return OpenedRun(scope, turn)

    def _open_budget(self, scope: Scope) -> None:
        """Apply the limits of the run, once they are certain: a person may lower them before the run begins."""
        state = self._state
        state.limits = raised_limits(state, state.limits)
        if state.limits is not None:
            state.record_limits("", state.limits)
        scope.account = state.open_account("", state.limits, None)

    async def _confirm(self, scope: Scope, forecast: SpendForecast) -> RunResult | None:
        """Let a person confirm the forecast; returns the result of a run that may not begin, else `None`."""
        from teamwright.runtime.people.questions import confirm_run  # most runs begin without being confirmed

        decision = await confirm_run(scope, self._team.name, forecast, self._state.limits)
        if not decision.may_begin:
            text = f"it was not to begin: {decision.reason}"
            refused = Failure(member=self._team.name, error="cancelled", message=text)
            return await self._end(ending_of(refused, scope.usage))
        self._state.limits = decision.limits
        self._open_budget(scope)
        return None

    async def _run_team(self, opening: asyncio.Future[OpenedRun]) -> RunResult | None:
        """Let the team answer and end the run with its reply; returns `None` when the run is being stopped."""
        if self._state.stopped:
            return None
        opened = opening.result()
        if self._forecast is not None and (refused := await self._confirm(opened.scope, self._forecast)) is not None:
            return refused
        member = self._team if self._record.start.placed is None else self._team.sole_member
        reply = await RunContext(opened.scope).ask(member, opened.turn, key=member.name)
        if self._state.closing or self._state.aborted is not None:
            return None
        return await self._end(ending_of(reply, opened.scope.usage))

    async def _finish(self, root: ContainedTask[RunResult | None], scope: Scope) -> RunResult | None:
        """Return the result of a run whose root task has ended or was abandoned, or record why there is none."""
        state = self._state
        if state.error is not None:
            raise state.error
        if not root.stopping or not root.has_failed:
            result = root.result()
            if result is not None:
                return result
        if self._is_over:  # stopped while its ending was being committed
            return await self.flush()
        if self._pause_reason is not None and not state.cancelled:
            return await self._record_pause(self._pause_reason)
        if state.closing or not state.cancelled:
            return await self._record_interruption()
        messages = tuple(scope.messages)
        if state.aborted is not None:
            return await self._end(ending_of(abort_failure(state.aborted, messages), scope.usage))
        assert self._cancel_request is not None
        reason = self._cancel_request.reason or "cancelled"
        cancelled = Failure(member=self._team.name, error="cancelled", message=reason, messages=messages)
        return await self._end(ending_of(cancelled, scope.usage))

    @property
    def notes_team(self) -> str:
        """The outermost team, which the notes of agents belong to; that of the parent, in a child run."""
        return notes_team_of(self._record) or self._team.name

    @property
    def has_begun(self) -> bool:
        """Whether any event of this driver is durable."""
        return self._state.recorder.last_durable > self._record.number

    @property
    def last_durable(self) -> int:
        """The number of the last event that is durable."""
        return self._state.recorder.last_durable

    @property
    def pending_cancel(self) -> Cancel | None:
        """A cancel that arrived while the driver was stopping and has not been carried out."""
        return self._cancel_request if self._state.closing and not self._ended else None

    def _publish(self, events: Sequence[Event]) -> None:
        """Publish the first durable events; from now on, other processes can find the run."""
        self.begun.set()
        self._state.recorder.publish = self._state.bus.publish
        self._state.bus.publish(events)

    @property
    def redactor(self) -> Redactor:
        """What masks the secrets of the run's team."""
        return self._state.redactor

    def check_no_placement(self) -> None:
        """Raise `UsageError` if a team places branches on workers, for an engine that can't."""
        require_no_placement(self._team.roster.teams)

    def check_dependencies(self, dependencies: Dependencies) -> None:
        """Raise `UsageError` if the engine lacks what the agents of the team declare to need."""
        dependencies.require(self._team.roster.agents)

    def _begin(self, run_input: RunInput) -> Turn:
        recorder, team = self._state.recorder, self._team
        self._state.seed = run_input.seed
        redactor = self._state.redactor
        task = redactor.text(run_input.task)
        history = [one.changed(content=redactor.text(one.content)) for one in run_input.history]
        attachments = tuple(store_file(self._state, one) for one in run_input.attachments)
        new = {path: recorder.store(stored_content(content)) for path, content in run_input.files.items()}
        placed, turn = None, Turn(task, History.of(history), attachments=attachments)
        if run_input.placed is not None:
            placed, turn = placed_fact(recorder, run_input.placed), run_input.placed.turn
            attachments = turn.attachments
        started = RunStarted(
            team=team.name,
            task=recorder.store(task),
            manifest=recorder.store(without_secrets(team.declaration())),
            seed=run_input.seed,
            strategies=team.strategies(),
            origin=run_input.origin,
            history=recorder.store_messages(history),
            limits=run_input.limits.bounds if run_input.limits else None,
            format=RUN_FORMAT,
            conversation=run_input.conversation,
            attachments=attachments,
            confirm=run_input.confirm,
            files=new or dict(team.stored_files),
            code=run_input.code or team.code,
            budget=run_input.claim.budget if run_input.claim else "",
            placed=placed,
            driver=self.driver,
        )
        recorder.claim, self.budget = run_input.claim, started.budget
        self._forecast = run_input.confirm
        if run_input.confirmation is not None:
            self._state.answers[confirmation_key(team.name)] = run_input.confirmation
        event = recorder.add("", "", started)
        self._record.started = started
        self._record.workspace.add_attachments(started)
        self._state.limits = run_input.limits
        # As recorded, so that a resumed run starts at the same instant.
        self._record.started_at = self._state.now = event.time
        self._state.task = task
        self._record.driver_time.apply_change(event)
        self._state.history = turn.history
        return turn

    def _resume(self) -> Turn:
        started = self._record.started
        if started is None:
            raise NotResumable(f"Run {self.run_id!r} has no start event in the journal.")
        if started.format > RUN_FORMAT:
            raise NotResumable(
                f"Run {self.run_id!r} was begun by a newer version of Teamwright (run format {started.format}; this"
                f" version knows {RUN_FORMAT}); update Teamwright to resume it."
            )
        now = self._team.strategies()
        for name, version in started.strategies.items():
            if now.get(name, version) != version:
                raise NotResumable(
                    f"Run {self.run_id!r} began with version {version} of the strategy {name!r}, and this is version"
                    f" {now[name]}; install the older one, or go on with  teamwright runs fork {self.run_id}"
                )
        state = self._state
        state.seed, state.now = started.seed, self._record.started_at
        state.limits, self._forecast = self._record.limits(), started.confirm
        self._record.charge_open_turns()
        state.recorder.held = state.delivery.is_replaying
        state.recorder.add("", "", RunResumed(driver=self.driver or process_name(), folder=self._team.moved_to))
        if self._record.interventions:
            apply_pending(state, self._team)
        state.task = str(self._record.bodies.value(started.task))
        state.history = History.of(self._record.bodies.messages(started.history))
        if self._parent is not None:
            self._parent.cancel_stopped()
        return recorded_turn(self._record, state.task, state.history)

    async def _end(self, ending: Ending) -> RunResult:
        team, marks = self._team, self._record.charges.marks + self._state.marks
        ending = check_scripts(ending, team.name, team.roster.agents, marks)
        ending = ending.with_warnings(*self._record.budgets.warnings())
        if ending.status == "completed" and (ask := self._state.unreached_ask()):  # open when the record ended
            self._state.report_mismatch(ask, f"that {ask!r} was asked", "ended without asking it")
        refuse_unapplied(self._state)
        seconds = self._seconds()
        recorder = self._state.recorder
        self._ended = self._is_over = True
        self._state.closing = True  # also stops tasks that a strategy has created itself
        recorder.add(
            "",
            "",
            RunEnded(
                status=ending.status,
                stop_reason=ending.stop_reason,
                output=None if ending.output is None else recorder.store(ending.output),
                data=None if ending.data is None else recorder.store_unchanged(ending.data),
                usage=ending.usage,
                warnings=ending.warnings,
                seconds=seconds,
                error=ending.failure.error if ending.failure else None,
                message=ending.failure.message if ending.failure else None,
                member=ending.failure.member if ending.failure else None,
            ),
        )
        await recorder.flush(at_once=True)
        return ending.result(self.run_id, self._record.started_at, seconds, self._attachments)

    async def _record_pause(self, reason: StopReason) -> None:
        """Record that the run is paused, and prepare the notice to a webhook if people are needed."""
        recorder = self._state.recorder
        self._is_over = True
        event = recorder.add("", "", RunPaused(stop_reason=reason, waiting_for=tuple(sorted(self._waiting_for))))
        await recorder.flush()
        webhook = Webhook.of(self._team.notify)
        if webhook is not None and reason in FOR_PEOPLE:
            notice = Notice.of(self.run_id, self._team.name, reason, event.number, self._waiting_for)
            self.webhook_delivery = Delivery(event, webhook, to_json(notice.to_json()), self._state.redactor.text)

    async def _record_interruption(self) -> None:
        """Record that the driver was stopped, or that the run waits for another one, and flush what is recorded."""
        queue = self._next_queue
        if not self._state.recorder.held:
            self._is_over = True
            self._state.recorder.add("", "", RunInterrupted() if queue is None else RunQueued(queue=queue))
            await self.flush()

    def is_past_deadline(self, seconds: float) -> bool:
        """Whether a deadline passed more than `seconds` ago without the event loop acting on it."""
        return any(
            isinstance(part, Deadline) and part.is_overdue(seconds) for part in tuple(self._state.open_resources)
        )

    def interrupt(self) -> None:
        """Stop driving; the run can be resumed."""
        self._state.closing = True
        self._state.stop()

    def hand_back(self, queue: str) -> None:
        """Stop driving once in-flight calls have finished; the run then waits in this queue, unless a person pauses."""
        if not self._state.pausing:
            self._next_queue, self._state.pausing = queue, True
        if self._state.delivery.is_replaying:
            self.interrupt()
        self._check_pause()

    async def flush(self) -> None:
        """Wait, shielded from cancellation, until everything recorded so far is durable."""
        with anyio.CancelScope(shield=True):
            await self._state.recorder.flush()

    async def refusal_of(self, item: InboxItem) -> str | None:
        """Return why the tenant's budget has no room for what an inbox item raises; reserve it if it has."""
        if not self.budget or item.id <= max(self.last_inbox_id, self._record.last_inbox_item):
            return None
        return await self._tenants.refusal_of(self.run_id, self.budget, item)

    def receive(self, item: InboxItem, refusal: str | None = None) -> None:
        """Act on an inbox item once; one that arrives after the run's end or pause stays in the inbox.

        An intervention is refused for the reason `refusal`, if there is one.
        """
        if self._is_over or item.id <= self.last_inbox_id:
            return
        self.last_inbox_id = item.id
        state = self._state
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
                    self._cancel_request = cancel
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

    def set_interactive(self, interactive: bool) -> None:
        """Wait for answers in place, or pause once only an answer can unblock the run."""
        self.interactive = interactive
        if not interactive:
            self._state.delivery.check_idle()

    def pause_timer(self) -> None:
        """Pause the run's time, because only a person's answer can unblock it."""
        self._paused_at = self._wall()

    def resume_timer(self) -> None:
        """Resume the run's time."""
        if self._paused_at is not None:
            self._seconds_waited += self._wall() - self._paused_at
            self._state.record_wait("", self._paused_at)
            self._paused_at = None

    def _on_call_returned(self) -> None:
        self._check_pause()
        if self._state.questions:
            self._state.delivery.check_idle()

    def _check_pause(self) -> None:
        """Pause the run if that was requested and no call is in flight."""
        state = self._state
        in_flight = any(not call.goes_on for call in state.open_calls.values())
        if not state.pausing or in_flight or state.delivery.is_replaying:
            return
        if self._next_queue is None:
            self._pause("pause")
        elif not state.closing:
            state.closing = True
            asyncio.get_running_loop().call_soon(state.stop)

    def _on_idle(self) -> None:
        """Pause the run if every branch waits for people and the run is not interactive."""
        if self._state.is_waiting_for_people and not self.interactive:
            reasons = {waiting.question.reason for waiting in self._state.questions.values()}
            self._pause(next(stop for reason, stop in PAUSE_REASONS.items() if reason in reasons))

    def _pause(self, reason: StopReason) -> None:
        if self._pause_reason or self._state.closing or self._state.cancelled:
            return
        self._pause_reason = reason
        self._waiting_for = {key: waiting.question for key, waiting in self._state.questions.items()}
        self._state.closing = True
        asyncio.get_running_loop().call_soon(self._state.stop)

    def _on_caught_up(self) -> None:
        if self._state.closing:  # a driver that stops during replay records nothing
            return
        self._state.recorder.release()
        self._check_pause()
        if self._state.cancelled:
            self._state.stop()

    def _cancel(self) -> None:
        """End the run, after what is recorded has been replayed, so that no recorded message is lost."""
        self._state.cancelled = True
        if not self._state.delivery.is_replaying:
            self._state.stop()

    def _on_stuck(self, recorded: str, waiting: list[str]) -> None:
        if self._state.error is not None or self._state.closing:  # everything is being stopped
            return
        waits = ", ".join(map(repr, waiting)) or "nothing"
        self._state.report_mismatch(recorded, f"that {recorded!r} came next", f"waits for {waits}")

    def journal_failed(self, error: JournalError) -> None:
        """Stop driving and leave the record as it is, because the journal can't be used for this run."""
        self._state.abort(error)

    def _seconds(self) -> float:
        """Return the time that the run had a driver, over all its drivers, without waiting for people."""
        now = self._wall() - self._driving_since - self._seconds_waited
        return max(0.0, self._record.scope_seconds("", 0.0) + now)
