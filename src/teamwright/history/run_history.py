"""Recorded runs for readers, alone or as a conversation: results, messages, questions, failures and checkpoints.

It reads the record and changes nothing. Checkpoints, at which a fork can start, are computed and never stored: the one
after a turn is named by the turn's place, and a named one has the name it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import JsonValue

from teamwright.agents.compaction import summary_message
from teamwright.agents.prices import is_local_model
from teamwright.errors import UnknownName, UsageError, nearest
from teamwright.history.recorded_asks import RecordedAsk, RecordedBodies
from teamwright.history.run_record import RunRecord, check_record
from teamwright.journal.protocol import Journal
from teamwright.values.events.agent import (
    AgentCalled,
    AgentChecked,
    AgentCompacted,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import PersonAnswered, PersonAsked, RunCheckpoint, RunEnded, RunPaused, RunStarted
from teamwright.values.events.team import TeamPlanChanged
from teamwright.values.names import check_name
from teamwright.values.people import Question
from teamwright.values.run_keys import is_inside, key_below_root, key_depth, next_attempt, parent_key
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.results import RunResult, Status, iso, iso_after
from teamwright.values.turns.turn import Failure
from teamwright.values.usage_and_prices import NOTHING, Usage, add_usd
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.values.turns.results import RunSummary


START = "start"
REFUSED_TASK = "(This message was refused: {reason})"
"""Stands in later turns for a task that a member's `check` refused."""


class Checkpoint(Record, frozen=True):
    """A point of a run: the number of its last event, its name, what happened just before, and the usage so far."""

    number: int
    name: str
    how: Literal["start", "turn", "pause", "named"]
    at: str
    after: str
    key: str = ""
    total_tokens: int = 0
    usd: float | None = None


def turns_in(record: RunRecord) -> dict[str, RecordedAsk]:
    """Return the asks that teams made of their members, by key, in the order in which they began.

    The ask of the whole team and asks between agents are not included.
    """
    found: dict[str, RecordedAsk] = {}
    teams: set[str] = set()
    for key, ask in record.asks.items():
        around = record.turn_of(parent_key(key))
        if around in teams:
            found[key] = ask
        if ask.is_team and (not around or around in teams):
            teams.add(key)
    return found


def check_checkpoint_name(name: str) -> str:
    """Return the name if it is valid for a checkpoint and can't be confused with an event number."""
    if check_name("checkpoint", name).isdigit():
        raise UsageError(f"{name!r} would be taken for the number of an event; give the checkpoint a word for a name.")
    return name


class _CheckpointFold:
    """Collects the checkpoints of a run, with the usage at each."""

    def __init__(self, record: RunRecord) -> None:
        self.found: list[Checkpoint] = []
        self._record = record
        self._used: Usage = NOTHING
        self._pauses = 0
        self._turns = turns_in(record)

    def apply(self, event: Event) -> None:
        match event.fact:
            case AgentReturned(usage=usage):
                self._used = self._used + usage
            case RunStarted():
                self._add(event, START, "start", "the task was given")
            case AgentReplied() | AgentFailed() as ending if (
                event.key in self._turns and not self._turns[event.key].is_cancelled
            ):
                self._add(event, key_below_root(event.key), "turn", self._after(event, ending))
            case RunPaused(stop_reason=reason):
                self._pauses += 1
                self._add(event, f"pause-{self._pauses}", "pause", f"the run paused ({reason})")
            case RunCheckpoint(name=name, by=by):
                self._add(event, name, "named", f"{by or self._member(event.scope)} set it")
            case _:
                pass

    def _add(self, event: Event, name: str, how: Literal["start", "turn", "pause", "named"], after: str) -> None:
        self.found.append(
            Checkpoint(
                number=event.number,
                name=name,
                how=how,
                at=iso(event.time),
                after=after,
                key=event.key if how in {"turn", "named"} else "",
                total_tokens=self._used.total_tokens,
                usd=self._used.usd,
            )
        )

    def _after(self, event: Event, ending: AgentReplied | AgentFailed) -> str:
        ask = self._record.asks[event.key]
        if isinstance(ending, AgentFailed):
            return f"{ask.asked.member} failed ({ending.error})"
        return f"the team {ask.asked.member} ended" if ask.is_team else f"{ask.asked.member} replied"

    def _member(self, scope: str) -> str:
        """The member in whose turn an event was recorded; outside of any turn, a person."""
        turn = self._record.turn_of(scope)
        if not turn:
            return "a person"
        ask = self._record.asks[turn]
        return f"the team {ask.asked.member}" if ask.is_team else ask.asked.member


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
        return self.events[-1].number

    @property
    def started(self) -> RunStarted:
        return self.record.start

    @property
    def task(self) -> str:
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
            resume_at="" if ended or paused is None else iso_after(paused.resume_at),
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
            if isinstance(fact, AgentReplied | AgentFailed) and self.is_direct_reply(event):
                found.extend(self.record.bodies.messages(fact.messages))
        return tuple(found)

    def is_direct_reply(self, event: Event) -> bool:
        """Whether a reply or failure is that of a direct member of the team, and counts."""
        turn = self.record.turn_of(event.scope)
        if turn == "" or key_depth(turn) or self.record.is_superseded(event.key):
            return False
        return self.record.asks[event.key].asked.purpose == "work"

    def usage(self) -> Usage:
        return sum((usage for _, usage in self.calls()), NOTHING)

    def calls(self) -> Iterator[tuple[str, Usage]]:
        """The scope and usage of every call, without superseded ones."""
        return ((scope, usage) for _, scope, usage in self._calls())

    def inherited_tokens(self) -> int:
        """The tokens of the calls that a fork took over, without superseded ones; 0 for a run that is no fork."""
        return sum(usage.total_tokens for number, _, usage in self._calls() if number <= self.record.inherited)

    def _calls(self) -> Iterator[tuple[int, str, Usage]]:
        found = {
            event.key: (event.number, event.scope, event.fact.usage)
            for event in self.events
            if isinstance(event.fact, AgentReturned)
        }
        return (call for call in found.values() if not self.record.is_superseded(call[1]))

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
        """A copy of the latest plan of the run's own team, to be edited: the recorded one, else the declared steps.

        It has its version, so that an edit of it is merged with what changes meanwhile. `None` if its strategy has no
        plan, or the plan is not made yet.
        """
        plans = (
            event.fact.plan
            for event in reversed(self.events)
            if isinstance(event.fact, TeamPlanChanged) and not parent_key(event.scope)
        )
        plan = deepcopy(next(plans, None)) or _declared_plan(self.manifest)
        return {"version": 1, **plan} if isinstance(plan, dict) else plan

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

    def checkpoints(self) -> list[Checkpoint]:
        """The points at which a fork can start, in order."""
        return fold(self.events, _CheckpointFold(self.record)).found

    def point(self, at: int | str | Checkpoint) -> int:
        """Return the event number of a checkpoint, given as such, by name, by place or by number.

        A place means the last checkpoint inside it. Of several checkpoints with one name, the last one counts.
        """
        if isinstance(at, Checkpoint):
            at = at.number
        if isinstance(at, str) and not (at.isascii() and at.isdigit()):
            known = self.checkpoints()
            exact = [one.number for one in known if one.name == at]
            there = exact or [one.number for one in known if at and is_inside(one.name, at)]
            if not there:
                raise UnknownName("checkpoint", at, dict.fromkeys(one.name for one in known))
            return there[-1]
        if isinstance(at, bool) or not isinstance(at, int | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"A fork begins at a checkpoint, its name, or the number of an event, not at {at!r}.")
        number = int(at)
        if not 1 <= number <= self.number:
            raise UsageError(
                f"Run {self.events[0].run_id!r} has events 1 to {self.number}; {number} is not one of them."
            )
        return number

    def _failure(self, ended: RunEnded | None) -> Failure | None:
        if ended is None or ended.error is None:
            return None
        return Failure(member=ended.member or self.started.team, error=ended.error, message=ended.message or "")


def _declared_plan(recorded: JsonValue) -> JsonValue:
    """Return the steps that the manifest of a team declares, with their variables, as the first version of its plan."""
    found, team = recorded, recorded.get("team") if isinstance(recorded, dict) else None
    for key in ("manifest", "teams", str(team), "options"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not found.get("steps"):
        return None
    return deepcopy({name: found[name] for name in ("steps", "variables") if found.get(name)})


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn: the run, its task and its answer.

    It is `inherited` by a fork of the conversation that it is a turn of.
    """

    run_id: str
    task: str
    output: str | None
    status: Status
    usage: Usage
    inherited: bool = False

    @classmethod
    def of(cls, history: RunHistory, status: Status) -> Self:
        result = history.result(status)
        return cls(result.run_id, history.task, result.output, result.status, result.usage)

    @classmethod
    def of_ended(cls, run_id: str, started: RunStarted, ended: RunEnded, bodies: RecordedBodies) -> Self:
        output = str(bodies.value(ended.output)) if ended.output else None
        return cls(run_id, str(bodies.value(started.task)), output, ended.status, ended.usage)

    def to_json(self) -> dict[str, JsonValue]:
        """What `runs conversation` prints of a turn."""
        return {
            "run_id": self.run_id,
            "task": self.task,
            "output": self.output,
            "status": self.status,
            "usage": self.usage.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ConversationHistory:
    """The turns of a conversation in order, and the messages that its next turn continues."""

    name: str
    turns: tuple[ConversationTurn, ...]
    messages: tuple[Message, ...]

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.turns), NOTHING)

    @property
    def last_run(self) -> str | None:
        return self.turns[-1].run_id if self.turns else None


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A conversation in a list, with its newest turn; tokens and price are of all turns, also undone ones."""

    name: str
    team: str
    turns: int
    last_run: str
    status: Status
    started_at: str
    total_tokens: int
    usd: float | None

    @classmethod
    def of(cls, run: RunSummary) -> Self:
        """Return the summary of a conversation whose newest turn is this run."""
        return cls(run.conversation, run.team, 1, run.id, run.status, run.started_at, run.total_tokens, run.usd)

    def with_earlier(self, run: RunSummary) -> ConversationSummary:
        return replace(
            self,
            turns=self.turns + 1,
            started_at=run.started_at,
            total_tokens=self.total_tokens + run.total_tokens,
            usd=add_usd(self.usd, run.usd),
        )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "name": self.name,
            "team": self.team,
            "turns": self.turns,
            "last_run": self.last_run,
            "status": self.status,
            "started_at": self.started_at,
            "total_tokens": self.total_tokens,
            "usd": self.usd,
        }
