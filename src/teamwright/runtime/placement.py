"""Branches and members whose turns are runs of their own: the contract of a placement, which an engine is given, what
children inherit from their parent run, and the turn that a child answers.

The key of an effect decides the id of its child. So a recorded result is never asked for again, and an attempt in
doubt attaches to the child that an earlier one has submitted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec import convert, structs, to_builtins
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.agent import Agent, Context, Workspace
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prices import rate_of
from teamwright.errors import JournalCorrupt, JournalError, MemberFailed, UsageError
from teamwright.history.recorded_asks import RecordedAsk, recorded_reply
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.locks import Holding
from teamwright.runtime.recorder import Recorder
from teamwright.runtime.run_request import PlacedInput, RunInput
from teamwright.runtime.run_state import RunState
from teamwright.runtime.scope import Scope
from teamwright.teams.team import Team
from teamwright.values.call_limits import Compact
from teamwright.values.events.agent import RUN_KIND, AgentReplied, Body, Tally, WorkspaceWritten
from teamwright.values.events.run import Origin, PlacedTurn
from teamwright.values.limits import Amounts
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Confirm
from teamwright.values.retries import Recovery, RetryPolicy
from teamwright.values.run_keys import SEPARATOR, join_key, parent_key
from teamwright.values.specs.manifest import Source
from teamwright.values.text.secrets import without_secrets
from teamwright.values.turns.artifacts import POINTER, Artifact, SharedValue
from teamwright.values.turns.messages import Envelope, EnvelopeLimits, EnvelopeMessage, History, Message, digest
from teamwright.values.turns.turn import OUTBOX, Failure, HandoffTarget, Reply, Turn
from teamwright.values.usage_and_prices import NOTHING, Rate, dollars
from teamwright.wings import hint


class CancelRun(Protocol):
    """Cancels a run, in whichever process it is driven."""

    def __call__(self, run_id: str, reason: str = "", *, wait: bool = True) -> Awaitable[object]:
        """Cancel it; without `wait`, return as soon as its driver is asked to."""
        ...


class PackedTeam(NamedTuple):
    """The source of a team as it is built on another machine, and the files that travel with it."""

    source: Source
    files: Mapping[str, bytes]


class Placement(Protocol):
    """Submits child runs, waits for their ends, and cancels them."""

    @property
    def queue(self) -> str:
        """The queue of the child runs."""
        ...

    async def open(self, journal: Journal, bus: Bus, cancel: CancelRun) -> None:
        """Begin to use the journal of an engine, and its way to cancel a run, with or without a driver."""
        ...

    async def close(self) -> None:
        """Send the cancellations that are due, and end."""
        ...

    async def pack(self, source: Source, team: Team) -> PackedTeam:
        """Return the source of a parent's team as workers need it."""
        ...

    async def finished(self, batch: Batch, *, parent: str, depth: int) -> RunRecord:
        """Submit a child run by its first batch, unless it exists, and return its record once it has ended."""
        ...

    def cancel(self, run_ids: Sequence[str]) -> None:
        """Cancel child runs that have not ended, soon."""
        ...


GIVEN: Final = "given-"
"""The place of a value of the parent's workspace in the child begins with this."""
RECOVERY, OWNED, NOTES_TEAM = "recovery", "owned", "notes_team"
"""What is recorded with the fields of the turn: what the member has of the teams and steps around it."""
_POINTED = re.compile(re.escape(POINTER) + r"([0-9a-f]{40})")
_PLAIN = (
    "number",
    "purpose",
    "max_output",
    "tier",
    "quotes_task",
    "since",
    "aside",
    "closing",
    "keeps_tool_uses",
    "talk",
)
_DEFAULTS = Turn("")


def turn_fields(turn: Turn) -> dict[str, JsonValue]:
    """Return what a turn says besides its task, history and files, without defaults."""
    fields: dict[str, JsonValue] = {
        name: value for name in _PLAIN if (value := getattr(turn, name)) != getattr(_DEFAULTS, name)
    }
    if turn.tools is not None:
        fields["tools"] = list(turn.tools)
    if turn.output_schema is not None:
        fields["output_schema"] = dict(turn.output_schema)
    if turn.left is not None:
        fields["left"] = turn.left.to_json()
    if turn.envelope_limits is not None:
        fields["envelope_limits"] = EnvelopeLimits.model_validate(
            dict(turn.envelope_limits), extra="ignore"
        ).model_dump(mode="json")
    if turn.compact is not None:
        fields["compact"] = turn.compact.model_dump(mode="json")
    if turn.handoffs:
        fields["handoffs"] = [list(one) for one in turn.handoffs]
    envelopes: dict[str, JsonValue] = {
        str(index): one.envelope.model_dump(mode="json")
        for index, one in enumerate(turn.history)
        if isinstance(one, EnvelopeMessage)
    }
    if envelopes:
        fields["envelopes"] = envelopes
    return fields


def turn_from(said: Mapping[str, Any], task: str, history: History, attachments: tuple[Artifact, ...]) -> Turn:
    """Rebuild a turn from its recorded parts."""
    read: dict[str, object] = {name: said[name] for name in _PLAIN if name in said}
    if "tools" in said:
        read["tools"] = tuple(said["tools"])
    if "output_schema" in said:
        read["output_schema"] = said["output_schema"]
    if "left" in said:
        read["left"] = convert(said["left"], Amounts)
    if "envelope_limits" in said:
        read["envelope_limits"] = EnvelopeLimits.model_validate(said["envelope_limits"])
    if "compact" in said:
        read["compact"] = Compact.model_validate(said["compact"])
    if "handoffs" in said:
        read["handoffs"] = tuple(HandoffTarget(*one) for one in said["handoffs"])
    if "envelopes" in said:
        history = History.of(_with_envelopes(history, said["envelopes"]))
    return structs.replace(Turn(task, history, attachments=attachments), **read)


def _with_envelopes(history: History, envelopes: Mapping[str, JsonValue]) -> Iterator[Message]:
    for index, one in enumerate(history):
        envelope = envelopes.get(str(index))
        yield (
            one
            if envelope is None
            else EnvelopeMessage(
                name=one.name,
                content=one.content,
                role=one.role,
                attachments=one.attachments,
                envelope=Envelope.model_validate(envelope),
                whole=(),
            )
        )


def recorded_turn(record: RunRecord, task: str, history: History) -> Turn:
    """Rebuild the turn that a run answers from its first event, with its task and history."""
    return turn_from(_said(record), task, history, record.start.attachments)


def inherit(scope: Scope, turn: Turn, record: RunRecord) -> None:
    """Let the outermost scope of a child run have what its member would have in the parent."""
    said = _said(record)
    scope.compact = turn.compact
    if RECOVERY in said:
        scope.recovery = Recovery.model_validate(said[RECOVERY])
    if OWNED in said:
        scope.holding = Holding(Owned(tuple(map(tuple, said[OWNED]))))


def notes_team_of(record: RunRecord) -> str:
    """Return the team that the notes of agents in a child run belong to; empty for any other run."""
    return _said(record).get(NOTES_TEAM, "")


def _said(record: RunRecord) -> Mapping[str, Any]:
    if record.started is None or record.started.placed is None:
        return {}
    return cast("Mapping[str, Any]", record.bodies.value(record.started.placed.turn))


def placed_fact(recorder: Recorder, given: PlacedInput) -> PlacedTurn:
    """Return what a child run records of its turn."""
    fields = {**turn_fields(given.turn), NOTES_TEAM: given.notes_team}
    if given.recovery is not None:  # its fallback stands in for the child, in the parent
        fields[RECOVERY] = given.recovery.model_dump(mode="json", exclude={"fallback"})
    if given.owned.levels:
        fields[OWNED] = [list(level) for level in given.owned.levels]
    return PlacedTurn(turn=recorder.store(fields), artifacts=given.artifacts, depth=given.depth)


def record_values(recorder: Recorder, given: PlacedInput) -> None:
    """Record the values of the parent's workspace that the child run begins with."""
    for name, held in given.values.items():
        fact = WorkspaceWritten(name=name, revision=1, body=recorder.store(held.value), by=held.by)
        recorder.add("", GIVEN + name, fact)


def pointed_artifacts(turn: Turn, values: Mapping[str, SharedValue]) -> set[Body]:
    """Return the artifacts that the texts of a turn, and the values of the workspace, point to."""
    shared = to_json([held.value for held in values.values()]).decode()
    texts = (turn.task, *(one.content for one in turn.history), shared)
    return {found for text in texts for found in _POINTED.findall(text)}


CALL: Final = "run"
"""The key of the effect that starts a child, within the turn of the member."""

MakeBatch = Callable[[str, Team, RunInput], Batch]
"""Returns the first batch of a child run."""


def child_run_id(parent: str, seed: int, key: str) -> str:
    """Return the id of the run that the effect of a parent with this key starts."""
    return f"{parent[:40]}-{digest(parent, str(seed), key)[:16]}"


@dataclass(slots=True)
class ParentRun:
    """One run whose branches are placed; its children get the source, files and code of its own start."""

    state: RunState
    team: Team
    placement: Placement
    make_batch: MakeBatch
    _packed: PackedTeam | None = None
    _packing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def place(self, member: Agent, recovery: Recovery | None) -> Agent:
        """Return the member that answers for another one, by child runs, which recover as the teams around it say."""

        return PlacedMember(member, self, recovery)

    @property
    def depth(self) -> int:
        placed = self.state.record.start.placed
        return 0 if placed is None else placed.depth

    @property
    def run_id(self) -> str:
        return self.state.run_id

    def child_id(self, key: str) -> str:
        """Return the id of the child that the effect with this key starts."""
        return child_run_id(self.run_id, self.state.seed, key)

    async def new_child(
        self, member: Agent, turn: Turn, ctx: Context, recovery: Recovery | None, attempt: Attempt
    ) -> Batch:
        """Return the first batch of the run in which a member answers a turn. Equal calls give the same run."""
        packed, run_id, start = await self._pack(), self.child_id(attempt.key), self.state.record.start
        values = _shared_values(ctx.workspace)
        artifacts = tuple(sorted(pointed_artifacts(turn, values) & self.state.record.workspace.artifacts))
        given = RunInput(
            turn.task,
            seed=int(digest(run_id)[:12], 16),
            history=turn.history,
            origin=Origin(run_id=self.run_id, number=self.state.recorder.number, how="place", key=attempt.key),
            limits=attempt.limits,
            files=packed.files,
            placed=PlacedInput(
                turn,
                self.depth + 1,
                artifacts,
                values,
                recovery=recovery,
                owned=ctx.owned,
                notes_team=notes_team_of(self.state.record) or self.team.name,
            ),
        )
        team = copy(member) if isinstance(member, Team) else Team(member.name, members=[member], checked=True)
        team.declared, team.secrets = _child_source(packed.source, member.name), self.team.secrets
        team.stored_files, team.code = start.files, start.code
        return self.make_batch(run_id, team, given)

    async def _pack(self) -> PackedTeam:
        """Return the source for the children, and the files that travel with them; read once.

        The journal has the files of a parent that was submitted itself.
        """
        async with self._packing:
            if self._packed is None:
                record = self.state.record
                recorded = record.source() if record.number else None
                source = recorded or Source.model_validate(without_secrets(self.team.declaration()))
                packs = not record.start.files
                self._packed = await self.placement.pack(source, self.team) if packs else PackedTeam(source, {})
            return self._packed

    def cancel_stopped(self) -> None:
        """Cancel the children of asks that ended without them: the parent may have died before it could say so."""
        stopped = [
            self.child_id(join_key(key, CALL))
            for key, ask in self.state.record.asks.items()
            if ask.asked.member_kind == RUN_KIND and ask.ending is not None and not isinstance(ask.ending, AgentReplied)
        ]
        if stopped:
            self.placement.cancel(stopped)


def require_no_placement(teams: Iterable[Team]) -> None:
    """Raise `UsageError` if a team places branches on workers."""
    for team in teams:
        if team.places_branches:
            passed = hint("place_branches") or "Engine(url, placement=…)"
            raise UsageError(
                f"The team {team.name!r} has  placement: workers , which needs workers and a journal in Postgres:"
                f" set TEAMWRIGHT_JOURNAL=postgresql://…, or use  placement: here . In Python, pass  {passed}"
            )


def _shared_values(workspace: Workspace) -> dict[str, SharedValue]:
    return {name: value for name in workspace.names() if (value := workspace.get(name)) is not None}


def _child_source(source: Source, member: str) -> Source:
    """The source of the parent with the member as its team, without what the parent does for the member."""
    teams, agents = source.manifest.teams, source.manifest.agents
    if (team := teams.get(member)) is not None:
        spec = team.model_copy(update={"confirm": None, "evaluate": None, "optional": False, "critical": False})
        manifest = source.manifest.model_copy(update={"teams": {**teams, member: spec}})
    else:
        agent = agents[member]
        confirm = None if agent.confirm is None else Confirm(tools=agent.confirm.tools)
        bare = agent.model_copy(update={"confirm": confirm, "evaluate": None, "optional": False, "critical": False})
        manifest = source.manifest.model_copy(update={"agents": {**agents, member: bare}})
    return source.model_copy(update={"manifest": manifest, "team": member})


STOPPED: Final = "stopped"
"""The error of a child run that was cancelled by itself; `cancelled` would mean that the parent has decided it."""
ONCE: Final = RetryPolicy.model_construct(times=0)
LARGEST_RESULT: Final = 2**31


class PlacedMember(Agent):
    """Stands for a member of the parent. What concerns the ask stays here; what concerns the answer is the child's."""

    kind = RUN_KIND

    def __init__(self, member: Agent, parent: ParentRun, recovery: Recovery | None) -> None:
        self.name, self.description = member.name, member.description
        self._member, self._parent, self._recovery = member, parent, recovery
        own = {"fallback": None, "too_long": "fail", "one_call": False, "compact": None, "recovery": None}
        self.policy = member.policy.model_copy(update=own)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Let a child run answer the turn."""
        leaves = list(_model_agents(self._member))
        texts = [turn.prompt.encode(), *(one.instructions.encode() for one in leaves)]
        effect = Effect(
            kind="function",
            name=self.name,
            request=turn.digest,
            call=partial(self._call, turn, ctx),
            prompt_bytes=sum(map(len, texts)) if leaves else 0,
            messages=len(turn.history) + 2 if leaves else 0,
            rate=partial(_highest_rate, leaves) if leaves else None,
            retry=ONCE,
            max_bytes=LARGEST_RESULT,
            cancel_run=self._cancel,
        )
        outcome = cast("dict[str, Any]", (await ctx.effect(CALL, effect)).value)
        if "reply" in outcome:
            return convert(outcome["reply"], Reply)
        failed = convert(outcome["failure"], Failure)
        inner = failed.member.removeprefix(self.name).removeprefix(SEPARATOR)
        raise MemberFailed(failed.error, failed.message, failed.messages, failed.data, inner, failed.warnings)

    async def _call(self, turn: Turn, ctx: Context, attempt: Attempt) -> Returned:
        parent = self._parent
        try:
            batch = await parent.new_child(self._member, turn, ctx, self._recovery, attempt)
            record = await parent.placement.finished(batch, parent=parent.run_id, depth=parent.depth + 1)
        except JournalError as error:
            if not isinstance(error, JournalCorrupt):  # no failure of the member: the next driver attaches to the run
                parent.state.abort(error)
            raise
        return self._returned(record, attempt)

    def _cancel(self, attempt: Attempt) -> None:
        self._parent.placement.cancel([self._parent.child_id(attempt.key)])

    def _returned(self, record: RunRecord, attempt: Attempt) -> Returned:
        """Return what has become of the child as the result of the effect, with what it has kept and charged."""
        ended, cost = record.ended, record.charges.by_scope[""].cost
        assert ended is not None
        tally = Tally(calls=cost.calls, charged=cost.tokens, charged_usd=dollars(cost.usd))
        ending = _ending_of(record)
        for kept in record.workspace.kept:  # only these: that a reply names an artifact proves nothing
            self._parent.state.record.workspace.artifacts.add(kept.artifact.hash)
            attempt.emit(kept)
        if ended.error is None and isinstance(ending, Reply):
            requests = tuple(one for said in record.requests().values() for one in said)
            reply = ending.changed(usage=NOTHING, context_updates=_updates(record), requests=requests)
            return Returned({"reply": _plain(reply)}, ended.usage, form="data", tally=tally)
        error = ended.error or STOPPED
        failure = Failure(
            member=ended.member or self.name,
            error=STOPPED if error == "cancelled" else error,
            message=f"{ended.message or 'it was stopped'} (in the run {record.run_id})",
        )
        if isinstance(ending, Failure):
            failure = failure.changed(messages=ending.messages, data=ending.data, warnings=ending.warnings)
        return Returned({"failure": _plain(failure)}, ended.usage, form="data", tally=tally)


def _model_agents(member: Agent) -> Iterator[ModelAgent]:
    """Yield the model agents that may answer for a member: itself, or those in its team."""
    if isinstance(member, ModelAgent):
        yield member
    elif isinstance(member, Team):
        for one in member.members:
            yield from _model_agents(one)


def _highest_rate(agents: Sequence[ModelAgent], prompt: int) -> Rate | None:
    rates = [rate for one in agents if (rate := rate_of(one.model, prompt)) is not None]
    return Rate(max(one.input for one in rates), max(one.output for one in rates)) if rates else None


def _ending_of(record: RunRecord) -> Reply | Failure | None:
    """The ending of the last ask of the run itself: of its member, or of the fallback that stood in for it."""
    asks: list[RecordedAsk] = [ask for key, ask in record.asks.items() if not parent_key(key)]
    if not asks or asks[-1].ending is None:
        return None
    return recorded_reply(asks[-1], record.bodies, lambda _text, _body: None)


def _updates(record: RunRecord) -> dict[str, JsonValue]:
    """What the child has written to its workspace, by name, besides what the parent gave it."""
    own = (event.fact for event in record.workspace.writes.values() if event.scope or not event.place.startswith(GIVEN))
    return {
        fact.name: record.bodies.value(fact.body)
        for fact in own
        if isinstance(fact, WorkspaceWritten) and not fact.name.startswith(OUTBOX)
    }


def _plain(value: Reply | Failure) -> JsonValue:
    return cast("JsonValue", to_builtins(value))
