"""Replays a recorded run on virtual time: members repeat what they did in it, in its order and with its durations.

A turn is matched by the digest of its input: as long as every turn is found, no word differs from the record.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import anyio

from teamwright.agents.agent import Agent, Context, Policy, agent_spec_of
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.evaluators import EVALUATOR, Evaluator, evaluators_made_by
from teamwright.agents.prices import cost_of, rate_of
from teamwright.errors import AgentError, LimitReached
from teamwright.history.kpis import turns_of
from teamwright.history.recorded_asks import RecordedBodies, recorded_reply
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Journal
from teamwright.teams.team import Team
from teamwright.values.events.agent import (
    AgentCalled,
    AgentCallFailed,
    AgentReplied,
    AgentReturned,
    EffectKind,
    WorkspaceWritten,
)
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationStarted
from teamwright.values.limits import USEFUL_OUTPUT
from teamwright.values.retries import recorded_error
from teamwright.values.run_keys import key_and_parents, parent_key
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.models import AnyModel, model_key
from teamwright.values.turns.turn import Failure, Purpose, Reply, Turn
from teamwright.values.usage_and_prices import NOTHING, Rate, picodollars
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

    `member` made it: the member of the turn, or an agent that it asked, such as a judge. `reserved` are the tokens that
    were reserved for its prompt, where a limit applied. A call that a limit `refused` was never made.
    """

    place: str
    member: str
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
    author: str = ""
    """Whose work it is, where the member evaluates."""

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
    members = {key: ask.asked.member for key, ask in history.record.asks.items()}
    calls, writes = _calls(history.events, keys, members), _writes(history.events, keys)
    needed = {fact.body for facts in writes.values() for fact in facts}
    for ask in history.record.asks.values():
        needed.update(ask.ending.tool_bodies if isinstance(ask.ending, AgentReplied) else ())
    bodies = RecordedBodies({**history.record.bodies.texts, **await journal.bodies(needed)})
    authors = {parent_key(event.key): fact.member for event, fact in _evaluations(history)}
    found: list[RecordedTurn] = []
    for turn in turns:
        ask = history.record.asks[turn.key]
        ending = None
        if ask.ending is not None:
            ending = recorded_reply(ask, bodies, lambda _text, _body: None)
        made = calls[turn.key]
        if not made and turn.ended is not None and ask.asked.called:
            made = [_announced_call(turn.member, turn.began, turn.ended)]
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
                authors.get(turn.key, ""),
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


def _announced_call(member: str, began: float, ended: float) -> TimedCall:
    seconds = max(0.0, ended - began)
    attempts = [CallAttempt(seconds, AgentReturned(body=""))]
    return TimedCall(FUNCTION_CALL, member, "function", FUNCTION_CALL, began, ended=ended, attempts=attempts)


def _is_own_failure(failure: Failure, calls: Sequence[TimedCall]) -> bool:
    """Whether a member failed by itself; a limit, a deadline or another branch may have stopped it instead."""
    if failure.error in {"budget", "deadline", "cancelled"}:
        return False
    return failure.error != "timeout" or any(
        isinstance(one.outcome, AgentCallFailed) for call in calls for one in call.attempts
    )


def _calls(events: Iterable[Event], turns: frozenset[str], members: Mapping[str, str]) -> dict[str, list[TimedCall]]:
    """The calls of each turn, those of agents that it asked as tools or judges included."""
    found: defaultdict[str, list[TimedCall]] = defaultdict(list)
    known: dict[str, TimedCall] = {}
    began: dict[str, float] = {}
    for event in events:
        match event.fact:
            case AgentCalled() as called if turn := _turn_around(event.key, turns):
                if event.key not in known:
                    place = f"{len(found[turn]) + 1}-{called.effect}"
                    prompt = called.reserved - (called.max_output or 0) if called.reserved else None
                    member = members[_turn_around(event.key, members) or turn]
                    known[event.key] = call = TimedCall(place, member, called.effect, called.name, event.time, prompt)
                    found[turn].append(call)
                began[event.key] = known[event.key].ended = event.time
            case AgentReturned() | AgentCallFailed() as outcome if event.key in began:
                call, seconds = known[event.key], max(0.0, event.time - began.pop(event.key))
                call.attempts.append(CallAttempt(seconds, outcome))
                call.ended = event.time
            case BudgetRefused() as refused if turn := _turn_around(event.key, turns):
                place = f"{len(found[turn]) + 1}-refused"
                kind = "function" if refused.what == "calls" else "model"
                member = members[_turn_around(event.key, members) or turn]
                found[turn].append(TimedCall(place, member, kind, "", event.time, ended=event.time, refused=refused))
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


def _turn_around(key: str, turns: Container[str]) -> str | None:
    return next((one for one in key_and_parents(key) if one in turns), None)


@dataclass(slots=True)
class Replay:
    """The recorded turns that are left, and how the run differs from its record so far."""

    turns: Sequence[RecordedTurn]
    models: Mapping[str, AnyModel]
    """The models that replace those of the record, by member."""
    declared: Mapping[str, AgentSpec] = field(default_factory=dict[str, AgentSpec])
    """All agents, also those that only judge or are tools of others."""
    evaluators: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names under which evaluators were asked in the record, by those of their declarations."""
    stop: Callable[[], None] = lambda: None
    notes: dict[str, None] = field(default_factory=dict[str, None])
    estimated: bool = False
    """Whether words differ from the record, so that figures from here on are estimates."""
    left_record: bool = False
    """Whether the run needs a reply that was never recorded."""
    _by_input: dict[tuple[str, str, str], deque[RecordedTurn]] = field(init=False)
    _by_member: dict[str, list[RecordedTurn]] = field(init=False)
    _refused: dict[tuple[str, int, str], RecordedTurn] = field(
        default_factory=dict[tuple[str, int, str], RecordedTurn], init=False
    )

    def __post_init__(self) -> None:
        self._by_input, self._by_member = defaultdict(deque), defaultdict(list)
        for turn in self.turns:
            self._by_input[turn.member, turn.author, turn.digest].append(turn)
            self._by_member[turn.member].append(turn)

    def take(self, member: str, turn: Turn) -> RecordedTurn | None:
        """Return the recorded turn with this input, else the next one of the member; `None` if it has none left."""
        again = self._refused.pop((member, turn.number, turn.task), None)
        if again is not None:
            if again.digest != turn.digest:
                self._note_other_input(member)
            return again
        author = turn.work.member if turn.work else ""
        exact = self._by_input[member, author, turn.digest]
        if exact:
            found = exact.popleft()
            self._by_member[member].remove(found)
            return found
        left = self._by_member[member]
        found = next((one for one in left if (one.purpose, one.author) == (turn.purpose, author)), None)
        if found is not None:
            left.remove(found)
            self._by_input[member, author, found.digest].remove(found)
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


class ReplayedEvaluator(Evaluator):
    """Replaces an evaluator by its recorded verdicts; no check is made and no judge is asked."""

    kind = EVALUATOR

    def __init__(self, declaration: Evaluate, judges: tuple[Agent, ...], replay: Replay) -> None:
        self.declaration, self.judges = declaration, judges
        self.name = replay.evaluators.get(declaration.evaluator_name, declaration.evaluator_name)
        self._replayed = ReplayedAgent(self.name, AgentSpec(), replay, None, Policy(), EVALUATOR)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Repeat the calls of the recorded evaluation, those of its judges included, and give the same verdict."""
        return await self._replayed.respond(turn, ctx)


@contextmanager
def evaluators_of(replay: Replay) -> Generator[None]:
    """Within this block, evaluators repeat a recorded run."""

    def make(declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> Evaluator:
        return ReplayedEvaluator(declaration, _replayed(judge, replay, {}), replay)

    with evaluators_made_by(make):
        yield


def recorded_evaluators(history: RunHistory) -> dict[str, str]:
    """Return the names under which evaluators were asked, by those of their declarations."""
    asks = history.record.asks
    keys = {fact.evaluator: parent_key(event.key) for event, fact in _evaluations(history)}
    return {name: asks[key].asked.member for name, key in keys.items() if key in asks}


def _evaluations(history: RunHistory) -> Iterator[tuple[Event, TeamEvaluationStarted]]:
    """Yield where evaluations began, under keys below those of the evaluator's turns."""
    for event in history.events:
        if isinstance(event.fact, TeamEvaluationStarted):
            yield event, event.fact


class TurnReplay:
    """One turn that is being repeated."""

    def __init__(self, agent: ReplayedAgent, recorded: RecordedTurn, turn: Turn, ctx: Context) -> None:
        self._agent, self._recorded, self._turn, self._ctx = agent, recorded, turn, ctx
        self._share = 1.0
        """The share of the last response that fits its output cap."""
        self._model = agent.model
        if (other := agent.policy.model_at(turn.tier)) is not None:
            self._model = other
            agent.replay.note_change(f"{agent.name!r} answers with its {turn.tier} model")

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
        own, used = self._spec_of(call), self._model_of(call)
        model = used if self._is_replaced(call) else None
        effect = Effect(
            kind=call.kind,
            name=call.name if model is None else model_key(model),
            request=self._recorded.digest,
            call=partial(self._repeat_call, call),
            max_output=own.max_tokens or (turn.max_output if call.member == agent.name else None),
            retry=None if call.kind == "tool" else own.retry,
            model=(call.name if used is None else model_key(used)) if is_model else "",
            rate=partial(self._rate, call),
            media_tokens=self._prompt_tokens(call) if is_model else 0,
        )
        with suppress(AgentError):  # how the turn ended is recorded, whatever a single call did
            await self._ctx.effect(call.place, effect)

    def _spec_of(self, call: TimedCall) -> AgentSpec:
        """The declaration of the member that made a call."""
        agent = self._agent
        return agent.declared if call.member == agent.name else agent.replay.declared.get(call.member, AgentSpec())

    def _model_of(self, call: TimedCall) -> AnyModel | None:
        return self._model if call.member == self._agent.name else self._spec_of(call).model

    def _is_replaced(self, call: TimedCall) -> bool:
        """Whether another model answers than the recorded one."""
        agent = self._agent
        downgraded = call.member == agent.name and self._model is not agent.model
        return downgraded or call.member in agent.replay.models

    def _rate(self, call: TimedCall, prompt: int) -> Rate | None:
        model = self._model_of(call)
        return None if model is None else rate_of(model, prompt)

    def _prompt_tokens(self, call: TimedCall) -> int:
        """What is reserved for the prompt: as recorded where a limit applied, else what it used."""
        if call.refused is not None:
            return self._refused_tokens(call, call.refused)
        if call.reserved is not None:
            return call.reserved
        used = (one.outcome.usage.input_tokens for one in call.attempts if isinstance(one.outcome, AgentReturned))
        return max(used, default=0)

    def _refused_tokens(self, call: TimedCall, refused: BudgetRefused) -> int:
        """The tokens of a prompt that was refused: what the request needed, less the smallest output cap."""
        cap = self._spec_of(call).max_tokens or self._turn.max_output
        least = 1 if cap is None else min(cap, USEFUL_OUTPUT)
        if refused.what == "tokens":
            return max(0, int(refused.needed) - least)
        rate = self._rate(call, 1)
        if refused.what != "usd" or rate is None or not rate.input:
            return 0
        return max(0, (picodollars(refused.needed) - rate.cost(0, least)) // rate.input)

    async def _repeat_call(self, call: TimedCall, attempt: Attempt) -> Returned:
        recorded = call.attempts[min(attempt.number, len(call.attempts)) - 1]
        await anyio.sleep(recorded.seconds)
        match recorded.outcome:
            case AgentReturned() as returned:
                return self._returned(call, returned, attempt)
            case AgentCallFailed(error=error, message=message):
                raise recorded_error(error, message)
            case None:
                agent = self._agent
                return await agent.replay.wait_for_unrecorded(f"a call of {agent.name!r} has no recorded result")

    def _returned(self, call: TimedCall, recorded: AgentReturned, attempt: Attempt) -> Returned:
        usage, truncated = recorded.usage, recorded.truncated
        cap, output = attempt.max_output, usage.output_tokens
        self._share = 1.0
        if cap is not None and output > cap:
            self._share, truncated = cap / output, True
            usage = usage.changed(output_tokens=cap)
            self._agent.replay.note_change(f"a reply of {call.member!r} is cut at {cap} tokens")
        model = self._model_of(call)
        if model is not None and usage is not NOTHING and (self._is_replaced(call) or usage is not recorded.usage):
            usage = usage.changed(usd=cost_of(model, usage), saved_usd=None)
        return Returned("", usage, recorded.mark, truncated)


def replayed_team(team: Team, replay: Replay, made: dict[int, Agent] | None = None) -> Team:
    """Return a copy of a team whose members repeat a recorded run. Approvals stay: they were answered."""
    known = {} if made is None else made
    copied = copy(team)
    vars(copied).pop("roster", None)  # of those who are replaced here
    known[id(team)] = copied
    copied.members = _replayed(team.members, replay, known)
    copied.helpers = _replayed(team.helpers, replay, known)
    copied.notify = copied.workspace = None  # what was changed then is not changed again
    copied.attachments = ()
    return copied


def _replayed(agents: Iterable[Agent], replay: Replay, known: dict[int, Agent]) -> tuple[Agent, ...]:
    return tuple(_replace(agent, replay, known) for agent in agents)


def _replace(agent: Agent, replay: Replay, known: dict[int, Agent]) -> Agent:
    if isinstance(agent, ReplayedAgent) or id(agent) in known:
        return known.get(id(agent), agent)
    if isinstance(agent, Team):
        return replayed_team(agent, replay, known)
    policy, declared = agent.policy.changed(fallback=None, one_call=False, max_bytes=None), agent_spec_of(agent)
    model = replay.models.get(agent.name, declared.model)
    stand_in = ReplayedAgent(agent.name, declared, replay, model, policy, agent.kind)
    known[id(agent)] = stand_in
    if (other := agent.policy.fallback) is not None:
        stand_in.policy = stand_in.policy.changed(fallback=_replace(other, replay, known))
    return stand_in
