"""The engine: starts, resumes, follows, forks and cancels runs over one journal."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from teamwright.agents.model.agent import Models
from teamwright.agents.protocol import Agent
from teamwright.errors import (
    JournalCorrupt,
    JournalError,
    JournalTooNew,
    NotResumable,
    RunIsLive,
    RunNotFound,
    UsageError,
)
from teamwright.history.cancel import cancel_batch
from teamwright.history.checkpoints import Checkpoint, check_checkpoint_name
from teamwright.history.history import RunHistory
from teamwright.history.record.recorded_reply import RecordedBodies
from teamwright.history.record.run_record import EFFECTS, RunRecord, check_record
from teamwright.journal.location import resolve_journal
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.bus import Bus
from teamwright.runtime.cancellation import GRACE
from teamwright.runtime.deleted_run import deleted_is_not_found
from teamwright.runtime.driver_lock import driver_lock
from teamwright.runtime.handle import Handle
from teamwright.runtime.redaction import Redactor
from teamwright.runtime.run import Beginning, Run
from teamwright.runtime.spending.rate_limiter import Limiters
from teamwright.runtime.steady_clock import steady_clock
from teamwright.runtime.webhooks.deliveries import Deliveries, Delivery
from teamwright.teams.team import Team, require_team
from teamwright.values.approvals import fitting
from teamwright.values.events.event import Delta, Event
from teamwright.values.events.run import Origin, RunAborted, RunCheckpoint
from teamwright.values.limits import Limits
from teamwright.values.messages import Message
from teamwright.values.names import check_name
from teamwright.values.people import Answer, Answered, Cancel, Intervention, Mark, Pause
from teamwright.values.results import FINAL, RunResult, RunSummary

LARGEST_TASK = 1024 * 1024
WATCH_EVERY = 0.08
NEW_SEED = partial(secrets.randbits, 48)


class Engine:
    """Runs teams. Use it as an async context manager; leaving it interrupts what still runs, which can be resumed.

    `journal` is `"memory"`, a path to a database, or a journal of one's own; by default the user's data folder.
    `wall` is read once per driver, after which time comes from `monotonic` (by default the event loop's).
    `grace` is how many seconds members have to end when they are stopped; one that takes longer is abandoned.
    """

    def __init__(
        self,
        journal: Journal | Path | str | None = None,
        *,
        wall: Callable[[], float] = time.time,
        seed: Callable[[], int] = NEW_SEED,
        monotonic: Callable[[], float] | None = None,
        grace: float = GRACE,
    ) -> None:
        self.journal = resolve_journal(journal)
        self.grace = grace
        self.bus = Bus()
        self.models = Models()
        self._limiters = Limiters()
        self._wall, self._seed, self._monotonic = wall, seed, monotonic
        self._live: dict[str, Run] = {}
        self._deliveries = Deliveries(self.journal, wall, self._append)
        self._launched = anyio.Event()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self.journal.open()
        self._stack.push_async_callback(self.journal.close)
        await self._stack.enter_async_context(self.models)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(self._watch)
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._tasks is not None
        for run in list(self._live.values()):
            run.interrupt()
        try:
            if exception[0] is None:
                await self._deliveries.close()
        finally:
            self._tasks.cancel_scope.cancel()
            self._tasks = None
            await self._stack.aclose()

    async def run(
        self,
        team: Agent,
        task: str,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        continues: str | None = None,
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a team on a task to its end. A run id that exists already is not started again."""
        handle = await self.start(team, task, run_id=run_id, history=history, continues=continues, limits=limits)
        return await handle.result()

    async def stream(
        self, team: Agent, task: str, *, run_id: str | None = None, limits: Limits | None = None
    ) -> AsyncGenerator[Event | Delta]:
        """Run a team and yield its events as they become durable, and pieces of replies as they come."""
        handle = await self.start(team, task, run_id=run_id, limits=limits)
        async for event in self.follow(handle.run_id):
            yield event
        await handle.result()

    async def start(
        self,
        team: Agent,
        task: str,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        continues: str | None = None,
        limits: Limits | None = None,
    ) -> Handle:
        """Start a run in the background; when this returns, the run is in the journal and others can find it.

        `limits` bound the whole run, over all its drivers, as those of teams do.
        """
        if len(task.encode("utf-8", "surrogatepass")) > LARGEST_TASK:
            raise UsageError(
                f"The task is larger than {LARGEST_TASK // 1024} KiB; put it into a file that a tool can read."
            )
        self._require_open()
        if run_id is not None and await self.journal.find(check_name("run", run_id)) is not None:
            return Handle(self, run_id)
        origin = None
        if continues is not None and history:
            raise UsageError("A run either continues another or is given a history, not both.")
        if continues is not None:
            before = await self.history(continues)
            history, origin = before.conversation(), Origin(run_id=continues, number=before.number, how="continue")
        identity = run_id or new_run_id(self._wall())
        if identity in self._live:
            return Handle(self, identity)
        made = require_team(team)
        if made.declared is None:  # a manifest has been checked
            made.check_fallbacks()
            made.check_keys()
        run = self._run(identity, made)
        handle = self._launch(run, Beginning(task, self._seed(), history, origin, limits, run_id is not None))
        try:
            await run.begun.wait()
        except anyio.get_cancelled_exc_class():
            handle.interrupt()
            raise
        return self._handed_out(handle)

    async def resume(self, run_id: str, *, team: Agent | None = None) -> RunResult:
        """Go on with a run that was interrupted or paused; `team` only if it is made of things without a name."""
        return await (await self.start_resume(run_id, team=team)).result()

    async def start_resume(self, run_id: str, *, team: Agent | None = None) -> Handle:
        """Resume a run in the background. Only one can drive it, and whoever comes second is told here."""
        self._require_open()
        async with AsyncExitStack() as lock:
            async with self._deliveries.recording:
                await lock.enter_async_context(driver_lock(self.journal, run_id))
            past = await self._past(run_id)
            if past.ended is not None:
                raise NotResumable(
                    f"Run {run_id!r} has ended ({past.ended.status}); go on from it with  teamwright runs fork {run_id}"
                    f"  or  teamwright run --continue {run_id}"
                )
            ending = past.cancelled or past.aborted
            if ending is None:
                made = require_team(team) if team is not None else await self._team_of(past)
                run = self._run(run_id, made, past, lock.pop_all())
                return self._handed_out(self._launch(run, None))
        await self.close(run_id, ending)
        return Handle(self, run_id)

    async def fork(
        self,
        run_id: str,
        *,
        at: int | str | Checkpoint | None = None,
        retry: bool = False,
        team: Agent | None = None,
        task: str | None = None,
        new_id: str | None = None,
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a new run from the record of another, up to `at`; what is unchanged is not paid again.

        `at` is a checkpoint, its name, a place whose last turn is meant, or the number of an event.
        `retry` goes back to just before the member that failed. Without `at`, a run that was stopped from outside (its
        budget, its time, a cancel) is forked from just before that. `limits` take the place of the run's limits of the
        same kind, and of those of its outermost team unless `team` is given.
        """
        handle = await self.start_fork(run_id, at=at, retry=retry, team=team, task=task, new_id=new_id, limits=limits)
        return await handle.result()

    async def start_fork(
        self,
        run_id: str,
        *,
        at: int | str | Checkpoint | None = None,
        retry: bool = False,
        team: Agent | None = None,
        task: str | None = None,
        new_id: str | None = None,
        limits: Limits | None = None,
    ) -> Handle:
        """Start such a run in the background."""
        history = await self.history(run_id)
        without: Collection[str] = ()
        if retry:
            cut, without = history.before_failure()
        else:
            cut = history.point(at) if at is not None else history.before_stop()
        identity = check_name("run", new_id) if new_id else new_run_id(self._wall())
        if new_id and await self.journal.find(new_id):
            raise UsageError(f"There is already a run {new_id!r}; choose another id for the fork.")
        made = require_team(team) if team is not None else await self._team_of(await self._past(run_id), limits)
        told = None if task is None else Redactor(made.secrets).text(task)
        batch = history.fork(identity, self._clock(history.record)(), cut, told, made, without, limits)
        async with deleted_is_not_found(self.journal, run_id):
            await self._append(batch)
        run = self._run(identity, made, await self._past(identity))
        return self._handed_out(self._launch(run, None))

    async def checkpoints(self, run_id: str) -> list[Checkpoint]:
        """The points of a run at which a fork can begin, in order."""
        return (await self.history(run_id)).checkpoints()

    async def checkpoint(self, run_id: str, name: str, *, by: str = "") -> Checkpoint:
        """Give the point that a run has come to a name, wherever it is driven."""
        check_checkpoint_name(name)
        sent = False
        while True:
            history = await self.history(run_id)
            if history.record.ended is not None:
                raise NotResumable(
                    f"Run {run_id!r} has ended, so nothing can be named there any more; its points have names already:"
                    f"  teamwright runs checkpoints {run_id}"
                )
            if run_id in self._live or await self.journal.is_driven(run_id):
                if not sent:
                    await self.journal.send(run_id, Mark(name=name, by=by))
                    sent = True
                if found := await self._marked(run_id, history.number, name):
                    return found
                continue
            with suppress(RunIsLive):
                async with driver_lock(self.journal, run_id):
                    fact = RunCheckpoint(name=name, by=by)
                    now = self._clock(history.record)()
                    await self._append(Batch([Event(run_id, history.number + 1, now, "", "", fact)], {}))
                    return (await self.checkpoints(run_id))[-1]

    async def _marked(self, run_id: str, after: int, name: str) -> Checkpoint | None:
        """Wait until the driver has set a checkpoint of this name; nothing, if it stops before."""
        async for item in self.follow(run_id, after):
            if isinstance(item, Event) and isinstance(item.fact, RunCheckpoint) and item.fact.name == name:
                return next(one for one in await self.checkpoints(run_id) if one.number == item.number)
        return None

    async def cancel(self, run_id: str, reason: str = "") -> RunResult:
        """End a run for good, wherever it is driven; one that nobody drives is ended here and now."""
        if reason:
            reason = self._redactor_of(await self.history(run_id)).text(reason)
        return await self._tell(run_id, Cancel(reason=reason))

    async def pause(self, run_id: str) -> RunResult:
        """Let calls under way finish and set the run down."""
        result = await self.result(run_id)
        if result.status not in (*FINAL, "running"):
            raise NotResumable(f"Run {run_id!r} is {result.status}: nobody drives it, so there is nothing to set down.")
        return await self._tell(run_id, Pause())

    async def answer(self, run_id: str, key: str, answer: Answer | str) -> None:
        """Answer a question that a run has asked; a run that is set down goes on when it is resumed.

        Until the run has taken an answer, a further one takes its place.
        """
        history = await self.history(run_id)
        question = history.require_question(key)
        given = answer if isinstance(answer, Answer) else Answer(text=answer)
        redactor = self._redactor_of(history)
        given = given.changed(
            text=redactor.text(given.text), data=redactor.value(given.data), by=redactor.text(given.by)
        )
        await self.journal.send(run_id, Answered(key=key, answer=fitting(question, key, given)))
        await self._deliver_inboxes()

    async def answers(self, run_id: str) -> dict[str, Answer]:
        """What lies in a run's inbox for questions that it has not been resumed to take."""
        asked = (await self.history(run_id)).questions()
        sent = [item.intervention for item in await self.journal.inbox(run_id)]
        return {one.key: one.answer for one in sent if isinstance(one, Answered) and one.key in asked}

    async def history(self, run_id: str) -> RunHistory:
        """Everything recorded of a run, for reading."""
        async with deleted_is_not_found(self.journal, run_id):
            return await RunHistory.load(self.journal, await self._events(run_id))

    async def _events(self, run_id: str, without: Collection[str] = ()) -> list[Event]:
        events = await self.journal.read(run_id, without=without)
        if not events:
            raise RunNotFound(run_id, [summary.id for summary in await self.journal.runs(200)])
        return events

    async def result(self, run_id: str) -> RunResult:
        """How a run ended or stands."""
        summary = await self.journal.find(run_id)
        return (await self.history(run_id)).result(summary.status if summary else "interrupted")

    async def runs(self, limit: int | None = None) -> list[RunSummary]:
        """All runs, newest first."""
        return await self.journal.runs(limit)

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Event | Delta]:
        """The run's events from the one after `after`: the past from the journal, then the present, without a gap."""
        present: deque[Event | Delta] = deque()
        arrived = anyio.Event()

        def listen(item: Event | Delta) -> None:
            nonlocal arrived
            if item.run_id == run_id:
                present.append(item)
                arrived.set()

        with self.bus.listening(listen):
            while True:
                for event in await self.journal.read(run_id, after):
                    after = event.number
                    yield event
                    if event.kind == "run.ended":
                        return
                if run_id not in self._live and not await self.journal.is_driven(run_id):
                    if not await self.journal.read(run_id, after, 1):
                        return
                    continue
                while run_id in self._live and not present:
                    arrived = anyio.Event()
                    with anyio.move_on_after(WATCH_EVERY):
                        await arrived.wait()
                while present:
                    item = present.popleft()
                    if isinstance(item, Delta):
                        yield item
                    elif item.number == after + 1:
                        after = item.number
                        yield item
                        if item.kind == "run.ended":
                            return
                if run_id not in self._live:
                    await anyio.sleep(WATCH_EVERY)

    def _require_open(self) -> TaskGroup:
        if self._tasks is None:
            raise UsageError("The engine is not open; use  async with Engine() as engine:")
        return self._tasks

    def _run(
        self,
        run_id: str,
        team: Team,
        past: RunRecord | None = None,
        lock: AbstractAsyncContextManager[object] | None = None,
    ) -> Run:
        clock = self._clock(past)
        return Run(run_id, team, self.journal, self.bus, clock, self._limiters, past, lock=lock, grace=self.grace)

    def _launch(self, run: Run, beginning: Beginning | None) -> Handle:
        handle = Handle(self, run.run_id, run, beginning)
        run.attended = True  # until whoever gets the handle could call `attend`
        self._live[run.run_id] = run
        self._launched.set()
        self._require_open().start_soon(handle.drive)
        return handle

    def _handed_out(self, handle: Handle) -> Handle:
        """The handle as it is returned: its owner can call `attend` before anything else happens."""
        asyncio.get_running_loop().call_soon(handle.leave_unless_attended)
        return handle

    def deliver(self, delivery: Delivery) -> None:
        """Tell a webhook in the background that a run waits; an engine that is being left starts nothing more."""
        if self._tasks is not None:
            self._deliveries.start(self._tasks, delivery)

    async def delivered(self) -> None:
        """Wait until no notice to a webhook is under way: each was taken, or given up after its last attempt."""
        await self._deliveries.settled()

    def forget(self, run_id: str) -> None:
        """A run is no longer driven here."""
        self._live.pop(run_id, None)

    async def until_nobody_drives(self, run_id: str) -> RunResult:
        """Wait; returns how the run stands then."""
        seen = 0
        while run_id in self._live or await self.journal.is_driven(run_id):
            async for item in self.follow(run_id, seen):
                seen = item.number if isinstance(item, Event) else seen
        return await self.result(run_id)

    async def _tell(self, run_id: str, intervention: Intervention) -> RunResult:
        result = await self.result(run_id)
        if result.status in FINAL:
            raise NotResumable(f"Run {run_id!r} has ended already ({result.status}).")
        await self.journal.send(run_id, intervention)
        result = await self.until_nobody_drives(run_id)
        if result.status in FINAL or not isinstance(intervention, Cancel):
            return result
        return await self.close(run_id, intervention)

    async def close(self, run_id: str, ending: Cancel | RunAborted) -> RunResult:
        """End a run that nobody drives, and that a person wants ended."""
        async with self._deliveries.recording:
            lock = AsyncExitStack()
            await lock.enter_async_context(driver_lock(self.journal, run_id))
        async with lock:
            inbox = await self.journal.inbox(run_id)
            history = await self.history(run_id)
            if history.record.ended is not None:  # it ended, or somebody else cancelled it, in the meantime
                return await self.result(run_id)
            now = self._clock(history.record)()
            await self._append(cancel_batch(history, ending, inbox[-1].id if inbox else 0, now))
        return await self.result(run_id)

    def _clock(self, past: RunRecord | None = None) -> Callable[[], float]:
        """A clock for one driver of a run, which begins no earlier than what is recorded of it."""
        return steady_clock(self._wall, self._monotonic, past.latest if past is not None else 0.0)

    async def _past(self, run_id: str) -> RunRecord:
        """What a replay needs: not the effects of turns that have ended, which are most of a long record."""
        async with deleted_is_not_found(self.journal, run_id):
            events = await self._events(run_id, without=EFFECTS)
            check_record(events, whole=False)
            past = RunRecord.of(events)
            for event in await self.journal.read(run_id, past.first_open_turn()):
                if event.kind in EFFECTS:
                    past.apply_effect(event)
            past.bodies = RecordedBodies(await self.journal.bodies(past.needed_bodies()))
            return past

    async def _team_of(self, past: RunRecord, limits: Limits | None = None) -> Team:
        """The team of a record; reading its files and importing its functions happens beside the event loop."""
        from teamwright.teams.load import source_under, team_from  # with the manifests, which most runs never need

        source = past.source()
        if limits is not None:
            source = source_under(source, limits)
        return await anyio.to_thread.run_sync(partial(team_from, source, self.models, recorded=True))

    def _redactor_of(self, history: RunHistory) -> Redactor:
        """What masks the secrets of a run that is driven elsewhere, or by nobody: even its inbox holds none."""
        from teamwright.manifests.secrets import secrets_of

        return Redactor(secrets_of(history.manifest))

    async def _append(self, batch: Batch) -> None:
        done = anyio.Event()
        failure: list[BaseException] = []

        def committed(error: BaseException | None) -> None:
            failure.extend([error] if error else [])
            done.set()

        self.journal.append(batch, committed)
        await done.wait()
        if failure:
            raise failure[0]

    async def _watch(self) -> None:
        """Bring in what others send to the runs that are driven here; without one, nothing is looked for."""
        while True:
            if not self._live:
                self._launched = anyio.Event()
                await self._launched.wait()
            with suppress(JournalError):  # a journal that is gone is told by whoever writes to it; here we look again
                await self.journal.changed(WATCH_EVERY)
                await self._deliver_inboxes()

    async def _deliver_inboxes(self) -> None:
        for run_id, run in list(self._live.items()):
            try:
                items = await self.journal.inbox(run_id, run.last_inbox_id)
            except (JournalCorrupt, JournalTooNew) as error:  # whoever waits for it to be taken must not wait for ever
                run.journal_failed(error)
                continue
            for item in items:
                run.receive(item)


def new_run_id(now: float) -> str:
    """A new id: sorts by time, and two in one second differ."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"


def run_sync(
    team: Agent,
    task: str,
    *,
    journal: Journal | Path | str | None = None,
    run_id: str | None = None,
    limits: Limits | None = None,
) -> RunResult:
    """Run a team from code that is not async."""

    async def main() -> RunResult:
        async with Engine(journal) as engine:
            return await engine.run(team, task, run_id=run_id, limits=limits)

    return anyio.run(main)
