"""A recorded run for readers: its result, messages, open questions and failures, and the events of a fork.

It reads the record and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

from msgspec.structs import replace
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.approval import REJECTED
from teamwright.agents.compaction import summary_message
from teamwright.agents.evaluation_gate import REVIEW_EXCEEDED
from teamwright.agents.prices import is_local_model
from teamwright.errors import UsageError, nearest
from teamwright.history.ending import STOPPED, iso
from teamwright.history.fork import (
    Checkpoint,
    before_review,
    calls_returned_after,
    checkpoint_name,
    checkpoints_in,
    find_checkpoint,
)
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.record.run_record import EFFECTS, RunRecord, check_record
from teamwright.journal.protocol import Batch, Journal
from teamwright.teams.team import Team
from teamwright.values.events.agent import (
    AgentCalled,
    AgentCallFailed,
    AgentChecked,
    AgentCompacted,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetOpened, BudgetRaised, BudgetRefused
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import (
    Origin,
    PersonAnswered,
    PersonAsked,
    RunAborted,
    RunEnded,
    RunInterrupted,
    RunIntervened,
    RunNotified,
    RunPaused,
    RunQueued,
    RunRefused,
    RunResumed,
    RunStarted,
    ScopeExpired,
    ScopeWaited,
)
from teamwright.values.events.team import TeamEnded, TeamPlanChanged, TeamReopened
from teamwright.values.key import is_inside, join_key, key_depth, next_attempt, parent_key
from teamwright.values.limits import NOTHING, Bounds, Limits, Usage, lowered
from teamwright.values.people import SMALLER, YES, Answer, Question, confirmation_key, lower_ceiling
from teamwright.values.text.secret_names import without_secrets
from teamwright.values.turns.messages import History, Message, digest
from teamwright.values.turns.results import RunResult, Status, StopReason
from teamwright.values.turns.turn import Failure

ENDINGS = ("agent.replied", "agent.failed")
REFUSED_TASK = "(This message was refused: {reason})"
"""Stands in later turns for a task that a member's `check_input` refused."""
DRIVER_FACTS = (
    RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued, RunEnded, RunIntervened, RunRefused, RunAborted,
    RunNotified, ScopeWaited, BudgetRaised,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunHistory:
    """All events of one run, and the bodies that they refer to."""

    events: Sequence[Event]
    record: RunRecord

    @classmethod
    async def load(cls, journal: Journal, events: Sequence[Event]) -> Self:
        """Check the events and read the bodies that they refer to."""
        check_record(events)
        record = RunRecord.from_events(events)
        needed = record.needed_bodies()
        for event in events:
            match event.fact:
                case AgentReplied() | AgentFailed():
                    needed.update(ref.body for ref in event.fact.messages)
                case RunEnded():
                    needed.update(body for body in (event.fact.output, event.fact.data) if body)
                case AgentCompacted(summary=summary):
                    needed.add(summary)
                case PersonAsked(draft=str() as draft):
                    needed.add(draft)
                case _:
                    pass
            if isinstance(event.fact, AgentReplied) and event.fact.data:
                needed.add(event.fact.data)
        record.bodies = RecordedBodies(await journal.bodies(needed))
        return cls(events, record)

    @property
    def number(self) -> int:
        """The number of the last event."""
        return self.events[-1].number

    @property
    def started(self) -> RunStarted:
        """The first fact of the run."""
        return self.record.start

    @property
    def task(self) -> str:
        """The task of the run."""
        return str(self.record.bodies.value(self.started.task))

    @property
    def manifest(self) -> JsonValue:
        """The recorded manifest of the run's team, as JSON data."""
        return self.record.bodies.value(self.started.manifest)

    @property
    def is_free_of_charge(self) -> bool:
        """Whether every model that the run called is on the user's own machine."""
        calls = (event.fact for event in self.events if isinstance(event.fact, AgentCalled))
        return all(is_local_model(call.name) for call in calls if call.effect == "model")

    def result(self, status: Status) -> RunResult:
        """The result of the run; for an open run, the result so far with the given status."""
        ended, paused = self.record.ended, self.record.paused
        ending = self.ending()
        return RunResult(
            run_id=self.events[0].run_id,
            status=ended.status if ended else status,
            stop_reason=ended.stop_reason if ended else paused.stop_reason if paused else None,
            output=str(self.record.bodies.value(ended.output)) if ended and ended.output else None,
            data=self.record.bodies.value(ended.data) if ended and ended.data else None,
            messages=self.record.bodies.messages(ending.messages) if ending else self.messages_so_far(),
            usage=ended.usage if ended else self.usage(),
            warnings=ended.warnings if ended else (),
            started_at=iso(self.record.started_at),
            seconds=ended.seconds if ended else self.record.scope_seconds("", 0.0),
            failure=self._failure(ended),
            attachments=self.started.attachments,
        )

    def ending(self) -> AgentReplied | AgentFailed | None:
        """The reply or failure of the whole team, without that of its evaluator; None before its first reply."""
        for event in reversed(self.events):
            if event.scope or not isinstance(event.fact, AgentReplied | AgentFailed):
                continue
            if self.record.asks[event.key].asked.purpose == "work":
                return event.fact
        return None

    def messages_so_far(self) -> tuple[Message, ...]:
        """The messages of the team's direct members so far."""
        found: list[Message] = []
        for event in self.events:
            fact = event.fact
            if isinstance(fact, AgentReplied | AgentFailed) and self._is_direct_reply(event):
                found.extend(self.record.bodies.messages(fact.messages))
        return tuple(found)

    def _is_direct_reply(self, event: Event) -> bool:
        turn = self.record.turn_of(event.scope)
        if turn == "" or key_depth(turn) or self.record.is_superseded(event.key):
            return False
        return self.record.asks[event.key].asked.purpose == "work"

    def usage(self) -> Usage:
        """The usage of all calls so far."""
        return sum((usage for _, usage in self.calls()), NOTHING)

    def calls(self) -> Iterator[tuple[str, Usage]]:
        """The scope and usage of every call, without superseded ones."""
        found = {
            event.key: (event.scope, event.fact.usage) for event in self.events if isinstance(event.fact, AgentReturned)
        }
        return (call for call in found.values() if not self.record.is_superseded(call[0]))

    def conversation(self) -> tuple[Message, ...]:
        """The history for a follow-up run: the messages before the run, its task and its replies.

        If a member has compacted its history, the summary stands for the messages that it replaced.
        """
        task = self._admitted_task()
        ending = self.ending()
        said = self.record.bodies.messages(ending.messages) if ending else self.messages_so_far()
        before = self.record.bodies.messages(self.started.history)
        for event in reversed(self.events):
            if isinstance(fact := event.fact, AgentCompacted) and fact.digest:
                after = max(0, fact.messages - len(before))
                if History.of([*before, *said][: fact.messages]).digest == fact.digest:
                    summary = summary_message([str(self.record.bodies.value(fact.summary))])
                    return (summary, *before[fact.messages :], task, *said[after:])
        return (*before, task, *said)

    def _admitted_task(self) -> Message:
        """The task as an input check left it: no later turn may bring back what the check replaced or refused.

        If several members checked the task, the first verdict counts.
        """
        task = Message(name="user", content=self.task, role="user", attachments=self.started.attachments)
        for event in self.events:
            match event.fact:
                case AgentChecked(check="input", verdict="mended", text=text) if self._is_about_task(event):
                    return task.changed(content=text)
                case AgentChecked(check="input", verdict="refused", text=reason) if self._is_about_task(event):
                    return task.changed(content=REFUSED_TASK.format(reason=reason), attachments=())
                case _:
                    pass
        return task

    def _is_about_task(self, event: Event) -> bool:
        """Whether an event belongs to an ask, not superseded, whose task is that of the run."""
        ask = self.record.asks.get(self.record.turn_of(event.scope))
        return ask is not None and ask.asked.task == self.started.task and not self.record.is_superseded(event.key)

    def questions(self) -> dict[str, Question]:
        """The open questions by key, with their drafts."""
        open_: dict[str, PersonAsked] = {}
        for event in self.events:
            match event.fact:
                case PersonAsked():
                    open_[event.key] = event.fact
                case PersonAnswered():
                    open_.pop(event.key, None)
                case AgentReplied() | AgentFailed() if open_:
                    open_ = {key: asked for key, asked in open_.items() if not is_inside(key, event.key)}
                case _:
                    pass
        paused = self.record.paused
        waited_for = open_ if paused is None else paused.waiting_for
        waited_for = [
            key for key in waited_for if next_attempt(key) not in open_ and not self.record.is_superseded(key)
        ]
        return {key: self._with_draft(asked) for key, asked in open_.items() if key in waited_for}

    def _with_draft(self, asked: PersonAsked) -> Question:
        return (
            asked.question.changed(draft=str(self.record.bodies.value(asked.draft))) if asked.draft else asked.question
        )

    def plan(self) -> JsonValue:
        """The latest version of the plan of the run's own team; `None` if its strategy records none."""
        plans = (
            event.fact.plan
            for event in reversed(self.events)
            if isinstance(event.fact, TeamPlanChanged) and not parent_key(event.scope)
        )
        return next(plans, None)

    def require_question(self, key: str) -> Question:
        """Return the open question with this key, or raise a `UsageError` that names the nearest key."""
        asked = self.questions()
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without a type checker
            raise UsageError(
                f"A question is given by its key, a text, not by {key!r:.200}; see  teamwright runs answer"
            )
        if key not in asked:
            otherwise = "" if asked else "no question is open"
            raise UsageError(f"Nothing is asked at {key!r}; {nearest(key, asked, otherwise)}")
        return asked[key]

    def before_failure(self) -> tuple[int, frozenset[str]]:
        """Return where a retry starts: the number of the last event to keep, and the calls before it to make again.

        Other members keep their replies, and the member that failed last keeps its successful calls. Where the team
        failed for another reason, the last reply is asked for again.
        """
        if self.record.ended is not None and self.record.ended.stop_reason == REVIEW_EXCEEDED:
            review = before_review(self.events, self.record)
            if review is not None:
                return review
        last = self._ending_to_retry()
        if last is None:
            raise UsageError(f"Run {self.events[0].run_id!r} has no failed member to retry; fork it with --at NUMBER.")
        if (rejection := self._rejection(last)) is not None:
            return rejection - 1, frozenset()
        calls = [e for e in self.events if e.kind in EFFECTS and self.record.turn_of(e.scope) == last.key]
        lost = {e.key for e in calls if isinstance(e.fact, AgentCallFailed | BudgetRefused)}
        return last.number - 1, frozenset(lost or {e.key for e in calls})

    def _ending_to_retry(self) -> Event | None:
        """The ending of the turn to retry: the last failure, or the reply over which the team failed."""
        ending = self.ending()
        counts = [e for e in self.events if e.kind in ENDINGS and not self.record.is_superseded(e.key)]
        failed = [e for e in counts if isinstance(e.fact, AgentFailed) and self._is_own_failure(e)]
        last = failed[-1] if failed else None
        if not isinstance(ending, AgentFailed) or ending.error in STOPPED:
            return last
        if last is not None and isinstance(last.fact, AgentFailed) and last.fact.error == ending.error:
            return last
        answers = (e for e in reversed(counts) if isinstance(e.fact, AgentReplied))
        return next((e for e in answers if not self.record.asks[e.key].is_team), last)

    def _rejection(self, ended: Event) -> int | None:
        """The number of the answer in which a person rejected the member's task or reply, if it failed for that."""
        asked = join_key(ended.key, "approve-")
        answers = [e.number for e in self.record.answers.values() if e.key.startswith(asked)]
        rejected = isinstance(ended.fact, AgentFailed) and ended.fact.error == REJECTED
        return max(answers, default=None) if rejected else None

    def _is_own_failure(self, event: Event) -> bool:
        """Whether a member that is no team failed, or a team whose reply a person rejected."""
        ask = self.record.asks[event.key]
        if ask.is_team:
            return isinstance(event.fact, AgentFailed) and self._rejection(event) is not None
        return not ask.is_cancelled

    def before_stop(self) -> int | None:
        """The number of the last event before a budget, a deadline or a cancel stopped the run; None otherwise."""
        reason = self.record.ended.stop_reason if self.record.ended else None
        stops = [event for event in self.events if _stops(event.fact, reason)]
        if not stops:
            return None
        last = stops[-1]
        if isinstance(last.fact, BudgetRefused):
            level = last.fact.level
            last = next(e for e in stops if isinstance(e.fact, BudgetRefused) and e.fact.level == level)
        return last.number - 1

    def checkpoints(self) -> list[Checkpoint]:
        """The points at which a fork can start, in order."""
        return checkpoints_in(self.events, self.record)

    def point(self, at: int | str | Checkpoint) -> int:
        """Return the event number of a checkpoint, given as such, by name, by place or by number."""
        return find_checkpoint(at, self.events[0].run_id, self.number, self.checkpoints())

    def fork(
        self,
        run_id: str,
        now: float,
        at: int | None,
        task: str | None,
        team: Team,
        without: Collection[str] = (),
        limits: Limits | None = None,
        driver: str = "",
    ) -> Batch:
        """Return the first events of a fork: this run's events up to number `at`, except the calls in `without`.

        The fork keeps this run's limits; `limits` overrides single ones. It is no turn of this run's conversation, and
        `driver` drives it.
        """
        last = at if at is not None else self.number
        bodies: dict[str, str] = {}

        def keep(text: str) -> str:
            body = digest(text)
            bodies[body] = text
            return body

        source = to_json(without_secrets(team.declaration())).decode()
        point = checkpoint_name(last, self.checkpoints())
        update = {
            "origin": self._origin_of_fork(last, point),
            "task": self.started.task if task is None else keep(to_json(task).decode()),
            "manifest": keep(source),
            "strategies": team.strategies(),
            "team": team.name,
            "limits": self.limits_with(limits, last),
            "conversation": "",
            "confirm": self.started.confirm if self._confirmation(last) is None else None,
            "driver": driver,
        }
        begun = self.started.changed(**update)
        cancel, under_way = self._cancelled_at(), calls_returned_after(self.events, last)
        taken = (e for e in self.events if e.number <= last and e.number not in under_way and e.key not in without)
        shared = [e for e in taken if not self._is_left_out_of_fork(e, cancel)]
        facts = [Event(run_id, 1, now, "", "", begun)]
        for number, event in enumerate(shared, start=2):
            fact = TeamReopened() if self._ends_a_team(event) else event.fact
            facts.append(replace(event, run_id=run_id, number=number, fact=fact))
        return Batch(facts, bodies, source=self.events[0].run_id)

    def _origin_of_fork(self, number: int, checkpoint: str) -> Origin:
        """Return the origin of a fork of this run at an event."""
        before = self.started.origin
        root = before.root_run if before is not None and before.how == "fork" else ""
        return Origin(run_id=self.events[0].run_id, number=number, how="fork", checkpoint=checkpoint, root=root)

    def _confirmation(self, last: int) -> Answer | None:
        """The answer by which a person let the run begin, if it was given up to this event.

        A fork of a confirmed run is not confirmed again; one of a run that was not to begin is.
        """
        event = self.record.answers.get(confirmation_key(self.started.team))
        if event is None or event.number > last or not isinstance(event.fact, PersonAnswered):
            return None
        return event.fact.answer if event.fact.answer.text in {YES, SMALLER} else None

    def limits_with(self, given: Limits | None, last: int) -> Bounds | None:
        """The limits of the run as of an event, with those that a person lowered before it began.

        The given ones replace those of the same kind.
        """
        known = self.started.limits
        if (confirmed := self._confirmation(last)) is not None and confirmed.text == SMALLER:
            before = Limits.from_bounds(known) if known is not None else None
            ceiling = lower_ceiling(confirmation_key(self.started.team), confirmed.data)
            known = lowered(before, ceiling).bounds
        if given is None or known is None:
            return known if given is None else given.bounds
        return known.changed(**given.bounds.given)

    def _cancelled_at(self) -> float:
        """The number of the event that cancelled or aborted the run; asks that it stopped are open on a fork."""
        ends = (
            event.number
            for event in self.events
            if isinstance(event.fact, RunAborted)
            or (isinstance(event.fact, RunIntervened) and event.fact.intervention.kind == "cancel")
        )
        return next(ends, inf)

    def _is_left_out_of_fork(self, event: Event, cancelled_at: float) -> bool:
        """Whether a fork leaves this event out: drivers, the end of the run, asks that a cancel stopped, limits.

        So is the confirmation of the run, which a fork takes from its first event.
        """
        if self.started.confirm is not None and event.key == confirmation_key(self.started.team):
            return True
        if isinstance(event.fact, AgentReplied | AgentFailed):
            ask = self.record.asks[event.key]
            return not event.scope or (ask.is_cancelled and (ask.is_team or event.number > cancelled_at))
        return isinstance(event.fact, (*DRIVER_FACTS, TeamEnded, BudgetOpened))

    def _ends_a_team(self, event: Event) -> bool:
        return isinstance(event.fact, AgentReplied | AgentFailed) and self.record.asks[event.key].is_team

    def _failure(self, ended: RunEnded | None) -> Failure | None:
        if ended is None or ended.error is None:
            return None
        return Failure(member=ended.member or self.started.team, error=ended.error, message=ended.message or "")


def _stops(fact: Fact, reason: StopReason | None) -> bool:
    match fact:
        case BudgetRefused():
            return reason == "budget"
        case ScopeExpired():
            return reason == "deadline"
        case RunIntervened():
            return reason == "cancelled" and fact.intervention.kind == "cancel"
        case _:
            return False
