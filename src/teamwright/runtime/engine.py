"""The engine starts, resumes and forks runs over one journal. `engine.runs` reads and controls recorded runs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, Unpack

import anyio
from msgspec.structs import replace

from teamwright.agents.constructor_arguments import check_number, checked_call, listed, value_of
from teamwright.errors import NotResumable, UsageError
from teamwright.journal.location import resolve_journal
from teamwright.journal.protocol import commit, driver_lock
from teamwright.runtime.recorded.reader import deleted_is_not_found, read_record, read_team
from teamwright.runtime.run_request import (
    FORK_OPTIONS,
    RUN_OPTIONS,
    ConfirmRequest,
    ForkOptions,
    RunInput,
    RunOptions,
    RunRequest,
    check_first,
    check_start,
    check_task,
    new_run_id,
    new_seed,
    read_files,
)
from teamwright.teams.team import require_team
from teamwright.values.events.run import Origin
from teamwright.values.limits import Limits
from teamwright.values.names import check_name, check_run_id

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.agents.attachments import AttachmentLike
    from teamwright.history.recorded_asks import Texts
    from teamwright.history.run_history import Checkpoint
    from teamwright.journal.protocol import Batch, Journal
    from teamwright.runtime.budget.rate_limiter import SharedLimits
    from teamwright.runtime.handle import Handle
    from teamwright.runtime.placement import Placement
    from teamwright.runtime.recorded.conversations import Conversations
    from teamwright.runtime.recorded.runs import Runs
    from teamwright.runtime.transport import Transport
    from teamwright.values.events.event import Delta, Event
    from teamwright.values.turns.results import RunResult


class Engine:
    """Runs teams. Leaving its `async with` block, or `close`, interrupts running runs, which can be resumed.

    Where a block does not fit, as in a notebook, call `open` and `close`: any task of the same event loop may.

    The engine drives runs; `runs` reads, follows, answers, pauses and cancels them, in whichever process they are
    driven. `journal` is `"memory"`, a path to a database, or a `Journal`; by default a database in the user's data
    folder. `wall` is read once per driver, after which time comes from `monotonic` (by default the event loop's).
    `grace` is how many seconds cancelled members have to end; one that takes longer is abandoned. `deps` are objects,
    such as a database, that tools get from their context by type: `ctx.dep(Database)`. `shared` are limits that
    several engines keep together; without it, each engine keeps its own. `transport` carries live text between
    processes: the URL of a Redis server, by default that of `TEAMWRIGHT_REDIS`, or a `Transport`, which stays open.
    `placement` lets workers drive the branches that teams place on them; with `"here"` they stay in the run, as in a
    simulation. `otlp` is the address of a receiver of traces, such as `http://localhost:4318`.
    """

    @checked_call("engine")
    def __init__(
        self,
        journal: Journal | Path | str | None = None,
        *,
        wall: Callable[[], float] = time.time,
        seed: Callable[[], int] = new_seed,
        monotonic: Callable[[], float] | None = None,
        grace: float | None = None,
        deps: Sequence[object] = (),
        shared: SharedLimits | None = None,
        transport: Transport | str | None = None,
        placement: Placement | Literal["here"] | None = None,
        otlp: str | None = None,
    ) -> None:
        # What drives runs loads with the first engine, so that importing the class is cheap.
        from teamwright.runtime.handle import Driver
        from teamwright.runtime.recorder import steady_clock

        for name, clock in {"wall": wall, "seed": seed, "monotonic": monotonic}.items():
            if not callable(clock) and (name != "monotonic" or clock is not None):
                raise UsageError(f"The engine: {name} must be a function without arguments, and is {clock!r}.")
        if grace is not None:
            check_number("The engine", "grace", grace)
        self.journal = resolve_journal(journal)
        self._wall, self._seed = wall, seed
        self.driver = Driver(
            self.journal,
            wall,
            partial(steady_clock, wall, monotonic),
            grace=grace,
            deps=tuple(listed("The engine", "deps", deps)),
            shared=shared,
            transport=transport,
            placement=placement,
            otlp=otlp,
        )
        self.bus, self.models = self.driver.bus, self.driver.models

    @cached_property
    def runs(self) -> Runs:
        """The recorded runs of the journal, in whichever process they are driven."""
        return self.driver.runs

    @cached_property
    def conversations(self) -> Conversations:
        """The conversations of the journal: runs under one name, each of which continues the one before."""
        from teamwright.runtime.recorded.conversations import Conversations

        return Conversations(self.journal, self.runs)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.driver.close(wait=exception[0] is None)

    async def open(self) -> Self:
        """Open the engine, and return it. It may be opened again after it was closed."""
        await self.driver.open()
        return self

    async def close(self) -> None:
        """Interrupt running runs and close the engine; does nothing if it is not open."""
        await self.driver.close(wait=True)

    @checked_call("run", RUN_OPTIONS, acts=True)
    async def run(self, team: Agent, task: str, **options: Unpack[RunOptions]) -> RunResult:
        """Run a team on a task to its end. If a run with this id exists, return its result and start nothing.

        Raises `RunExists` if the run of this id has another team or task.
        """
        handle = await self.begin(RunRequest(team, task, **options))
        return await handle.result()

    @checked_call("run", RUN_OPTIONS, acts=True)
    async def stream(self, team: Agent, task: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event | Delta]:
        """Run a team and yield its events as they become durable, and pieces of replies as they arrive."""
        handle = await self.begin(RunRequest(team, task, **options))
        async for event in self.runs.follow(handle.run_id):
            yield event
        await handle.result()

    @checked_call("run", RUN_OPTIONS, acts=True)
    async def start(self, team: Agent, task: str, **options: Unpack[RunOptions]) -> Handle:
        """Start a run in the background. When this returns, the run is in the journal and visible to other processes.

        Files of `attachments` are read now; the run never reads them again.
        """
        return await self.begin(RunRequest(team, task, **options))

    async def begin(self, request: RunRequest, *, new_id: str = "") -> Handle:
        """Start the run that is asked for, as `new_id` if it names none; one that exists is not started again."""
        request = request.checked()
        self.driver.require_open()
        if request.run_id is not None and await self.journal.find(check_name("run", request.run_id)) is not None:
            return await self._existing(request.run_id, request)
        check_first(request, request.continues)
        if request.conversation is None:
            return await self._start(request, new_id)
        async with self.conversations.next_turn(request.conversation, request.continues) as previous_turn:
            check_first(request, previous_turn)
            return await self._start(replace(request, continues=previous_turn), new_id)

    async def _start(self, new: RunRequest, new_id: str) -> Handle:
        origin, history, made, continues = None, new.history, require_team(new.team), new.continues
        if continues is not None:
            previous = await self.runs.history(continues)
            history = previous.conversation()
            origin = Origin(run_id=continues, number=previous.number, how="continue")
        identity = new.run_id or new_id or new_run_id(self._wall())
        if (live := self.driver.live.get(identity)) is not None:
            await live.begun.wait()
            return await self._existing(identity, new if new.conversation is None else replace(new, continues=None))
        files = await read_files(made, new.attachments, continues=continues is not None)
        run = self.driver.new_run(identity, made)
        self.driver.dependencies.require(made.roster.agents)
        bounds = new.limits, made.policy.limits
        claim = None if new.budget is None else await self.driver.tenants.claim(new.budget, *bounds)
        forecast, answer = await ConfirmRequest(new.confirm).forecast_and_answer(
            self.journal, made, new.task, new.limits, files[len(made.attachments) if continues is None else 0 :]
        )
        if forecast is not None:
            run = self.driver.new_run(identity, made)  # its time begins now
        given = RunInput(
            new.task,
            self._seed(),
            history,
            origin,
            new.limits,
            new.conversation or "",
            named=new.run_id is not None,
            attachments=files,
            confirm=forecast,
            confirmation=answer,
            claim=claim,
            commit=await self.driver.begin_trees(made, identity),
        )
        handle = self.driver.launch(run, made, given)
        try:
            await run.control.begun.wait()
        except anyio.get_cancelled_exc_class():
            handle.interrupt()
            raise
        handle.raise_refusal()
        if handle.control is None:
            return await self._existing(identity, new if new.conversation is None else replace(new, continues=None))
        return self.driver.hand_out(handle)

    async def _existing(self, run_id: str, asked: RunRequest) -> Handle:
        """Return the handle of a run that exists; raises `RunExists` if its team or task is not what is asked for."""
        from teamwright.runtime.recorded.identity import require_same_run

        team, continues, conversation = require_team(asked.team), asked.continues, asked.conversation or ""
        files = await read_files(team, asked.attachments, continues=continues is not None)
        origin = None if continues is None else Origin(run_id=continues, number=0, how="continue")
        given = RunInput(asked.task, 0, asked.history, origin, conversation=conversation, attachments=files)
        await require_same_run(self.journal, self.driver.new_run(run_id, team).enqueue(given, ""))
        return self.driver.attach(run_id)

    @checked_call("run", acts=True)
    async def enqueue(
        self,
        team: Agent,
        task: str,
        *,
        queue: str,
        run_id: str | None = None,
        limits: Limits | None = None,
        attachments: Sequence[AttachmentLike] = (),
        budget: str | None = None,
        files: Mapping[str, bytes] | None = None,
        code: str = "",
        starts: float | None = None,
    ) -> Batch:
        """Return the first batch of a run that workers of a queue drive. Who commits it has submitted the run.

        `files` travel with the run, by their paths in the folder of its manifest; `code` is the digest of its code.
        `starts` says when it starts, in seconds since 1970, if that is later.
        """
        limits = check_start(task, (), limits)
        made = require_team(team)
        read = await read_files(made, attachments)
        run = self.driver.new_run(check_name("run", run_id) if run_id else new_run_id(self._wall()), made)
        claim = None
        if budget is not None and await self.journal.find(run.run_id) is None:
            claim = await self.driver.tenants.claim(budget, limits, made.policy.limits)
        given = RunInput(task, self._seed(), limits=limits, attachments=read, claim=claim, files=files or {}, code=code)
        return run.enqueue(given, queue, starts)

    @checked_call("run", acts=True)
    async def resume(self, run_id: str, *, team: Agent | None = None, code: Path | str = "") -> RunResult:
        """Resume a run. Pass `team` if the record can't rebuild it, `code` if the folder of its manifest has moved."""
        return await (await self.start_resume(run_id, team=team, code=code)).result()

    @checked_call("run", acts=True)
    async def start_resume(self, run_id: str, *, team: Agent | None = None, code: Path | str = "") -> Handle:
        """Resume a run in the background; raises `RunIsLive` if another driver holds the run."""
        self.driver.require_open()
        async with AsyncExitStack() as lock:
            async with self.driver.deliveries.recording:
                await lock.enter_async_context(driver_lock(self.journal, check_run_id(run_id)))
            record = await read_record(self.journal, run_id)
            if record.ended is not None:
                raise NotResumable(
                    f"Run {run_id!r} has ended ({record.ended.status}); go on from it with"
                    f"  teamwright runs fork {run_id}  or  teamwright run --continue {run_id}"
                )
            ending = record.cancelled or record.aborted
            if ending is None:
                made = None if team is None else require_team(team)
                if made is None:
                    made = await read_team(self.journal, record, self.models, code=code)
                self.driver.dependencies.require(made.everyone())
                await self.driver.tenants.require(run_id, record, made.policy.limits)
                run = self.driver.new_run(run_id, made, record, lock.pop_all())
                return self.driver.hand_out(self.driver.launch(run, made, None))
        await self.driver.end(run_id, ending)
        return self.driver.attach(run_id)

    @checked_call("fork", FORK_OPTIONS, acts=True)
    async def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> RunResult:
        """Run a fork to its end: a new run from the record of another. Asks that are unchanged are not paid again."""
        return await (await self.start_fork(run_id, **options)).result()

    @checked_call("fork", acts=True)
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
        """Start a fork in the background; the arguments are those of `fork`."""
        from teamwright.history.fork import fork_batch, point_of_fork
        from teamwright.runtime.redaction import Redactor

        limits = value_of("The fork", "limits", limits, Limits)
        history = await self.runs.history(run_id)
        cut, without = point_of_fork(history, at, retry=retry)
        identity = check_name("run", new_id) if new_id else new_run_id(self._wall())
        if new_id and await self.journal.find(new_id):
            raise UsageError(f"There is already a run {new_id!r}; choose another id for the fork.")
        made = None if team is None else require_team(team)
        if made is None:
            made = await read_team(self.journal, await read_record(self.journal, run_id), self.models, limits)
        self.driver.dependencies.require(made.everyone())
        redacted_task = None if task is None else Redactor(made.known_secrets()).text(check_task(task))
        now = self.driver.clock(history.record)()
        batch = fork_batch(
            history,
            made,
            run_id=identity,
            now=now,
            at=cut,
            without=without,
            task=redacted_task,
            limits=limits,
            driver=self.driver.name,
        )
        batch = await self.driver.tenants.with_claim(batch, made.policy.limits)
        async with deleted_is_not_found(self.journal, run_id):
            await commit(self.journal, batch)
        run = self.driver.new_run(identity, made, await read_record(self.journal, identity))
        return self.driver.hand_out(self.driver.launch(run, made, None))

    async def texts(self, event: Event) -> Texts:
        """Return the texts that an event refers to by hash, by name: a task, the arguments or the result of a call …"""
        from teamwright.runtime.recorded.reader import read_texts

        return await read_texts(self.journal, event)

    async def delivered(self) -> None:
        """Wait until no webhook delivery is in flight: each was accepted, or given up after its last attempt."""
        await self.driver.deliveries.wait_settled()
