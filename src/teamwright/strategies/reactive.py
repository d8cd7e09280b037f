"""Members that react to events independently, until no event is left.

A member subscribes to types of events, under conditions, and its reply is parsed into new ones. The number of events
and their depth are limited, and a warning reports what a limit suppressed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Literal, NamedTuple, cast

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import to_json

from teamwright.agents.agent import Branches, Context
from teamwright.errors import ExpressionFailed
from teamwright.strategies.envelopes import limits_of, shorten_texts
from teamwright.strategies.expressions import Condition
from teamwright.strategies.part_results import FailurePolicy, result_of
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    condition_label,
)
from teamwright.strategies.reply_parsing import ParseFailure, candidate_values, read_answer
from teamwright.strategies.team_conversation import TeamConversation, limit_text, stop_at_limit
from teamwright.values.events.team import TeamBounded, TeamEmitted, TeamGoalReached, TeamReplyRejected
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.tools import MemberName
from teamwright.values.turns.messages import EMPTY, History, digest
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import Value

STARTED = "workflow.started"
ERROR = "agent.error"
MOST_LINKS = 8
LONGEST_ID = 48

FORM = '{"events": [{"type": NAME, "data": ANYTHING}, …], "state": {NAME: ANYTHING, …}}'
"""The format of a reaction, as the prompt shows it."""

REACTION_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "events": {
            "type": "array",
            "items": {"type": "object", "properties": {"type": {"type": "string"}, "data": {}}, "required": ["type"]},
            "description": "what others may react to",
        },
        "state": {
            "type": "object",
            "description": "values that everybody shares from now on",
            "additionalProperties": True,  # explicit, because clients add false where it is missing
        },
    },
    "required": ["events"],
}


def _not_reserved(name: str) -> str:
    if name in (STARTED, ERROR):
        raise ValueError(f"{name!r} comes from the team itself and can't be emitted")
    return name


EventType = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
OwnEventType = Annotated[EventType, AfterValidator(_not_reserved)]


@dataclass(frozen=True, slots=True)
class TeamEvent:
    """An event in a team. Its id is derived from its cause, so it does not depend on other events."""

    id: str
    type: str
    by: str = ""
    data: JsonValue = None
    depth: int = 0
    cause: TeamEvent | None = None

    def caused_event(self, place: str, type_: str, by: str, data: JsonValue) -> TeamEvent:
        """Return an event caused by this one; `place` distinguishes it from the others."""
        path = f"{self.id}.{place}"
        # In a long chain a digest replaces the path: otherwise the keys of N events would take N² bytes.
        identity = path if len(path) <= LONGEST_ID else digest(path)[:16]
        return TeamEvent(identity, type_, by, data, self.depth + 1, self)

    @property
    def visible(self) -> dict[str, JsonValue]:
        """What a member sees of the event."""
        by: dict[str, JsonValue] = {"by": self.by} if self.by else {}
        return {"type": self.type, **by, "data": self.data}

    def chain(self) -> tuple[str, ...]:
        """Return the types of the events that led here, this one last; a loop is shown once."""
        types: list[str] = []
        event: TeamEvent | None = self
        while event is not None and len(types) < MOST_LINKS:
            types.append(event.type)
            event = event.cause
            if event is not None and event.type == self.type:
                types.append(event.type)
                break
        return tuple(reversed(types))


class ReactionInput(NamedTuple):
    """The input of a reaction: the event and the state, and unless `share: output` also the task and the history."""

    event: TeamEvent
    state: dict[str, JsonValue]
    history: History
    team_task: str | None = None
    wants_form: bool = True

    def task(self, problem: str = "") -> str:
        """Return the task of the turn; `problem` is why the last reply could not be parsed."""
        if self.team_task is None:
            alone: dict[str, JsonValue] = {"event": self.event.visible, "state": self.state}
            return as_json(alone | {"problem": problem} if problem else alone)
        known = {name: value for name, value in self.event.visible.items() if self.event.cause or name != "data"}
        parts = [
            f"An event has come: {as_json(known)}",
            f"The shared state: {as_json(self.state)}" if self.state else "",
            f"If something follows from your work, answer with one JSON object: {FORM}" if self.wants_form else "",
            f"Your last answer could not be used: {problem}. Answer again." if problem else "",
            f"The task:\n{self.team_task}",
        ]
        return "\n\n".join(part for part in parts if part)


class NewEvent(Value):
    """An event that a member emits; fields besides its type become its data."""

    model_config = ConfigDict(extra="ignore")

    type: OwnEventType
    data: JsonValue = None

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: object) -> object:
        if not isinstance(value, Mapping) or "data" in value:
            return cast("object", value)
        fields = dict(cast("Mapping[str, JsonValue]", value))
        kind = fields.pop("type", None)
        return {"type": kind, "data": fields or None}


class Reaction(Value):
    """The effect of an event: new events, and changes of the shared state."""

    model_config = ConfigDict(extra="ignore")

    events: tuple[NewEvent, ...] = ()
    state: Annotated[
        dict[str, JsonValue], Field(validation_alias=AliasChoices("state", "state_update", "stateUpdate"))
    ] = {}


KEYS = frozenset(("events", "state", "state_update", "stateUpdate"))


def read_reaction(reply: Reply) -> Reaction | ParseFailure:
    """Return the reaction in a reply. A reply in plain text, or with other data, causes no events."""
    found = [value for values in candidate_values(reply) for value in values]
    if not any(isinstance(value, dict) and KEYS & value.keys() for value in found):
        return Reaction()
    return read_answer(reply, _reaction())


def as_json(value: JsonValue) -> str:
    """Return a value as JSON for prompts."""
    return to_json(value).decode()


@cache
def _reaction() -> TypeAdapter[Reaction]:
    return TypeAdapter(Reaction)


OF_AN_EVENT = ("type", "by", "data", "depth", "state")
OF_A_REPLY = ("data", "text", "state")
OF_THE_GOAL = ("state", "emitted")


class Emission(Value):
    """An event that each reply causes, without the member naming it."""

    type: OwnEventType = Field(description="the type of the event; its data is the data of the reply, or else its text")
    when: str | None = Field(default=None, description="a condition over the reply: `data`, `text`, `state`")


class Subscription(Value):
    """What a member reacts to."""

    agent: MemberName = Field(description="who reacts")
    on: EventType = Field(description="the type of event")
    when: str | None = Field(
        default=None, description="a condition over the event: `type`, `by`, `data`, `depth`, `state`"
    )
    emits: tuple[Emission, ...] = Field(default=(), description="events that each of its replies causes")


class ReactiveOptions(FailurePolicy):
    """The subscriptions and limits. `on_failure` applies to failures that no member handles."""

    subscriptions: tuple[Subscription, ...] = Field(
        min_length=1, description="which member reacts to which event, in order"
    )
    state: dict[str, JsonValue] = Field(default={}, description="the shared state at the start")
    goal: str | None = Field(
        default=None,
        description="a condition over `state` and `emitted`, the types so far; the team ends when it holds",
    )
    max_parallel: int = Field(default=10, ge=1, description="how many members work at once")
    max_events: int = Field(default=100, ge=1, description="how many events are processed in total")
    max_depth: int = Field(default=20, ge=1, description="how long a chain of events may be")


def subscription_sketch(options: ReactiveOptions, start: str) -> Diagram:
    """Return the events and the members that react to them; events that members name themselves are not known yet."""
    events = dict.fromkeys((start, *(one.on for one in options.subscriptions)))
    events |= dict.fromkeys(emission.type for one in options.subscriptions for emission in one.emits)
    free = {one.agent for one in options.subscriptions if not one.emits}
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for event in events:
        nodes[f"on {event}"] = Node(id=f"on {event}", label=event)
        for one in options.subscriptions:
            if one.on == event:
                about = "names what follows" if one.agent in free else ""
                nodes.setdefault(one.agent, Node(id=one.agent, agent=one.agent, about=about))
                arrows.append(Arrow(source=f"on {event}", to=one.agent, label=condition_label(one.when)))
                arrows += [
                    Arrow(source=one.agent, to=f"on {it.type}", label=condition_label(it.when)) for it in one.emits
                ]
    notes = [f"at most {options.max_events} events, {options.max_depth} deep"]
    if options.goal is not None:
        notes.append(f"until {options.goal}")
    return Diagram(nodes=tuple(nodes.values()), arrows=tuple(dict.fromkeys(arrows)), notes=tuple(notes))


def condition_flaws(options: ReactiveOptions) -> Iterator[Issue]:
    """Yield a flaw for each condition that is invalid or reads an unknown variable."""
    for index, one in enumerate(options.subscriptions):
        yield from _flaws(one.when, OF_AN_EVENT, ("subscriptions", index, "when"))
        for number, emission in enumerate(one.emits):
            yield from _flaws(emission.when, OF_A_REPLY, ("subscriptions", index, "emits", number, "when"))
    yield from _flaws(options.goal, OF_THE_GOAL, ("goal",))


def _flaws(condition: str | None, known: tuple[str, ...], at: tuple[str | int, ...]) -> Iterator[Issue]:
    problem = None if condition is None else Condition(condition).problem(known)
    if problem is not None:
        yield Issue(problem, at)


EventLimit = Literal["max_events", "max_depth"]


class Reactive(Strategy):
    """Members that subscribe to events. Each reacts to an event at most once, by its first matching subscription."""

    name = "reactive"
    version = 1
    options = ReactiveOptions

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that conditions are valid, a member reacts to the start, and every member reacts to something."""
        options = settings.read(ReactiveOptions)
        found = list(condition_flaws(options))
        if not any(one.on == STARTED for one in options.subscriptions):
            found.append(Issue(f"no member reacts to {STARTED!r}, so no work would ever start", ("subscriptions",)))
        idle = {member.name for member in members} - {one.agent for one in options.subscriptions}
        found += [Issue(f"the member {name!r} reacts to nothing", ("subscriptions",)) for name in sorted(idle)]
        if settings.max_turns is not None:
            found.append(Issue("'reactive' counts events: set max_events and max_depth in its options, not max_turns"))
        return found

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a reaction without events, so that a simulated team ends."""
        return {"events": []} if turn.output_schema == REACTION_SCHEMA else None

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the events, the members that react to them, and the events they cause."""
        return subscription_sketch(settings.read(ReactiveOptions), STARTED)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Let the members react until no event is left, the goal is reached or the team ends otherwise."""
        run = ReactiveRun(task, members, ctx)
        try:
            return await run.run()
        except ExpressionFailed as error:
            return run.talk.failed(Failure(member="", error=error.kind, message=str(error)))


class PendingReaction(NamedTuple):
    """A pending or running reaction; `place` is the number of its subscription, from 1."""

    event: TeamEvent
    place: int
    subscription: Subscription


class ReactionResult(NamedTuple):
    """The result of a reaction: its replies, and the new events or the failure."""

    work: PendingReaction
    replies: list[Reply]
    ending: Reaction | Failure


class SuppressedEvents(NamedTuple):
    """The events that a limit suppressed: the first one as recorded, and the total."""

    first: TeamBounded
    total: int = 1


class ReactiveRun:
    """The state of one run. It changes only when a result is received, so replay computes the same state."""

    def __init__(self, task: Task, members: Members, ctx: Context) -> None:
        self.talk = TeamConversation(task)
        self._options = task.settings.read(ReactiveOptions)
        self._task, self._members, self._ctx = task, members, ctx
        self._state = dict(self._options.state)
        self._pending: deque[PendingReaction] = deque()
        self._types: dict[str, JsonValue] = {}
        self._event_count = self._running = self._started = 0
        self._suppressed: dict[EventLimit, SuppressedEvents] = {}
        self._ended: Literal["done", "terminated"] | Failure | None = None

    async def run(self) -> Outcome:
        async with self._ctx.branches(self._options.max_parallel) as branches:
            await self._emit(TeamEvent("1", STARTED, data=self._task.text))
            self._start_pending(branches)
            async for branch in branches.finished():
                self._running -= 1
                await self._receive(cast("ReactionResult", branch.result()))
                if self._ended and (self._options.on_failure == "cancel" or not isinstance(self._ended, Failure)):
                    branches.cancel()
                self._start_pending(branches)
        return self._outcome().changed(data=self._state or None)

    def _start_pending(self, branches: Branches) -> None:
        """Start pending reactions in order, while there is room and the team has not ended."""
        while self._pending and self._running < self._options.max_parallel and not self._ended:
            work = self._pending.popleft()
            self._running += 1
            self._started += 1
            react = partial(self._react, work, self._input_for(work), self._started)
            branches.start(f"reaction-{work.event.id}/{work.subscription.agent}", react)

    async def _react(
        self, work: PendingReaction, reaction_input: ReactionInput, number: int, ctx: Context
    ) -> ReactionResult:
        """Ask the member; after a reply that cannot be parsed, ask it once more with the problem."""
        member = self._members.named(work.subscription.agent)
        schema = None if work.subscription.emits else REACTION_SCHEMA
        replies: list[Reply] = []
        problem = ""
        for key in ("react", "react-again"):
            history = History.of((*reaction_input.history, *replies[0].messages)) if replies else reaction_input.history
            files = () if reaction_input.team_task is None else self._task.attachments
            turn = Turn(reaction_input.task(problem), history, number, output_schema=schema, attachments=files)
            reply = await ctx.ask(member, turn, key=key)
            if isinstance(reply, Failure):
                return ReactionResult(work, replies, reply)
            replies.append(reply)
            reaction = read_reaction(reply.full)
            if not isinstance(reaction, ParseFailure):
                return ReactionResult(work, replies, reaction)
            if reply.signal == "terminate":
                return ReactionResult(work, replies, Reaction())
            problem = reaction.problem
            if key == "react":
                await ctx.emit(TeamReplyRejected(member=member.name, problem=problem))
        text = f"what follows from its reply could not be read, also when asked again: {problem}"
        return ReactionResult(work, replies, Failure(member=member.name, error="invalid_output", message=text))

    async def _receive(self, result: ReactionResult) -> None:
        """Add the replies of a reaction and emit the events it causes, unless the team has ended."""
        for reply in result.replies:
            self.talk.add(reply)
        if self._ended:
            return
        work, ending = result.work, result.ending
        if isinstance(ending, Failure):
            await self._fail(work, ending)
            return
        reply = result.replies[-1]
        self._state |= ending.state
        if reply.signal == "terminate":
            self._ended = "terminated"
            return
        for event in self._caused_events(work, ending, reply):
            await self._emit(event)
        if self._options.goal is not None and Condition(self._options.goal).holds(self._goal_variables()):
            self._ended = "done"
            fact = TeamGoalReached(by=work.subscription.agent, waiting=len(self._pending), at_work=self._running)
            await self._ctx.emit(fact)

    def _goal_variables(self) -> dict[str, JsonValue]:
        return {"state": self._state, "emitted": list[JsonValue](self._types)}

    async def _fail(self, work: PendingReaction, failure: Failure) -> None:
        """Emit an event for a failure, with the member and the kind of error, but never its message."""
        at: JsonValue = work.event.visible if work.event.cause else {"type": work.event.type}
        data: JsonValue = {"member": failure.asked, "error": failure.error, "event": at}
        if await self._emit(work.event.caused_event(f"{work.place}-error", ERROR, failure.asked, data)):
            return
        if failure.optional or not self._options.fails:
            self.talk.warnings += failure.skipped
        else:
            self._ended = failure

    def _caused_events(self, work: PendingReaction, reaction: Reaction, reply: Reply) -> Iterator[TeamEvent]:
        """Yield the events that a reply causes: those it names, then those declared in the subscription."""
        variables: dict[str, JsonValue] = {"data": reply.full.data, "text": reply.full.text, "state": self._state}
        named = [(one.type, one.data) for one in reaction.events]
        declared = [
            (one.type, result_of(reply))
            for one in work.subscription.emits
            if one.when is None or Condition(one.when).holds(variables)
        ]
        for number, (kind, data) in enumerate(named + declared, start=1):
            yield work.event.caused_event(f"{work.place}-{number}", kind, work.subscription.agent, data)

    async def _emit(self, event: TeamEvent) -> bool:
        """Emit an event unless a limit suppresses it; return whether a member reacts to it."""
        if limit := self._limit_reached(event):
            await self._suppress(limit, event)
            return False
        self._event_count += 1
        self._types[event.type] = None
        reactions = self._reactions(event)
        to = tuple(work.subscription.agent for work in reactions)
        cause = event.cause.id if event.cause else ""
        await self._ctx.emit(
            TeamEmitted(event=event.id, type=event.type, depth=event.depth, by=event.by, cause=cause, to=to)
        )
        self._pending.extend(reactions)
        return bool(reactions)

    def _reactions(self, event: TeamEvent) -> list[PendingReaction]:
        """Return the reactions to an event, one for each member; no member reacts to its own failure."""
        found: dict[str, PendingReaction] = {}
        variables: dict[str, JsonValue] = {
            "type": event.type, "by": event.by, "data": event.data, "depth": event.depth, "state": self._state,
        }  # fmt: skip
        for place, one in enumerate(self._options.subscriptions, start=1):
            if one.on != event.type or one.agent in found or (event.type == ERROR and one.agent == event.by):
                continue
            if one.when is None or Condition(one.when).holds(variables):
                found[one.agent] = PendingReaction(event, place, one)
        return list(found.values())

    def _limit_reached(self, event: TeamEvent) -> EventLimit | None:
        """Return the limit that suppresses an event, if any."""
        if event.depth > self._options.max_depth:
            return "max_depth"
        return "max_events" if self._event_count >= self._options.max_events else None

    async def _suppress(self, limit: EventLimit, event: TeamEvent) -> None:
        """Count a suppressed event; only the first is recorded, so that a storm stays small."""
        if suppressed := self._suppressed.get(limit):
            self._suppressed[limit] = suppressed._replace(total=suppressed.total + 1)
            return
        most = self._options.max_depth if limit == "max_depth" else self._options.max_events
        first = TeamBounded(limit=limit, most=most, type=event.type, by=event.by, chain=event.chain())
        self._suppressed[limit] = SuppressedEvents(first)
        await self._ctx.emit(first)

    def _input_for(self, work: PendingReaction) -> ReactionInput:
        """Return the input of a reaction, with the state at its start."""
        settings, wants_form = self._task.settings, not work.subscription.emits
        if settings.share == "transcript":
            return ReactionInput(work.event, dict(self._state), self.talk.history, self._task.text, wants_form)
        if settings.share == "a2a_lite":
            most = limits_of(settings.envelope, self._ctx.cutback.summary).max_summary_chars
            event = replace(work.event, data=shorten_texts(work.event.data, most))
            state = cast("dict[str, JsonValue]", shorten_texts(self._state, most))
            return ReactionInput(event, state, self.talk.history, self._task.text, wants_form)
        return ReactionInput(work.event, dict(self._state), EMPTY if work.event.cause else self._task.history)

    def _outcome(self) -> Outcome:
        """Return the outcome; if a limit suppressed events, the team stopped at that limit."""
        limits = list(map(_limit_words, self._suppressed.values()))
        if limits and self._ended is None:
            *others, (limit, option) = limits
            self.talk.warnings += [limit_text(*one) for one in others]
            return stop_at_limit(self.talk, self._task.settings, limit, option)
        self.talk.warnings += [limit_text(*one) for one in limits]
        if isinstance(self._ended, Failure):
            return self.talk.failed(self._ended)
        return self.talk.ended(self._ended or "done")


def _limit_words(suppressed: SuppressedEvents) -> tuple[str, str]:
    """Return the limit that was reached, and the option that sets it with the suppressed events."""
    first, total = suppressed
    limit = "events" if first.limit == "max_events" else "events that follow from each other"
    about = f"{total} did not happen, the first {first.type!r} from {first.by!r}, {first.chain_text}"
    return f"{first.most} {limit}", f"{first.limit}: {first.most}; {about}"
