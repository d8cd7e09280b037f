"""Replays a recorded run on virtual time: members repeat what they did in it, in its order and with its durations.

A turn is matched by the digest of its input: as long as every turn is found, no word differs from the record.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import anyio

from teamwright.agents.contract.agent import Agent, Context, Policy, agent_spec_of
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.contract.retry import recorded_error
from teamwright.agents.prices import cost_of, rate_of
from teamwright.errors import AgentError, LimitReached, UsageError
from teamwright.history.history import RunHistory
from teamwright.history.kpis import turns_of
from teamwright.history.record.asks import RecordedBodies, recorded_reply
from teamwright.journal.protocol import Journal
from teamwright.strategies.plan.steps.step_options import has_evaluated_steps
from teamwright.teams.team import Team
from teamwright.values.costs import USEFUL_OUTPUT, Rate, picodollars
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned, EffectKind, WorkspaceWritten
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.key import key_and_parents
from teamwright.values.limits import NOTHING
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.models import AnyModel, model_key
from teamwright.values.turns.turn import Failure, Purpose, Reply, Turn
from teamwright.values.value import JsonValue

FUNCTION_CALL = "call"
"""The place of a call that its ask announced, so that the record has no events of its own for it."""
LONGEST_OVERHEAD = 0.05
END_OF_RECORD = 10.0**9
"""Virtual seconds after which a run ends that waits for what was never recorded; every deadline comes before it."""


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """One attempt of a call: how long it took, and its outcome; none if it never came back."""

    seconds: float
    outcome: AgentReturned | AgentCallFailed | None = None


@dataclass(slots=True)
class TimedCall:
    """A recorded call with all its attempts.

    `reserved` are the tokens that were reserved for its prompt, where a limit applied. A call that a limit `refused`
    was never made.
    """

    place: str
    kind: EffectKind
    name: str
    began: float
    reserved: int | None = None
    ended: float = 0.0
    attempts: list[CallAttempt] = field(default_factory=list[CallAttempt])
    refused: BudgetRefused | None = None


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn of a leaf member. It has no `ending` if something stopped it from outside, or it is open."""

    key: str
    member: str
    digest: str
    purpose: Purpose
    calls: tuple[TimedCall, ...]
    ending: Reply | Failure | None
    writes: tuple[tuple[str, JsonValue], ...] = ()
    overhead: float = 0.0
    """Seconds of the turn beside its calls, which decide who is first among members that take equally long."""

    def batches(self) -> Iterator[list[TimedCall]]:
        """The calls in order, those that overlapped in time together."""
        batch: list[TimedCall] = []
        for call in sorted(self.calls, key=lambda one: one.began):
            if batch and call.began >= max(one.ended for one in batch):
                yield batch
                batch = []
            batch.append(call)
        if batch:
            yield batch


async def recorded_turns(journal: Journal, history: RunHistory) -> list[RecordedTurn]:
    """Return the turns of all leaf members, in the order in which they began."""
    turns = turns_of(history.events)
    keys = frozenset(turn.key for turn in turns)
    calls, writes = _calls(history.events, keys), _writes(history.events, keys)
    bodies = RecordedBodies(await journal.bodies({fact.body for facts in writes.values() for fact in facts}))
    found: list[RecordedTurn] = []
    for turn in turns:
        ask = history.record.asks[turn.key]
        ending = None
        if ask.ending is not None:
            ending = recorded_reply(ask, history.record.bodies, lambda _text, _body: None)
        made = calls[turn.key]
        if not made and turn.ended is not None and ask.asked.called:
            made = [_announced_call(turn.began, turn.ended)]
        written = tuple((fact.name, bodies.value(fact.body)) for fact in writes[turn.key])
        known = None if isinstance(ending, Failure) and not _is_own_failure(ending, made) else ending
        asked = ask.asked
        seconds = (turn.ended - turn.began) if turn.ended is not None else 0.0
        found.append(
            RecordedTurn(
                turn.key,
                turn.member,
                asked.digest,
                asked.purpose,
                tuple(made),
                _as_said(known),
                written,
                _overhead(seconds, made),
            )
        )
    return found


def _as_said(ending: Reply | Failure | None) -> Reply | Failure | None:
    """The ending without an envelope note that the engine derived from it, and will derive again."""
    if isinstance(ending, Reply) and ending.envelope_note is not None and not ending.envelope_note.own:
        return ending.changed(envelope_note=None)
    return ending


def _overhead(seconds: float, calls: Sequence[TimedCall]) -> float:
    """The time of a turn beside its calls; waits for people, budgets and models are longer and don't count."""
    busy = sum(attempt.seconds for call in calls for attempt in call.attempts)
    return min(LONGEST_OVERHEAD, max(0.0, seconds - busy))


def _announced_call(began: float, ended: float) -> TimedCall:
    seconds = max(0.0, ended - began)
    attempts = [CallAttempt(seconds, AgentReturned(body=""))]
    return TimedCall(FUNCTION_CALL, "function", FUNCTION_CALL, began, ended=ended, attempts=attempts)


def _is_own_failure(failure: Failure, calls: Sequence[TimedCall]) -> bool:
    """Whether a member failed by itself; a limit, a deadline or another branch may have stopped it instead."""
    if failure.error in {"budget", "deadline", "cancelled"}:
        return False
    return failure.error != "timeout" or any(
        isinstance(one.outcome, AgentCallFailed) for call in calls for one in call.attempts
    )


def _calls(events: Iterable[Event], turns: frozenset[str]) -> dict[str, list[TimedCall]]:
    """The calls of each turn, those of agents that it asked as tools included."""
    found: defaultdict[str, list[TimedCall]] = defaultdict(list)
    known: dict[str, TimedCall] = {}
    began: dict[str, float] = {}
    for event in events:
        match event.fact:
            case AgentCalled() as called if turn := _turn_around(event.key, turns):
                if event.key not in known:
                    place = f"{len(found[turn]) + 1}-{called.effect}"
                    prompt = called.reserved - (called.max_output or 0) if called.reserved else None
                    known[event.key] = call = TimedCall(place, called.effect, called.name, event.time, prompt)
                    found[turn].append(call)
                began[event.key] = known[event.key].ended = event.time
            case AgentReturned() | AgentCallFailed() as outcome if event.key in began:
                call, seconds = known[event.key], max(0.0, event.time - began.pop(event.key))
                call.attempts.append(CallAttempt(seconds, outcome))
                call.ended = event.time
            case BudgetRefused() as refused if turn := _turn_around(event.key, turns):
                place = f"{len(found[turn]) + 1}-refused"
                kind = "function" if refused.what == "calls" else "model"
                found[turn].append(TimedCall(place, kind, "", event.time, ended=event.time, refused=refused))
                found[turn][-1].attempts.append(CallAttempt(0.0))
            case _:
                pass
    for key in began:
        known[key].attempts.append(CallAttempt(0.0))
    return found


def _writes(events: Iterable[Event], turns: frozenset[str]) -> dict[str, list[WorkspaceWritten]]:
    found: defaultdict[str, list[WorkspaceWritten]] = defaultdict(list)
    for event in events:
        if isinstance(event.fact, WorkspaceWritten) and (turn := _turn_around(event.key, turns)):
            found[turn].append(event.fact)
    return found


def _turn_around(key: str, turns: frozenset[str]) -> str | None:
    return next((one for one in key_and_parents(key) if one in turns), None)


@dataclass(slots=True)
class Replay:
    """The recorded turns that are left, and how the run differs from its record so far."""

    turns: Sequence[RecordedTurn]
    models: Mapping[str, AnyModel]
    """The models that replace those of the record, by member."""
    stop: Callable[[], None] = lambda: None
    notes: dict[str, None] = field(default_factory=dict[str, None])
    estimated: bool = False
    """Whether words differ from the record, so that figures from here on are estimates."""
    left_record: bool = False
    """Whether the run needs a reply that was never recorded."""
    _by_input: dict[tuple[str, str], deque[RecordedTurn]] = field(init=False)
    _by_member: dict[str, list[RecordedTurn]] = field(init=False)
    _refused: dict[tuple[str, int, str], RecordedTurn] = field(
        default_factory=dict[tuple[str, int, str], RecordedTurn], init=False
    )

    def __post_init__(self) -> None:
        self._by_input, self._by_member = defaultdict(deque), defaultdict(list)
        for turn in self.turns:
            self._by_input[turn.member, turn.digest].append(turn)
            self._by_member[turn.member].append(turn)

    def take(self, member: str, turn: Turn) -> RecordedTurn | None:
        """Return the recorded turn with this input, else the next one of the member; `None` if it has none left."""
        again = self._refused.pop((member, turn.number, turn.task), None)
        if again is not None:
            if again.digest != turn.digest:
                self._note_other_input(member)
            return again
        exact = self._by_input[member, turn.digest]
        if exact:
            found = exact.popleft()
            self._by_member[member].remove(found)
            return found
        left = self._by_member[member]
        found = next((one for one in left if one.purpose == turn.purpose), None)
        if found is not None:
            left.remove(found)
            self._by_input[member, found.digest].remove(found)
            self._note_other_input(member)
        return found

    def refuse(self, member: str, turn: Turn, recorded: RecordedTurn) -> None:
        """Keep a recorded turn whose first call the budget refused: the team may ask the member again, with less."""
        self._refused[member, turn.number, turn.task] = recorded

    def _note_other_input(self, member: str) -> None:
        self.note_change(f"{member!r} is asked something else than in the recorded run")

    def note_change(self, why: str) -> None:
        """Note why words would differ from the record."""
        self.estimated = True
        self.notes[why] = None

    async def wait_for_unrecorded(self, what: str) -> NoReturn:
        """Wait for something that was never recorded: a deadline or another branch may stop it, else the run ends."""
        self.left_record = True
        self.notes[f"the record ends here: {what}"] = None
        await anyio.sleep(END_OF_RECORD)
        self.stop()
        await anyio.sleep_forever()
        raise AssertionError("the run was stopped")


@dataclass
class ReplayedAgent(Agent):
    """Replaces an agent by what it did in a recorded run."""

    name: str
    declared: AgentSpec
    replay: Replay
    model: AnyModel | None
    policy: Policy
    kind: str = "model"

    def __post_init__(self) -> None:
        self.description, self.capabilities = self.declared.description, self.declared.capabilities

    @property
    def spec(self) -> AgentSpec:
        """The declaration of the agent that this one replaces."""
        return self.declared

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Repeat the calls of the recorded turn, and answer as it was answered."""
        recorded = self.replay.take(self.name, turn)
        if recorded is None:
            await self.replay.wait_for_unrecorded(f"it has no further reply of {self.name!r}")
        turn_replay = TurnReplay(self, recorded, turn, ctx)
        for number, batch in enumerate(recorded.batches()):
            try:
                await turn_replay.repeat(batch)
            except LimitReached:
                if not number:
                    self.replay.refuse(self.name, turn, recorded)
                raise
        for number, (name, value) in enumerate(recorded.writes, start=1):
            await ctx.workspace.put(name, value, key=f"write-{number}")
        match recorded.ending:
            case Reply() as reply:
                await anyio.sleep(recorded.overhead)
                return turn_replay.cut(reply.changed(usage=NOTHING))
            case Failure(error=error, message=message):
                raise recorded_error(error, message)
            case None:
                return await self.replay.wait_for_unrecorded(f"it has no reply of {self.name!r} at {recorded.key!r}")


class TurnReplay:
    """One turn that is being repeated."""

    def __init__(self, agent: ReplayedAgent, recorded: RecordedTurn, turn: Turn, ctx: Context) -> None:
        self._agent, self._recorded, self._turn, self._ctx = agent, recorded, turn, ctx
        self._share = 1.0
        """The share of the last response that fits its output cap."""
        self._model = agent.model
        if turn.tier == "economy" and agent.policy.economy is not None:
            self._model = agent.policy.economy
            agent.replay.note_change(f"{agent.name!r} answers with its economy model")

    async def repeat(self, batch: Sequence[TimedCall]) -> None:
        """Make these calls again, at the same time if there are several."""
        if len(batch) == 1:
            await self._make(batch[0])
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                for call in batch:
                    tasks.create_task(self._make(call))
        except* LimitReached as refused:
            raise refused.exceptions[0] from None

    def cut(self, reply: Reply) -> Reply:
        """Return the reply, cut if its last response did not fit the output cap."""
        if self._share >= 1.0 or not reply.messages:
            return reply
        *before, last = reply.messages
        short = last.content[: int(len(last.content) * self._share)]
        return reply.changed(messages=(*before, last.changed(content=short)), truncated=True)

    async def _make(self, call: TimedCall) -> None:
        agent, turn = self._agent, self._turn
        is_model = call.kind == "model"
        model = self._model if self._is_replaced else None
        effect = Effect(
            kind=call.kind,
            name=call.name if model is None else model_key(model),
            request=self._recorded.digest,
            call=partial(self._repeat_call, call),
            max_output=agent.declared.max_tokens or turn.max_output,
            retry=None if call.kind == "tool" else agent.declared.retry,
            model=(call.name if self._model is None else model_key(self._model)) if is_model else "",
            rate=self._rate,
            media_tokens=self._prompt_tokens(call) if is_model else 0,
        )
        with suppress(AgentError):  # how the turn ended is recorded, whatever a single call did
            await self._ctx.effect(call.place, effect)

    @property
    def _is_replaced(self) -> bool:
        """Whether another model answers than the recorded one."""
        return self._model is not self._agent.model or self._agent.name in self._agent.replay.models

    def _rate(self, prompt: int) -> Rate | None:
        return None if self._model is None else rate_of(self._model, prompt)

    def _prompt_tokens(self, call: TimedCall) -> int:
        """What is reserved for the prompt: as recorded where a limit applied, else what it used."""
        if call.refused is not None:
            return self._refused_tokens(call.refused)
        if call.reserved is not None:
            return call.reserved
        used = (one.outcome.usage.input_tokens for one in call.attempts if isinstance(one.outcome, AgentReturned))
        return max(used, default=0)

    def _refused_tokens(self, refused: BudgetRefused) -> int:
        """The tokens of a prompt that was refused: what the request needed, less the smallest output cap."""
        cap = self._agent.declared.max_tokens or self._turn.max_output
        least = 1 if cap is None else min(cap, USEFUL_OUTPUT)
        if refused.what == "tokens":
            return max(0, int(refused.needed) - least)
        rate = self._rate(1)
        if refused.what != "usd" or rate is None or not rate.input:
            return 0
        return max(0, (picodollars(refused.needed) - rate.cost(0, least)) // rate.input)

    async def _repeat_call(self, call: TimedCall, attempt: Attempt) -> Returned:
        recorded = call.attempts[min(attempt.number, len(call.attempts)) - 1]
        await anyio.sleep(recorded.seconds)
        match recorded.outcome:
            case AgentReturned() as returned:
                return self._returned(returned, attempt)
            case AgentCallFailed(error=error, message=message):
                raise recorded_error(error, message)
            case None:
                agent = self._agent
                return await agent.replay.wait_for_unrecorded(f"a call of {agent.name!r} has no recorded result")

    def _returned(self, recorded: AgentReturned, attempt: Attempt) -> Returned:
        usage, truncated = recorded.usage, recorded.truncated
        cap, output = attempt.max_output, usage.output_tokens
        self._share = 1.0
        if cap is not None and output > cap:
            self._share, truncated = cap / output, True
            usage = usage.changed(output_tokens=cap)
            self._agent.replay.note_change(f"a reply of {self._agent.name!r} is cut at {cap} tokens")
        if self._model is not None and usage is not NOTHING and (self._is_replaced or usage is not recorded.usage):
            usage = usage.changed(usd=cost_of(self._model, usage), saved_usd=None)
        return Returned("", usage, recorded.mark, truncated)


def replayed_team(team: Team, replay: Replay, made: dict[int, Agent] | None = None) -> Team:
    """Return a copy of a team whose members repeat a recorded run. Approvals stay: they were answered."""
    if made is None:
        _require_unevaluated(team)
    known = {} if made is None else made
    copied = copy(team)
    known[id(team)] = copied
    copied.members = _replayed(team.members, replay, known)
    copied.helpers = _replayed(team.helpers, replay, known)
    copied.notify = None
    copied.attachments = ()
    return copied


def _require_unevaluated(team: Team) -> None:
    """Raise `UsageError` for a team whose work is evaluated: its checks and judges would be asked for real."""
    for agent in team.everyone():
        if agent.policy.evaluate is not None or (isinstance(agent, Team) and has_evaluated_steps(agent.settings)):
            raise UsageError(f"The work of {agent.name!r} is evaluated, which a what-if can't repeat; use  runs fork.")


def _replayed(agents: Iterable[Agent], replay: Replay, known: dict[int, Agent]) -> tuple[Agent, ...]:
    return tuple(_replace(agent, replay, known) for agent in agents)


def _replace(agent: Agent, replay: Replay, known: dict[int, Agent]) -> Agent:
    if id(agent) in known:
        return known[id(agent)]
    if isinstance(agent, Team):
        return replayed_team(agent, replay, known)
    policy, declared = agent.policy.changed(fallback=None, one_call=False, max_bytes=None), agent_spec_of(agent)
    stand_in = ReplayedAgent(agent.name, declared, replay, replay.models.get(agent.name, declared.model), policy)
    known[id(agent)] = stand_in
    if (other := agent.policy.fallback) is not None:
        stand_in.policy = stand_in.policy.changed(fallback=_replace(other, replay, known))
    return stand_in
