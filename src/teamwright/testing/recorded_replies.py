"""Takes the recording of a case from a recorded run: what came from outside, and at which second.

Seconds in which the run had no driver don't count. Secrets and the paths of this machine are removed from every text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, convert, to_builtins

from teamwright.errors import UsageError
from teamwright.history.recorded_asks import RecordedAsk, RecordedBodies, bodies_of, recorded_reply, superseded_asks
from teamwright.history.run_history import RunHistory
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.runtime.redaction import Redactor
from teamwright.testing.case_file import AnswerOfCase
from teamwright.testing.recorded_case import (
    FORMAT,
    CallResult,
    CaseStart,
    FailedAttempt,
    RecordedReply,
    Recording,
    SentToRun,
)
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentReplied,
    AgentReturned,
    ValueForm,
)
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, RunIntervened, RunResumed
from teamwright.values.people import Mark, Pause, Undo, confirmation_key
from teamwright.values.run_keys import SEPARATOR, join_key, key_and_parents, key_segments, split_attempt, with_attempt
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.turns.artifacts import PATCH, Artifact, content_of
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply
from teamwright.values.value import JsonValue

APART, TOGETHER, DIGITS = 2e-6, 1e-9, 9
"""Seconds between two events at least: more than what counts as the same instant in virtual time, and less."""
INPUTS = AgentReturned, AgentCallFailed, PersonAnswered, RunIntervened
UNSENT = Pause, Mark, Undo
"""What people sent to a run that changes nothing of what its team does."""
CALL = "call"
"""The place of a call that its ask announced, so that the record has no events of its own for it."""


class Cleaner:
    """Removes secrets and the paths of this machine from texts."""

    def __init__(self, secrets: Iterable[str], folder: str) -> None:
        self._redactor = Redactor(secrets)
        home = str(Path.home())
        self._paths = [(one, short) for one, short in ((folder, "."), (home, "~")) if len(one) > 1]
        self._removed: set[str] = set()

    def text(self, text: str) -> str:
        """Return a text without them."""
        clean = mask_text(self._redactor.text(text))
        for path, short in self._paths:
            clean = clean.replace(path, short)
        if clean != text:
            self._removed.add(clean)
        return clean

    def has_removed(self, clean: str) -> bool:
        """Whether something was removed from what is now this text."""
        return clean in self._removed

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without them."""
        return self._without_paths(mask_value(self._redactor.value(value)))

    def content(self, stored: JsonValue, file: Artifact) -> JsonValue:
        """Return the content of a file without them if it is a text; a patch has to fit what it is applied to."""
        if file.media_type == PATCH:
            return stored
        try:
            text = content_of(stored).decode()
        except ValueError:
            return stored
        clean = self.text(text)
        return stored if clean == text else clean

    def _without_paths(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._without_paths(one) for one in value]
            case dict():
                return {key: self._without_paths(one) for key, one in value.items()}
            case _:
                return value


async def recording_of(
    journal: Journal, history: RunHistory, cleaner: Cleaner
) -> tuple[Recording, dict[str, AnswerOfCase]]:
    """Return the recording of a run, still without prompts, and the answers of people by key.

    Raises `UsageError` if a run can't be a case.
    """
    if history.started.placed is not None or any(_is_placed(event) for event in history.events):
        raise UsageError(
            f"Branches of this run of {history.started.team!r} were placed on workers, and a case replays one record:"
            " run it here, with  teamwright run"
        )
    needed = {body for event in history.events for body in bodies_of(event)}
    bodies = RecordedBodies(await journal.bodies(needed))
    run = _RunReplies(history, bodies, cleaner, _clock(history.events))
    replies = run.replies()
    started = history.started
    files = {one.hash: one for one in started.attachments}
    files |= {one.hash: one for reply in replies.values() if reply.result for one in reply.result.artifacts}
    stored = await journal.bodies(files.keys())
    contents = {one: cleaner.content(decode_body(text), files[one]) for one, text in stored.items()}
    start = CaseStart(
        format=FORMAT,
        seed=started.seed,
        started_at=round(history.record.started_at),
        limits=started.limits,
        history=tuple(
            one.changed(content=cleaner.text(one.content)) for one in history.record.bodies.messages(started.history)
        ),
        attachments=started.attachments,
        commit=started.commit,
    )
    return Recording(start, replies, tuple(run.sent()), {}, contents, run.turns()), dict(run.answers())


def _is_placed(event: Event) -> bool:
    return isinstance(event.fact, AgentReturned) and event.fact.tally is not None


def _clock(events: Sequence[Event]) -> Callable[[Event], float]:
    """Return at which second of the run an event was; the time between two drivers does not count.

    No two events have the same time, so that their order is that of the record. What came in together, before the
    team did anything about it, is within one instant of virtual time.
    """
    seconds: dict[int, float] = {}
    began, before, last = events[0].time, events[0].time, 0.0
    for event in events:
        if isinstance(event.fact, RunResumed):
            began += event.time - before
        before = max(before, event.time)
        is_next = isinstance(event.fact, INPUTS) and seconds and isinstance(events[event.number - 2].fact, INPUTS)
        last = max(last + (TOGETHER if is_next else APART), event.time - began)
        seconds[event.number] = last = round(last, DIGITS)
    return lambda event: seconds[event.number]


class _Call(Struct):
    """A call as far as it was read."""

    called: AgentCalled
    began: float
    failures: list[FailedAttempt]
    result: CallResult | None = None


class _RunReplies:
    """The replies of a recorded run."""

    def __init__(
        self, history: RunHistory, bodies: RecordedBodies, cleaner: Cleaner, clock: Callable[[Event], float]
    ) -> None:
        self._events, self._record = history.events, history.record
        self._bodies, self._cleaner, self._clock = bodies, cleaner, clock
        asked = (event.fact for event in self._events if isinstance(event.fact, AgentAsked))
        self._is_limited = any(one.left is not None for one in asked)
        self._confirmation = confirmation_key(history.started.team)
        record = history.record
        self._superseded = superseded_asks(record.asks, record.recovered, record.inherited) if record.inherited else ()

    def replies(self) -> dict[str, RecordedReply]:
        """The replies by the keys that a run has from its start, where a fork has asked again."""
        calls: dict[str, _Call] = {}
        for event in self._events:
            match event.fact:
                case AgentAsked(called=True) as asked:
                    announced = AgentCalled(effect="function", name=asked.member, request=asked.digest)
                    calls[join_key(event.key, CALL)] = _Call(announced, self._clock(event), [])
                case AgentCalled() as called:
                    calls.setdefault(event.key, _Call(called, self._clock(event), [])).called = called
                case BudgetRefused():
                    refused = AgentCalled(effect="model", name="", request="")
                    calls.setdefault(event.key, _Call(refused, self._clock(event), []))
                case AgentReturned() as fact:
                    calls[event.key].result = self._result(event, fact)
                case AgentCallFailed() as fact:
                    calls[event.key].failures.append(self._failure(event, fact))
                case AgentReplied() if self._record.asks[event.key].asked.called:
                    call = calls[join_key(event.key, CALL)]
                    call.result = call.result or self._announced_result(event)
                case _:
                    pass
        found = (self._reply(key, call) for key, call in calls.items() if not self._is_superseded(key))
        return {one.key: one for one in found}

    def turns(self) -> dict[str, float]:
        """Return when turns began that knew what was left of a budget."""
        return {
            self._key(event.key): self._clock(event)
            for event in self._events
            if isinstance(event.fact, AgentAsked) and event.fact.left is not None and not self._is_superseded(event.key)
        }

    def answers(self) -> Iterator[tuple[str, AnswerOfCase]]:
        """Yield what people answered, by key."""
        for event in self._events:
            if isinstance(event.fact, PersonAnswered) and self._counts(event.key):
                given, cleaner = event.fact.answer, self._cleaner
                fields = {"text": cleaner.text(given.text), "data": cleaner.value(given.data), "by": given.by}
                said = {one: value for one, value in fields.items() if value or one == "text"}
                yield self._key(event.key), AnswerOfCase.model_validate(said)

    def sent(self) -> Iterator[SentToRun]:
        """Yield what people sent, in order; how they paused the run and looked at it changes nothing."""
        for event in self._events:
            match event.fact:
                case PersonAnswered() if self._counts(event.key):
                    yield SentToRun(at=self._clock(event), answers=self._key(event.key))
                case RunIntervened(intervention=steer) if not isinstance(steer, UNSENT):
                    clean = convert(self._cleaner.value(to_builtins(steer)), type(steer))
                    yield SentToRun(at=self._clock(event), intervention=clean)
                case _:
                    pass

    def _counts(self, question: str) -> bool:
        return question != self._confirmation and not self._is_superseded(question)

    def _reply(self, key: str, call: _Call) -> RecordedReply:
        called = call.called
        arguments = self._bodies.value(called.arguments) if called.arguments else None
        return RecordedReply(
            key=self._key(key),
            effect=called.effect,
            name=self._cleaner.text(called.name),
            member=self._member(key),
            request="" if called.method else called.request,
            arguments=self._cleaner.value(arguments),
            failures=tuple(call.failures),
            result=call.result,
            began=call.began if self._is_limited else None,
        )

    def _result(self, event: Event, fact: AgentReturned) -> CallResult:
        return CallResult(
            at=self._clock(event),
            value=self._cleaner.value(self._bodies.result(fact)),
            usage=fact.usage,
            mark=fact.mark,
            truncated=fact.truncated,
            form=fact.form,
            capped=fact.capped,
            artifacts=fact.artifacts,
            partial_usage=fact.partial_usage,
        )

    def _failure(self, event: Event, fact: AgentCallFailed) -> FailedAttempt:
        return FailedAttempt(
            at=self._clock(event),
            error=fact.error,
            message=self._cleaner.text(fact.message),
            charged=fact.charged,
            mark=fact.mark,
            usage=fact.usage,
        )

    def _announced_result(self, event: Event) -> CallResult:
        """Return the result of a turn that is a single call, whose reply is the ending of the turn."""
        value, form = self._said(self._record.asks[event.key])
        return CallResult(at=self._clock(event), value=self._cleaner.value(value), form=form)

    def _said(self, ask: RecordedAsk) -> tuple[JsonValue, ValueForm | None]:
        """Return what a function returned: the reply that is recorded, as a text where that is all it has."""
        reply = recorded_reply(ask, self._bodies, lambda _text, _body: None)
        assert isinstance(reply, Reply)
        if reply.envelope_note is not None and not reply.envelope_note.own:
            reply = reply.changed(envelope_note=None)
        text = reply.text if len(reply.messages) == 1 else ""
        if reply == Reply(messages=(Message(name=ask.asked.member, content=text),)):
            return text, None
        return to_builtins(reply), "reply"

    def _member(self, key: str) -> str:
        turn = self._record.turn_of(key)
        return self._record.asks[turn].asked.member if turn in self._record.asks else ""

    def _is_superseded(self, key: str) -> bool:
        return any(one in self._superseded for one in key_and_parents(key))

    def _key(self, key: str) -> str:
        """Return the key that a run has where a fork of it has asked again: as if there had been no first attempt."""
        if not self._superseded:
            return key
        before, found = "", list[str]()
        for segment in key_segments(key):
            first, attempt = split_attempt(segment)
            place = join_key(before, first)
            lost = sum(with_attempt(place, number) in self._superseded for number in range(1, attempt))
            found.append(with_attempt(first, attempt - lost))
            before = join_key(before, segment)
        return SEPARATOR.join(found)
