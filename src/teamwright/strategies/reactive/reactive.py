"""Members who react to events, each on its own, until nothing happens any more.

Nothing runs away: events and their depth are bounded, and what a bound keeps back is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue

from teamwright.agents.context import Branches, Context
from teamwright.errors import ExpressionFailed
from teamwright.strategies.conversation.turn_limit import limit_text, stop_at_limit
from teamwright.strategies.diagram import Sketch
from teamwright.strategies.envelopes.context import briefly, policy_of
from teamwright.strategies.expressions.condition import Condition
from teamwright.strategies.parallel.parts import result_of
from teamwright.strategies.protocol import Flaw, Members, Settings, Strategy, Task
from teamwright.strategies.reactive.events import ERROR, STARTED, WANTED, Reaction, TeamEvent, Told, read_reaction
from teamwright.strategies.reactive.options import ReactiveOptions, Subscription, condition_flaws, subscription_sketch
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.talk import Talk
from teamwright.values.events.team import TeamBounded, TeamEmitted, TeamGoalReached, TeamToldBack
from teamwright.values.results import Outcome
from teamwright.values.turns.messages import EMPTY, History
from teamwright.values.turns.turn import Failure, Reply, Turn

Bound = Literal["max_events", "max_depth"]


class Reactive(Strategy):
    """A network of members. One reacts to an event at most once, by the first of its subscriptions that fits."""

    name = "reactive"
    version = 1
    options = ReactiveOptions

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Conditions must be readable, somebody must react to the start, and nobody be there for nothing."""
        options = settings.read(ReactiveOptions)
        found = list(condition_flaws(options))
        if not any(one.on == STARTED for one in options.subscriptions):
            found.append(Flaw(f"nobody reacts to {STARTED!r}, so nothing would ever happen", ("subscriptions",)))
        idle = {member.name for member in members} - {one.member for one in options.subscriptions}
        found += [Flaw(f"the member {name!r} reacts to nothing", ("subscriptions",)) for name in sorted(idle)]
        if settings.max_turns is not None:
            found.append(Flaw("'reactive' counts events: set max_events and max_depth in its options, not max_turns"))
        return found

    def example_reply(self, turn: Turn) -> JsonValue:
        """A reaction without events, so that a simulated team comes to rest."""
        return {"events": []} if turn.output_schema == WANTED else None

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """Events, those who react to them, and what follows from that."""
        return subscription_sketch(settings.read(ReactiveOptions), STARTED)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Let the members react until all is quiet, the goal is reached, or something ends it."""
        network = Network(task, members, ctx)
        try:
            return await network.run()
        except ExpressionFailed as error:
            return network.talk.failed(Failure(member="", error=error.kind, message=str(error)))


class PendingReaction(NamedTuple):
    """A reaction that waits or is under way; `place` is its subscription's, counted from 1."""

    event: TeamEvent
    place: int
    subscription: Subscription


class Done(NamedTuple):
    """What came of a reaction: all that was said, and what follows or why nothing does."""

    work: PendingReaction
    replies: list[Reply]
    ending: Reaction | Failure


class KeptBack(NamedTuple):
    """What a limit did not let happen: the first event as it was told, and how many in all."""

    first: TeamBounded
    many: int = 1


class Network:
    """One run. All that it knows changes only when a reply is taken, so a resumed run comes to the same."""

    def __init__(self, task: Task, members: Members, ctx: Context) -> None:
        self.talk = Talk(task)
        self._options = task.settings.read(ReactiveOptions)
        self._task, self._members, self._ctx = task, members, ctx
        self._state = dict(self._options.state)
        self._waiting: deque[PendingReaction] = deque()
        self._types: dict[str, JsonValue] = {}
        self._taken = self._busy = self._asked = 0
        self._kept_back: dict[Bound, KeptBack] = {}
        self._ended: Literal["done", "terminated"] | Failure | None = None

    async def run(self) -> Outcome:
        """See every reaction to its end."""
        async with self._ctx.branches(self._options.limit) as branches:
            await self._emit(TeamEvent("1", STARTED, data=self._task.text))
            self._begin(branches)
            async for branch in branches.finished():
                self._busy -= 1
                await self._take(cast("Done", branch.result()))
                if self._ended and (self._options.cancel_others or not isinstance(self._ended, Failure)):
                    branches.cancel()
                self._begin(branches)
        return self._outcome().changed(data=self._state or None)

    def _begin(self, branches: Branches) -> None:
        """Start what waits, first come first served, as far as there is room; nothing once it is over."""
        while self._waiting and self._busy < self._options.limit and not self._ended:
            work = self._waiting.popleft()
            self._busy += 1
            self._asked += 1
            react = partial(self._react, work, self._told(work), self._asked)
            branches.start(f"reaction-{work.event.id}/{work.subscription.member}", react)

    async def _react(self, work: PendingReaction, told: Told, number: int, ctx: Context) -> Done:
        """Ask the member; a reply that can't be read is told back to it once."""
        member = self._members.named(work.subscription.member)
        schema = None if work.subscription.emits else WANTED
        replies: list[Reply] = []
        problem = ""
        for key in ("react", "react-again"):
            history = History.of((*told.history, *replies[0].messages)) if replies else told.history
            turn = Turn(told.task(problem), history, number, output_schema=schema)
            reply = await ctx.ask(member, turn, key=key)
            if isinstance(reply, Failure):
                return Done(work, replies, reply)
            replies.append(reply)
            reaction = read_reaction(reply.full)
            if not isinstance(reaction, ParseFailure):
                return Done(work, replies, reaction)
            if reply.signal == "terminate":
                return Done(work, replies, Reaction())
            problem = reaction.problem
            if key == "react":
                await ctx.emit(TeamToldBack(member=member.name, problem=problem))
        text = f"what follows from its reply could not be read, also when asked again: {problem}"
        return Done(work, replies, Failure(member=member.name, error="invalid_output", message=text))

    async def _take(self, done: Done) -> None:
        """Take in what a member said, and let what follows from it happen, unless it is over."""
        for reply in done.replies:
            self.talk.add(reply)
        if self._ended:
            return
        work, ending = done.work, done.ending
        if isinstance(ending, Failure):
            await self._fail(work, ending)
            return
        reply = done.replies[-1]
        self._state |= ending.state
        if reply.signal == "terminate":
            self._ended = "terminated"
            return
        for event in self._following(work, ending, reply):
            await self._emit(event)
        if self._options.goal is not None and Condition(self._options.goal).holds(self._names_of_goal()):
            self._ended = "done"
            fact = TeamGoalReached(by=work.subscription.member, waiting=len(self._waiting), at_work=self._busy)
            await self._ctx.emit(fact)

    def _names_of_goal(self) -> dict[str, JsonValue]:
        return {"state": self._state, "emitted": list[JsonValue](self._types)}

    async def _fail(self, work: PendingReaction, failure: Failure) -> None:
        """A failure is an event for others, which says who failed at what and how, and never with which words."""
        at: JsonValue = work.event.told if work.event.cause else {"type": work.event.type}
        data: JsonValue = {"member": failure.asked, "error": failure.error, "event": at}
        if await self._emit(work.event.follower(f"{work.place}-error", ERROR, failure.asked, data)):
            return
        if failure.optional or self._options.on_failure != "fail":
            self.talk.warnings += failure.skipped
        else:
            self._ended = failure

    def _following(self, work: PendingReaction, reaction: Reaction, reply: Reply) -> Iterator[TeamEvent]:
        """The events that follow from a reply: those it names, then those that are declared."""
        names: dict[str, JsonValue] = {"data": reply.full.data, "text": reply.full.text, "state": self._state}
        named = [(one.type, one.data) for one in reaction.events]
        declared = [
            (one.type, result_of(reply))
            for one in work.subscription.emits
            if one.when is None or Condition(one.when).holds(names)
        ]
        for number, (kind, data) in enumerate(named + declared, start=1):
            yield work.event.follower(f"{work.place}-{number}", kind, work.subscription.member, data)

    async def _emit(self, event: TeamEvent) -> bool:
        """Let an event happen, if no limit keeps it back; whether somebody reacts to it."""
        if bound := self._bound(event):
            await self._keep_back(bound, event)
            return False
        self._taken += 1
        self._types[event.type] = None
        reactions = self._reactions(event)
        to = tuple(work.subscription.member for work in reactions)
        cause = event.cause.id if event.cause else ""
        await self._ctx.emit(
            TeamEmitted(event=event.id, type=event.type, depth=event.depth, by=event.by, cause=cause, to=to)
        )
        self._waiting.extend(reactions)
        return bool(reactions)

    def _reactions(self, event: TeamEvent) -> list[PendingReaction]:
        """Who reacts to an event, each once; nobody hears of a failure of its own."""
        found: dict[str, PendingReaction] = {}
        names: dict[str, JsonValue] = {
            "type": event.type, "by": event.by, "data": event.data, "depth": event.depth, "state": self._state,
        }  # fmt: skip
        for place, one in enumerate(self._options.subscriptions, start=1):
            if one.on != event.type or one.member in found or (event.type == ERROR and one.member == event.by):
                continue
            if one.when is None or Condition(one.when).holds(names):
                found[one.member] = PendingReaction(event, place, one)
        return list(found.values())

    def _bound(self, event: TeamEvent) -> Bound | None:
        """The limit that keeps an event back, if one does."""
        if event.depth > self._options.max_depth:
            return "max_depth"
        return "max_events" if self._taken >= self._options.max_events else None

    async def _keep_back(self, bound: Bound, event: TeamEvent) -> None:
        """Count what does not happen; the first is told as a fact, which is enough in a storm."""
        if kept_back := self._kept_back.get(bound):
            self._kept_back[bound] = kept_back._replace(many=kept_back.many + 1)
            return
        most = self._options.max_depth if bound == "max_depth" else self._options.max_events
        first = TeamBounded(limit=bound, most=most, type=event.type, by=event.by, chain=event.chain())
        self._kept_back[bound] = KeptBack(first)
        await self._ctx.emit(first)

    def _told(self, work: PendingReaction) -> Told:
        """What the member of a reaction is told, as things stand when it begins."""
        settings, wants_form = self._task.settings, not work.subscription.emits
        if settings.share == "transcript":
            return Told(work.event, dict(self._state), self.talk.history, self._task.text, wants_form)
        if settings.share == "a2a_lite":
            most = policy_of(settings.handoff, self._ctx.posture.summary).max_summary_chars
            event, state = replace(work.event, data=briefly(work.event.data, most)), briefly(self._state, most)
            return Told(event, cast("dict[str, JsonValue]", state), self.talk.history, self._task.text, wants_form)
        return Told(work.event, dict(self._state), EMPTY if work.event.cause else self._task.history)

    def _outcome(self) -> Outcome:
        """How it ended; where a limit kept something back, it did not come to rest by itself."""
        bounds = list(map(_in_words, self._kept_back.values()))
        if bounds and self._ended is None:
            *others, (limit, option) = bounds
            self.talk.warnings += [limit_text(*one) for one in others]
            return stop_at_limit(self.talk, self._task.settings, limit, option)
        self.talk.warnings += [limit_text(*one) for one in bounds]
        if isinstance(self._ended, Failure):
            return self.talk.failed(self._ended)
        return self.talk.ended(self._ended or "done")


def _in_words(kept_back: KeptBack) -> tuple[str, str]:
    """The limit that was reached, and the option that sets it with what it kept back."""
    first, many = kept_back
    limit = "events" if first.limit == "max_events" else "events that follow from each other"
    about = f"{many} did not happen, the first {first.type!r} from {first.by!r}, {first.course}"
    return f"{first.most} {limit}", f"{first.limit}: {first.most}; {about}"
