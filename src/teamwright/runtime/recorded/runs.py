"""Reads, follows and controls the recorded runs of an engine's journal. It drives no run.

Interventions go to the run's inbox and are carried out by its driver, in whichever process that is. A run without a
driver is changed here, under its driver lock.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from typing_extensions import override

from teamwright.agents.constructor_arguments import value_of
from teamwright.errors import InterventionRefused, NotResumable, RunIsLive, UnknownName, UsageError
from teamwright.journal.protocol import Batch, Journal, commit, driver_lock
from teamwright.runtime.recorded.reader import deleted_is_not_found, run_not_found
from teamwright.values.events.event import AnyDelta, Delta, Event
from teamwright.values.events.run import RunAborted, RunCheckpoint
from teamwright.values.events.team import TeamStarted
from teamwright.values.limits import Limits
from teamwright.values.names import check_name, check_run_id
from teamwright.values.people import (
    AddMember,
    Answer,
    Answered,
    Cancel,
    EditPlan,
    Mark,
    Pause,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    ResumeMember,
    Steer,
    StopStep,
    TeamChange,
    Tell,
    check_answer,
)
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.turns.results import FINAL, RunResult, RunSummary
from teamwright.values.value import JsonValue, check_text, exact_json, misfit_of

if TYPE_CHECKING:
    from teamwright.agents.clients.client_pool import Models
    from teamwright.history.run_history import Checkpoint, RunHistory
    from teamwright.runtime.event_publisher import Bus, Relay
    from teamwright.runtime.followers import PartialOutput
    from teamwright.runtime.people.interventions import Receipt
    from teamwright.runtime.redaction import Redactor
    from teamwright.runtime.run_control import LiveRuns
    from teamwright.runtime.transport import Transport


class RunInterventions(ABC):
    """Interventions in the runs of a journal, in whichever process they are driven."""

    @abstractmethod
    async def _steer(self, run_id: str, steer: Steer, *, wait: bool = False) -> Receipt:
        """Send an intervention and return how far it came."""

    async def say(self, run_id: str, text: str, *, to: str = "", by: str = "", wait: bool = False) -> Receipt:
        """Tell all members of a run something, or the member `to`; each reads it with its next turn.

        Returns when the run has accepted the message, with `wait` when a member was asked with it. A run without a
        driver accepts it when it is resumed. Raises `InterventionRefused` if the run can't take it.
        """
        if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"The message to a run must be a text, and is {text!r}.")
        return await self._steer(run_id, Tell(text=text, to=to, by=by), wait=wait)

    async def pause_member(self, run_id: str, member: str, *, by: str = "") -> Receipt:
        """Hold a member before its next turn, while the others continue; `resume_member` lets it go on."""
        return await self._steer(run_id, PauseMember(member=member, by=by))

    async def resume_member(self, run_id: str, member: str, *, by: str = "") -> Receipt:
        """Let a paused member take its turn. A paused run also needs `engine.resume`."""
        return await self._steer(run_id, ResumeMember(member=member, by=by))

    async def raise_budget(self, run_id: str, limits: Limits, *, by: str = "") -> Receipt:
        """Raise limits of a run and of its team, at once; limits that are not given stay as they are."""
        given = value_of("The raised budget", "limits", limits, Limits) or Limits()
        steer = RaiseBudget(tokens=given.tokens, usd=given.usd, calls=given.calls, seconds=given.seconds, by=by)
        if not steer.by_name:
            raise UsageError("A raised budget needs a limit: tokens, usd, calls or seconds.")
        return await self._steer(run_id, steer)

    async def edit_plan(self, run_id: str, plan: JsonValue, *, by: str = "", wait: bool = False) -> Receipt:
        """Replace the plan of a run's team, or change it; what is done stays done. `history.plan()` is the present one.

        A change has `put`, steps that are new or replace those of their id, `remove`, ids of steps that go,
        `variables` with new values, and a `reason`. Raises `InterventionRefused` if the plan can't be changed so.
        """
        edited = _plain("The plan", plan)
        return await self._steer(run_id, EditPlan(plan=edited, by=by), wait=wait)

    async def restore_plan(self, run_id: str, version: int, *, by: str = "", wait: bool = False) -> Receipt:
        """Make the plan of a run's team as it was in an earlier version; what has begun since, and what is done, stays.

        This makes a new version, which counts as an edit of a person. Raises `InterventionRefused` if that can't be.
        """
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"The version of a plan is a number from 1, not {version!r:.100}.")
        return await self._steer(run_id, RestorePlan(plan_version=version, by=by), wait=wait)

    async def stop_step(self, run_id: str, step: str, *, reason: str = "", by: str = "", wait: bool = False) -> Receipt:
        """Stop one step of a run's team: what works on it is cancelled, and the others go on without its result.

        Raises `InterventionRefused` if there is no such step, or if it has ended.
        """
        return await self._steer(run_id, StopStep(step=step, reason=reason, by=by), wait=wait)

    async def add_member(
        self, run_id: str, name: str, spec: AgentSpec | Mapping[str, JsonValue], *, by: str = "", wait: bool = False
    ) -> Receipt:
        """Add a member to a run's team; `spec` declares it, as in a manifest, and is recorded."""
        from teamwright.teams.team_loader import check_declaration

        given = spec.model_dump(mode="json", exclude_unset=True) if isinstance(spec, AgentSpec) else spec
        declared = _plain(f"The declaration of {name!r}", given)
        check_declaration(check_name("agent", name), declared)
        return await self._steer(run_id, AddMember(member=name, spec=declared, by=by), wait=wait)

    async def remove_member(self, run_id: str, name: str, *, by: str = "", wait: bool = False) -> Receipt:
        """Remove a member from a run's team; what it has done is kept."""
        return await self._steer(run_id, RemoveMember(member=name, by=by), wait=wait)


def _plain(what: str, value: object) -> JsonValue:
    """Return a value as the JSON that is recorded; raises `UsageError` for what JSON can't express."""
    try:
        return exact_json(value)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}") from error


T = TypeVar("T")
NewClock = Callable[[float], Callable[[], float]]
"""Makes a clock that starts no earlier than a given time."""
EndRun = Callable[[str, Cancel | RunAborted], Awaitable[RunResult]]
"""Records the end of a run that has no driver."""


class Runs(RunInterventions):
    """All runs of a journal, as `engine.runs`; the Python form of `teamwright runs`."""

    def __init__(
        self,
        journal: Journal,
        bus: Bus,
        live: LiveRuns,
        relay: Relay,
        new_clock: NewClock,
        end_run: EndRun,
        models: Models,
    ) -> None:
        self._journal, self._models = journal, models
        self._relay = relay
        self._bus = bus
        self._live = live
        self._new_clock, self._end_run = new_clock, end_run

    async def list(self, limit: int | None = None) -> builtins.list[RunSummary]:
        """Return summaries of all runs, or of the `limit` newest, newest first."""
        if limit is not None and (not isinstance(limit, int) or limit < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"The limit of a list of runs can't be {limit!r}; pass 0 or more, or None for all runs.")
        return await self._journal.runs(limit)

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of one run, or `None` if there is no such run."""
        return await self._journal.find(check_run_id(run_id))

    async def history(self, run_id: str) -> RunHistory:
        """Return everything that is recorded of a run, for reading."""
        from teamwright.history.run_history import RunHistory
        from teamwright.runtime.recorded.reader import read_events

        async with deleted_is_not_found(self._journal, check_run_id(run_id)):
            return await RunHistory.load(self._journal, await read_events(self._journal, run_id))

    async def result(self, run_id: str) -> RunResult:
        """Return the result of a run, or its present status if it has not ended."""
        summary = await self.find(run_id)
        return (await self.history(run_id)).result(summary.status if summary else "interrupted")

    @overload
    def follow(
        self, run_id: str, after: int = 0, *, parts: Literal[False] = False
    ) -> AsyncGenerator[Event | Delta]: ...

    @overload
    def follow(self, run_id: str, after: int = 0, *, parts: bool) -> AsyncGenerator[Event | AnyDelta]: ...

    def follow(self, run_id: str, after: int = 0, *, parts: bool = False) -> AsyncGenerator[Event | AnyDelta]:
        """Yield the run's events from the one after `after`: recorded ones first, then new ones, without a gap.

        If this engine drives the run, or shares a transport with the one that does, it also yields the pieces of
        replies that are being written, and with `parts` those of thinking and of the arguments of tool calls.
        It ends when the run ends, or has no driver and is not queued for one. The first step raises `RunNotFound` if
        there is no run.
        """
        from teamwright.runtime.followers import follow

        return follow(self._journal, self._bus, self._live, self._relay, check_run_id(run_id), after, parts=parts)

    async def feed(self, run_id: str, transport: Transport, *, after: int = 0) -> int:
        """Send a wake-up for each event, and text as it is written, to a channel with the id of the run.

        Returns the number of the last event when the run has stopped.
        """
        from teamwright.runtime.transport import LiveSignal

        number = after
        async for item in self.follow(run_id, after):
            if isinstance(item, Event):
                number = item.number
                await transport.send(run_id, LiveSignal(type="wake", run_id=run_id, number=number))
            else:
                await transport.send(run_id, LiveSignal.of_delta(item, number))
        return number

    def follow_output(
        self, run_id: str, output_type: type[T] | None = None, *, member: str | None = None
    ) -> AsyncGenerator[PartialOutput[T]]:
        """Yield the structured output of the run's members, or of one `member`, whenever it has grown.

        `output_type` is a pydantic model or another type of data; what has arrived is validated as this type. A run
        of which this engine gets no pieces yields only final outputs.
        """
        from teamwright.runtime.followers import OutputStream
        from teamwright.runtime.recorded.reader import read_texts

        return OutputStream(partial(read_texts, self._journal), output_type, member).outputs(
            self.follow(run_id, parts=True)
        )

    async def wait(self, run_id: str) -> RunResult:
        """Wait until the run has no driver in any process; returns its result then."""
        seen = 0
        while await self._is_driven(run_id):
            async for item in self.follow(run_id, seen):
                seen = item.number if isinstance(item, Event) else seen
        return await self.result(run_id)

    async def checkpoints(self, run_id: str) -> builtins.list[Checkpoint]:
        """Return the points of a run at which a fork can begin, in order."""
        return (await self.history(run_id)).checkpoints()

    async def checkpoint(self, run_id: str, name: str, *, by: str = "") -> Checkpoint:
        """Name the point that a run has reached, in whichever process it is driven."""
        from teamwright.history.run_history import check_checkpoint_name

        check_checkpoint_name(name)
        check_text("by", by)
        sent = False
        while True:
            history = await self.history(run_id)
            if history.record.ended is not None:
                raise NotResumable(
                    f"Run {run_id!r} has ended, so no checkpoint can be added; those it has are listed by"
                    f"  teamwright runs steer {run_id} checkpoint"
                )
            if await self._is_driven(run_id):
                if not sent:
                    await self._journal.send(run_id, Mark(name=name, by=by))
                    sent = True
                if found := await self._wait_for_checkpoint(run_id, history.number, name):
                    return found
                continue
            with suppress(RunIsLive):
                async with driver_lock(self._journal, run_id):
                    now = self._new_clock(history.record.latest_time)()
                    event = Event(run_id, history.number + 1, now, "", "", RunCheckpoint(name=name, by=by))
                    await commit(self._journal, Batch([event], {}))
                    return (await self.checkpoints(run_id))[-1]

    async def _wait_for_checkpoint(self, run_id: str, after: int, name: str) -> Checkpoint | None:
        """Wait until the driver has recorded a checkpoint of this name; `None` if it stops before."""
        async for item in self.follow(run_id, after):
            if isinstance(item, Event) and isinstance(item.fact, RunCheckpoint) and item.fact.name == name:
                return next(one for one in await self.checkpoints(run_id) if one.number == item.number)
        return None

    async def answer(self, run_id: str, key: str, answer: Answer | str) -> None:
        """Answer a question of a run; a paused run uses the answer when it is resumed.

        Until the run has used an answer, a later one replaces it.
        """
        given = _to_answer(answer)
        history = await self.history(run_id)
        question = history.require_question(key)
        redactor = self._redactor(run_id, history)
        given = given.changed(
            text=redactor.text(given.text), data=redactor.value(given.data), by=redactor.text(given.by)
        )
        await self._journal.send(run_id, Answered(key=key, answer=check_answer(question, key, given)))
        await self._live.deliver_inboxes()

    async def answers(self, run_id: str) -> dict[str, Answer]:
        """Return the answers in a run's inbox that the run has not used yet, by the question's key."""
        asked = (await self.history(run_id)).questions()
        sent = [item.intervention for item in await self._journal.inbox(run_id)]
        return {one.key: one.answer for one in sent if isinstance(one, Answered) and one.key in asked}

    @override
    async def _steer(self, run_id: str, steer: Steer, *, wait: bool = False) -> Receipt:
        from teamwright.runtime.people.interventions import Sender, redacted_steer

        if (wrong := misfit_of(steer)) is not None:
            raise UsageError(f"The intervention {steer.kind!r} can't be recorded: {wrong}.")
        history = await self.history(run_id)
        if (ended := history.record.ended) is not None:
            raise NotResumable(f"Run {run_id!r} has ended already ({ended.status}).")
        if isinstance(steer, TeamChange) and (reason := _refusal(history, steer)) is not None:
            raise InterventionRefused(f"Run {run_id!r} can't take it: {reason}.")
        if not await self._is_driven(run_id):
            from teamwright.runtime.recorded.held_replay import undriven_refusal

            reason = await undriven_refusal(self._journal, history, steer, self._models)
            if reason is not None:
                raise InterventionRefused(f"Run {run_id!r} can't take it: {reason}.")
        redactor = self._redactor(run_id, history)
        sender = Sender(self._journal, self.follow, run_id, history.number)
        return await sender.send(redacted_steer(steer, redactor), wait=wait)

    async def pause(self, run_id: str, *, by: str = "", wait: bool = True) -> RunResult:
        """Pause the run after in-flight calls have finished; with `wait=False`, return as soon as it is asked to."""
        check_text("by", by)
        result = await self.result(run_id)
        if result.status not in (*FINAL, "running"):
            raise NotResumable(f"Run {run_id!r} is {result.status}: it has no driver, so there is nothing to pause.")
        return await self._send(run_id, Pause(by=by), wait=wait)

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "", wait: bool = True) -> RunResult:
        """End a run for good, in whichever process it is driven; a run without a driver ends at once.

        With `wait=False`, return as soon as its driver is asked to end it.
        """
        check_text("reason", reason)
        check_text("by", by)
        if reason:
            reason = self._redactor(run_id, await self.history(run_id)).text(reason)
        return await self._send(run_id, Cancel(reason=reason, by=by), wait=wait)

    async def _send(self, run_id: str, intervention: Pause | Cancel, *, wait: bool) -> RunResult:
        result = await self.result(run_id)
        if result.status in FINAL:
            raise NotResumable(f"Run {run_id!r} has ended already ({result.status}).")
        await self._journal.send(run_id, intervention)
        await self._live.deliver_inboxes()
        if not wait and await self._is_driven(run_id):
            return result
        result = await self.wait(run_id)
        if result.status in FINAL or not isinstance(intervention, Cancel):
            return result
        return await self._end_run(run_id, intervention)

    async def delete(self, *run_ids: str) -> int:
        """Delete runs and what only they refer to; returns the freed bytes.

        Raises `RunNotFound` if one does not exist, and `RunIsLive` if one is driven; nothing is deleted then.
        """
        for run_id in run_ids:
            if await self.find(run_id) is None:
                raise await run_not_found(self._journal, run_id)
        return await self._journal.delete(run_ids)

    def _redactor(self, run_id: str, history: RunHistory) -> Redactor:
        """Return a redactor with the secrets of a run, so that its inbox never holds one.

        A record has none of those that were written out: only the driver of the run knows them.
        """
        if (run := self._live.get(run_id)) is not None:
            return run.state.redactor
        from teamwright.runtime.redaction import Redactor
        from teamwright.teams.manifests.environment_variables import secrets_of

        return Redactor(secrets_of(history.manifest))

    async def _is_driven(self, run_id: str) -> bool:
        return check_run_id(run_id) in self._live or await self._journal.is_driven(run_id)


def _refusal(history: RunHistory, change: TeamChange) -> str | None:
    """Return why no run of this strategy can take a change, also where no driver is there to say so."""
    from teamwright.strategies.registry import find_strategy

    names = (event.fact.strategy for event in history.events if isinstance(event.fact, TeamStarted))
    with suppress(UnknownName):  # of a strategy that is not installed here
        return find_strategy(next(names, "")).refusal(change)
    return None


def _to_answer(given: object) -> Answer:
    """Return an answer from what a caller passed, or raise a `UsageError` that names its type."""
    if isinstance(given, Answer):
        if (wrong := misfit_of(given)) is not None:
            raise UsageError(f"The answer can't be recorded: {wrong}")
        return given
    if isinstance(given, str):
        return Answer(text=given)
    kind = type(given).__name__
    raise UsageError(f"An answer is a text or an Answer, not a value of type {kind!r}; pass its text, or an Answer.")
