"""A member whose turn is a run of its own: one effect of the parent, which submits the child run and waits for its end.

The key of the effect decides the id of the child. So a recorded result is never asked for again, and an attempt in
doubt attaches to the child that an earlier one has submitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

from msgspec import convert, to_builtins
from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prices_and_tokenizers import rate_of
from teamwright.errors import JournalCorrupt, JournalError, MemberFailed
from teamwright.history.record.asks import RecordedAsk, recorded_reply
from teamwright.history.record.run_record import RunRecord
from teamwright.runtime.placement import CALL, GIVEN, ParentRun
from teamwright.teams.team import Team
from teamwright.values.call_limits import Recovery, RetryPolicy
from teamwright.values.events.agent import RUN_KIND, Tally, WorkspaceWritten
from teamwright.values.key import SEPARATOR, parent_key
from teamwright.values.limits import NOTHING, Rate, dollars
from teamwright.values.turns.turn import OUTBOX, Failure, Reply, Turn

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
