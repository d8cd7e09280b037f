"""One run under one driver: from its first event, or from its record, to its ending.

Its first event says what the run starts with; a driver that resumes it takes that from the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from pydantic_core import to_json

from teamwright.agents.functions.imports import modules_of
from teamwright.errors import NotResumable, UsageError
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import Batch, Journal, driver_lock
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.context.context import RunContext
from teamwright.runtime.context.turn_outcome import check_scripts
from teamwright.runtime.context.workspace import read_patch, store_file
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.people.applied_interventions import apply_pending, refuse_unapplied
from teamwright.runtime.people.webhook import Delivery, Notice, Webhook
from teamwright.runtime.placement import (
    MakeBatch,
    ParentRun,
    Placement,
    inherit,
    notes_team_of,
    placed_fact,
    record_values,
    recorded_turn,
)
from teamwright.runtime.run_control import RunControl
from teamwright.runtime.run_request import RunInput, process_name
from teamwright.runtime.run_state import ReplayObserver, RunState
from teamwright.runtime.scope import Scope
from teamwright.runtime.tasks import CANCEL_GRACE, ContainedTask
from teamwright.teams.team import Team
from teamwright.values.events.run import (
    RUN_FORMAT,
    RunEnded,
    RunInterrupted,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
)
from teamwright.values.limits import SpendForecast
from teamwright.values.people import confirmation_key
from teamwright.values.text.secrets import without_secrets
from teamwright.values.turns.artifacts import Artifact, stored_content
from teamwright.values.turns.messages import History
from teamwright.values.turns.results import FOR_PEOPLE, Ending, RunResult, StopReason, ending_of
from teamwright.values.turns.turn import Failure, Turn


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run whose start is recorded: its outermost scope, and the turn of its team."""

    scope: Scope
    turn: Turn


class RunTimer:
    """The time that a run has a driver, which is paused while only a person's answer can unblock the run."""

    def __init__(self, state: RunState) -> None:
        self._state, self._driving_since = state, state.wall()
        self._paused_at: float | None = None
        self._seconds_waited = 0.0

    def pause_timer(self) -> None:
        """Pause the run's time, because only a person's answer can unblock it."""
        self._paused_at = self._state.wall()

    def resume_timer(self) -> None:
        if self._paused_at is not None:
            self._seconds_waited += self._state.wall() - self._paused_at
            self._state.record_wait("", self._paused_at)
            self._paused_at = None

    def seconds(self) -> float:
        """Return the time that the run had a driver, over all its drivers, without waiting for people."""
        now = self._state.wall() - self._driving_since - self._seconds_waited
        return max(0.0, self._state.record.scope_seconds("", 0.0) + now)


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
        driver: str = "",
        prompt_meter: PromptMeter | None = None,
    ) -> None:
        self.run_id, self._team, self._journal, self.driver = run_id, team, journal, driver
        self._lock = lock or driver_lock(journal, run_id)
        self._record = record or RunRecord()
        if record is None:
            team.check_start()
        self.control = RunControl(
            run_id, team, journal, bus, wall, limiters, self._record, grace=grace, prompt_meter=prompt_meter
        )
        self._state = self.control.state
        self._timer = RunTimer(self._state)
        self._attachments: tuple[Artifact, ...] = ()
        self._parent: ParentRun | None = None
        self.webhook_delivery: Delivery | None = None
        """The notice to send to a webhook once this driver has released the run."""

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
            received = [(item, await self.control.refusal_of(item)) for item in items]
            opening: asyncio.Future[OpenedRun] = asyncio.get_running_loop().create_future()
            root = self._start_root_task(opening)
            try:
                opened = self._open(run_input)
                opening.set_result(opened)
                for item, refusal in received:
                    self.control.receive(item, refusal)
            except BaseException:
                root.stop()
                raise
            with anyio.CancelScope(shield=True):  # the engine stops a run with `interrupt`
                with suppress(asyncio.CancelledError):  # which has stopped the root task already
                    await root.wait()
            return await self._finish(root, opened.scope)

    def enqueue(self, run_input: RunInput, queue: str, starts: float | None = None) -> Batch:
        """Return the first batch of a run that a worker of this queue will drive; nothing else is recorded here."""
        if queue and self._team.workspace is not None:
            raise UsageError(
                f"The team {self._team.name!r} works on files of this machine, so no worker of a queue can drive it;"
                " run it here, without a queue."
            )
        recorder = self._state.recorder
        recorder.held = True
        begin(self._state, self._team, run_input, "")
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
        with nullcontext() if declared is None else modules_of(declared.module_folder):
            state.root = ContainedTask(
                partial(self._run_team, opening),
                name=self.run_id,
                grace=state.grace,
                abandoned=state.abandon,
                interrupted=self.control.interrupt,
            )
        return state.root

    def _open(self, run_input: RunInput | None) -> OpenedRun:
        """Record that the run starts or is resumed."""
        state = self._state
        if run_input is not None:
            turn = begin(state, self._team, run_input, self.driver)
        else:
            turn = resume(state, self._team, self.driver)
            if self._parent is not None:
                self._parent.cancel_stopped()
        self._attachments = turn.attachments
        if self._record.start.commit:
            from teamwright.runtime.working_trees.member_trees import trees_of

            state.trees = trees_of(
                self.run_id, self._record, self._team, partial(read_patch, state), state.redactor.text
            )
        lane = state.delivery.open_lane()
        lane.timers = (self._timer,)
        scope = Scope(state, "", lane)
        if run_input is None and self._record.start.placed is not None:
            inherit(scope, turn, self._record)
        if self._record.start.confirm is None:
            self._open_budget(scope)
        return OpenedRun(scope, turn)

    def _open_budget(self, scope: Scope) -> None:
        """Apply the limits of the run, once they are certain: a person may lower them before the run begins."""
        state = self._state
        if state.interventions is not None:
            state.limits = state.interventions.raised(state.limits)
        if state.limits is not None:
            state.record_limits("", state.limits)
        scope.account = state.open_account("", state.limits, None)

    async def _confirm(self, scope: Scope, forecast: SpendForecast) -> RunResult | None:
        """Let a person confirm the forecast; returns the result of a run that may not begin, else `None`."""
        from teamwright.runtime.people.questions import confirm_run

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
        opened, forecast = opening.result(), self._record.start.confirm
        if forecast is not None and (refused := await self._confirm(opened.scope, forecast)) is not None:
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
        if self.control.is_over:  # stopped while its ending was being committed
            return await self.flush()
        if self.control.pause_reason is not None and not state.cancelled:
            return await self._record_pause(self.control.pause_reason)
        if state.closing or not state.cancelled:
            return await self._record_interruption()
        messages = tuple(scope.messages)
        if state.aborted is not None:
            return await self._end(ending_of(state.aborted.failure(messages), scope.usage))
        assert self.control.cancel_request is not None
        reason = self.control.cancel_request.reason or "cancelled"
        cancelled = Failure(member=self._team.name, error="cancelled", message=reason, messages=messages)
        return await self._end(ending_of(cancelled, scope.usage))

    @property
    def notes_team(self) -> str:
        """The outermost team, which the notes of agents belong to; that of the parent, in a child run."""
        started = self._record.started
        if started is None or started.placed is None:
            return self._team.name
        return notes_team_of(self._record) or self._team.name

    @property
    def has_begun(self) -> bool:
        """Whether any event of this driver is durable."""
        return self._state.recorder.last_durable > self._record.number

    async def _end(self, ending: Ending) -> RunResult:
        team, marks = self._team, self._record.charges.marks + self._state.marks
        if "scripted" in team.roster.kinds:
            ending = check_scripts(ending, team.name, team.roster.agents, marks)
        ending = ending.with_warnings(*self._record.budgets.warnings())
        if ending.status == "completed" and (ask := self._state.unreached_ask()):  # open when the record ended
            self._state.report_mismatch(ask, f"that {ask!r} was asked", "ended without asking it")
        if self._state.interventions is not None:
            refuse_unapplied(self._state)
        seconds = self._timer.seconds()
        recorder = self._state.recorder
        self.control.has_ended = self.control.is_over = True
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
        self.control.is_over = True
        waiting_for, resume_at = tuple(sorted(self.control.waiting_for)), self.control.resume_at
        event = recorder.add("", "", RunPaused(stop_reason=reason, waiting_for=waiting_for, resume_at=resume_at))
        await recorder.flush()
        webhook = Webhook.of(self._team.notify)
        if webhook is not None and reason in FOR_PEOPLE:
            notice = Notice.of(self.run_id, self._team.name, reason, event.number, self.control.waiting_for)
            self.webhook_delivery = Delivery(event, webhook, to_json(notice.to_json()), self._state.redactor.text)

    async def _record_interruption(self) -> None:
        """Record that the driver was stopped, or that the run waits for another one, and flush what is recorded."""
        queue = self.control.next_queue
        if not self._state.recorder.held:
            self.control.is_over = True
            self._state.recorder.add("", "", RunInterrupted() if queue is None else RunQueued(queue=queue))
            await self.flush()

    async def flush(self) -> None:
        """Wait, shielded from cancellation, until everything recorded so far is durable."""
        with anyio.CancelScope(shield=True):
            await self._state.recorder.flush()


def begin(state: RunState, team: Team, given: RunInput, driver: str) -> Turn:
    """Record the start of a new run; returns the turn of its team."""
    recorder, redactor, record = state.recorder, state.redactor, state.record
    task = redactor.text(given.task)
    history = [one.changed(content=redactor.text(one.content)) for one in given.history]
    attachments = tuple(store_file(state, one) for one in given.attachments)
    new = {path: recorder.store(stored_content(content)) for path, content in given.files.items()}
    placed, turn = None, Turn(task, History.of(history), attachments=attachments)
    if given.placed is not None:
        placed, turn = placed_fact(recorder, given.placed), given.placed.turn
        attachments = turn.attachments
    started = RunStarted(
        team=team.name,
        task=recorder.store(task),
        manifest=recorder.store(without_secrets(team.declaration())),
        seed=given.seed,
        strategies=team.strategies(),
        origin=given.origin,
        history=recorder.store_messages(history),
        limits=given.limits.bounds if given.limits else None,
        format=RUN_FORMAT,
        conversation=given.conversation,
        attachments=attachments,
        confirm=given.confirm,
        files=new or dict(team.stored_files),
        code=given.code or team.code,
        budget=given.claim.budget if given.claim else "",
        placed=placed,
        driver=driver,
        commit=given.commit,
    )
    recorder.claim = given.claim
    if given.confirmation is not None:
        state.answers[confirmation_key(team.name)] = given.confirmation
    event = recorder.add("", "", started)
    record.started = started
    record.workspace.add_attachments(started)
    record.started_at = state.now = event.time  # as recorded, so that a resumed run starts at the same instant
    record.driver_time.apply_change(event)
    state.seed, state.limits, state.task, state.history = given.seed, given.limits, task, turn.history
    return turn


def resume(state: RunState, team: Team, driver: str) -> Turn:
    """Record that a run is resumed; returns the turn of its team. Raises `NotResumable` if it can't be."""
    started, record = require_resumable(state, team), state.record
    state.seed, state.now = started.seed, record.started_at
    state.limits = record.limits()
    record.charge_open_turns()
    state.recorder.held = state.delivery.is_replaying
    state.recorder.add("", "", RunResumed(driver=driver or process_name(), folder=team.moved_to))
    if record.interventions:
        apply_pending(state, team)
    state.task = str(record.bodies.value(started.task))
    state.history = History.of(record.bodies.messages(started.history))
    return recorded_turn(record, state.task, state.history)


def require_resumable(state: RunState, team: Team) -> RunStarted:
    """Return the start of a run; raises `NotResumable` if this program or its strategies can't go on with it."""
    started, run_id = state.record.started, state.run_id
    if started is None:
        raise NotResumable(f"Run {run_id!r} has no start event in the journal.")
    if started.format > RUN_FORMAT:
        raise NotResumable(
            f"Run {run_id!r} was begun by a newer version of Teamwright (run format {started.format}; this"
            f" version knows {RUN_FORMAT}); update Teamwright to resume it."
        )
    now = team.strategies()
    for name, version in started.strategies.items():
        if now.get(name, version) != version:
            raise NotResumable(
                f"Run {run_id!r} began with version {version} of the strategy {name!r}, and this is version"
                f" {now[name]}; install the older one, or go on with  teamwright runs fork {run_id}"
            )
    return started
