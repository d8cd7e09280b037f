"""The spans of a run, folded from its events: the same events give the same spans, in any process and at any time.

A span is final once it is returned. What is open when a driver leaves the run ends with the span of that drive, and
goes on in the next one, in a span that links to it. So a trace is whole at each pause, and a crash loses nothing that
the next driver can't tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from teamwright.agents.clients.providers import OWN, PROVIDERS
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.spans import (
    Attributes,
    OpenSpan,
    OpenSpans,
    Span,
    SpanEvent,
    SpanLink,
    span_id,
    trace_id,
)
from teamwright.strategies.plan.options import own_key
from teamwright.values.events.agent import (
    RUN_KIND,
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.event import Event
from teamwright.values.events.run import (
    Origin,
    PersonAnswered,
    PersonAsked,
    RunCheckpoint,
    RunEnded,
    RunInterrupted,
    RunNotified,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
)
from teamwright.values.events.team import TeamEvaluationResult, TeamEvaluationStarted, TeamStarted
from teamwright.values.run_keys import is_inside, join_key, key_segments, nearest_key, parent_key
from teamwright.values.usage_and_prices import NOTHING

NOTED = frozenset((
    "agent.abandoned", "agent.compacted", "agent.recovered", "budget.degraded", "budget.exceeded", "budget.refused",
    "budget.throttled", "run.aborted", "run.applied", "run.expired", "step.skipped", "team.escalated",
    "team.handoff", "team.plan_changed", "team.selected", "team.step_failed",
))  # fmt: skip
"""Kinds of events that are events of the span in which they happened."""
WITHOUT_DRIVER = (RunStarted, RunResumed, RunNotified, RunCheckpoint, RunQueued, RunPaused, RunInterrupted)
"""Facts that may be recorded while the run has no driver, and those that begin a drive themselves."""
_PLANNING = re.compile(rf"(?:.*/)?{re.escape(own_key(''))}(?:plan|replan-\d+|decide-\d+)(?:-again)?(?:#\d+)?")


class SpanFold:
    """Folds the events of one run. `take` returns the spans that have ended since the last time.

    `settled` is how many of all spans had ended when a driver last left the run as it should: after a crash, those
    after it may not have been sent.
    """

    def __init__(self) -> None:
        self.number = 0
        self.settled = 0
        self.has_ended = False
        self._open = OpenSpans()
        self._team = ""
        self._drives = 0
        self._last = 0.0
        self._origin: Origin | None = None
        self._calls: dict[str, OpenSpan] = {}
        self._waits: dict[str, OpenSpan] = {}
        self._evaluations: dict[str, OpenSpan] = {}
        self._reducers: Mapping[type[object], Callable[[Event, Any], None]] = {
            RunStarted: self._start,
            RunResumed: self._resume,
            RunPaused: self._leave,
            RunInterrupted: self._leave,
            RunQueued: self._leave,
            RunEnded: self._leave,
            AgentAsked: self._asked,
            AgentReplied: self._ended,
            AgentFailed: self._ended,
            AgentCalled: self._called,
            AgentReturned: self._returned,
            AgentCallFailed: self._call_failed,
            PersonAsked: self._person_asked,
            PersonAnswered: self._answered,
            TeamStarted: self._team_started,
            TeamEvaluationStarted: self._evaluation_started,
            TeamEvaluationResult: self._evaluated,
        }

    def apply(self, event: Event) -> None:
        """Apply the next event of the run."""
        fact = event.fact
        if self._open.drive is None and not self._open.muted and not isinstance(fact, WITHOUT_DRIVER):
            self._begin_drive(event.time, "")
        reduce = self._reducers.get(type(fact))
        if reduce is not None:
            reduce(event, fact)
        elif event.kind in NOTED:
            self._open.note(event)
        self.number, self._last = event.number, max(event.time, self._last)

    def take(self) -> list[Span]:
        """Return the spans that have ended since the last time."""
        taken, self._open.finished = self._open.finished, []
        return taken

    def cut_off(self) -> None:
        """End what is open, because the run has no driver any more; the next driver ends it at the same point."""
        self._end_drive(self._last, "lost")

    def _start(self, event: Event, fact: RunStarted) -> None:
        self._open.run_id, self._team, self._open.conversation = event.run_id, fact.team, fact.conversation
        self._open.trace, self._origin = trace_id(event.run_id), fact.origin
        self._open.muted = fact.origin is not None and fact.origin.how == "fork"
        self._last = event.time
        if not self._open.muted:
            self._begin_drive(event.time, fact.driver)

    def _resume(self, event: Event, fact: RunResumed) -> None:
        """End the drive before, of which nothing more is known if it was lost, and begin the next one."""
        if self._open.muted:  # what a fork took over is in the trace of its source
            self._open.muted, self._open.finished = False, []
            self._calls.clear()
        self._end_drive(self._last, "lost")
        self._begin_drive(event.time, fact.driver)

    def _begin_drive(self, time: float, driver: str) -> None:
        self._drives += 1
        attributes: Attributes = {names.TEAM: self._team, names.DRIVE: self._drives}
        if driver:
            attributes[names.DRIVER] = driver
        self._open.drive = drive = OpenSpan("drive", "", f"run {self._team}", time, b"", attributes, self._drives)
        drive.links = _caller(self._open, self._drives, self._origin)
        for ask in self._open.asks.values():
            before = SpanLink(trace_id=self._open.trace, span_id=self._open.id(ask), to="before")
            ask.links = (before,) if self._drives > 1 else ()
            ask.begin, ask.number, ask.usage = time, ask.number + 1, NOTHING
            ask.notes = []
            ask.attributes[names.CONTINUED] = True
            ask.parent = self._open.parent(parent_key(ask.key))
            ask.texts = ()

    def _leave(self, event: Event, fact: RunPaused | RunInterrupted | RunQueued | RunEnded) -> None:
        """End the drive: the run has ended, or its driver has left it."""
        if (drive := self._open.drive) is None:
            return
        failed = None
        match fact:
            case RunEnded():
                drive.attributes |= {names.STATUS: fact.status, names.STOP_REASON: fact.stop_reason}
                for open_ in (*self._waits.values(), *self._evaluations.values()):
                    self._open.close(open_, event.time)
                self.has_ended = True
                if fact.status in ("failed", "timeout"):
                    failed = fact.error or fact.stop_reason
            case RunPaused():
                drive.attributes |= {names.STATUS: "paused", names.STOP_REASON: fact.stop_reason}
            case _:
                pass
        by = {RunEnded: "end", RunPaused: "pause", RunInterrupted: "interrupt", RunQueued: "queue"}[type(fact)]
        self._end_drive(event.time, by, failed)

    def _end_drive(self, time: float, by: str, failed: str | None = None) -> None:
        if (drive := self._open.drive) is None:
            return
        for call in self._calls.values():  # it may be recorded no more, and the next driver makes it again
            call.attributes[names.IN_DOUBT] = True
            self._open.close(call, time)
        self._calls.clear()
        for ask in reversed(self._open.asks.values()):
            self._open.close(ask, time)
        drive.attributes[names.ENDED_BY] = by
        self._open.close(drive, time, error=failed, message=failed)
        self._open.drive = None
        if by != "lost":
            self.settled = self._open.count

    def _asked(self, event: Event, fact: AgentAsked) -> None:
        is_team = fact.member_kind == "team"
        attributes: Attributes = {names.MEMBER_KIND: fact.member_kind, names.PURPOSE: fact.purpose}
        operation = names.INVOKE_WORKFLOW if is_team else names.INVOKE_AGENT
        if _PLANNING.fullmatch(event.key):
            operation = names.PLAN
        attributes[names.OPERATION] = operation
        attributes[names.WORKFLOW if is_team else names.AGENT] = fact.member
        if fact.member_kind == RUN_KIND:
            attributes[names.CHILD_RUN] = True
        evaluation = self._evaluations.get(event.key)
        parent = self._open.parent(event.scope) if evaluation is None else self._open.id(evaluation)
        ask = OpenSpan("ask", event.key, f"{operation} {fact.member}", event.time, parent, attributes)
        ask.texts = ((names.INPUT_MESSAGES, event),)
        self._open.asks[event.key] = ask

    def _ended(self, event: Event, fact: AgentReplied | AgentFailed) -> None:
        ask = self._open.asks.pop(event.key, None)
        for key in [key for key in self._waits if is_inside(key, event.key)] if self._waits else ():
            self._open.close(self._waits.pop(key), event.time)
        if ask is None:
            return
        ask.texts += ((names.OUTPUT_MESSAGES, event),)
        if isinstance(fact, AgentFailed):
            self._open.close(ask, event.time, error=fact.error, message=fact.message)
            return
        if fact.signal is not None:
            ask.attributes[names.SIGNAL] = fact.signal
        self._open.close(ask, event.time)

    def _called(self, event: Event, fact: AgentCalled) -> None:
        before = self._calls.pop(event.key, None)
        if before is not None:  # cut off by a driver that went on by itself
            before.attributes[names.IN_DOUBT] = True
            self._open.close(before, event.time)
        if self._open.muted:
            return
        attributes: Attributes = {names.ATTEMPT: fact.attempt}
        if fact.waited:
            attributes[names.WAITED] = fact.waited
        call = OpenSpan("call", event.key, "", event.time, self._open.parent(event.scope), attributes, fact.attempt)
        if fact.effect == "model":
            _describe_chat(call, fact.name, fact.max_output)
        elif fact.method is not None:
            call.name, call.client = f"{fact.method} {fact.name}", True
            attributes[names.MCP_METHOD] = fact.method
        elif fact.effect == "tool":
            call.name = f"{names.EXECUTE_TOOL} {fact.name}"
            attributes |= {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: fact.name, names.TOOL_TYPE: "function"}
            call.texts = ((names.TOOL_ARGUMENTS, event),)
        else:
            call.name = f"call {fact.name}"
        self._calls[event.key] = call

    def _returned(self, event: Event, fact: AgentReturned) -> None:
        call = self._take_call(event)
        if call is None:
            return
        if fact.truncated:
            call.attributes[names.FINISH_REASONS] = ("length",)
        if fact.tally is None:  # else it is a run, which has these in its own trace
            self._open.use(call, fact.usage)
        result = names.OUTPUT_MESSAGES if call.client else names.TOOL_RESULT
        call.texts += ((result, event),)
        self._open.close(call, event.time)

    def _call_failed(self, event: Event, fact: AgentCallFailed) -> None:
        call = self._take_call(event)
        if call is None:
            return
        self._open.use(call, fact.usage)
        if fact.retry_in is not None:
            call.attributes[names.RETRY_IN] = fact.retry_in
        self._open.close(call, event.time, error=fact.error, message=fact.message)

    def _take_call(self, event: Event) -> OpenSpan | None:
        """The call that ends; the first attempt of a turn that is a single call began with the turn."""
        if self._open.muted:
            return None
        if (call := self._calls.pop(event.key, None)) is not None:
            return call
        around = self._open.asks.get(nearest_key(event.scope, self._open.asks))
        number = event.fact.attempt if isinstance(event.fact, AgentReturned | AgentCallFailed) else 1
        begin = event.time if around is None else around.begin
        name = f"call {key_segments(event.key)[-1]}"
        return OpenSpan("call", event.key, name, begin, self._open.parent(event.scope), {names.ATTEMPT: number}, number)

    def _answered(self, event: Event, _: PersonAnswered) -> None:
        self._open.close(self._waits.pop(event.key, None), event.time)

    def _team_started(self, event: Event, fact: TeamStarted) -> None:
        if (around := self._open.asks.get(event.scope)) is not None:
            around.attributes[names.STRATEGY] = fact.strategy

    def _person_asked(self, event: Event, fact: PersonAsked) -> None:
        question = fact.question
        attributes: Attributes = {names.QUESTION: question.reason}
        if question.to:
            attributes[names.ASKED] = question.to
        if not self._open.muted:
            name = f"wait for {question.to or 'a person'}"
            self._waits[event.key] = OpenSpan(
                "question", event.key, name, event.time, self._open.parent(event.scope), attributes
            )

    def _evaluation_started(self, event: Event, fact: TeamEvaluationStarted) -> None:
        if self._open.muted:
            return
        key = parent_key(event.key)
        work = join_key(event.scope, fact.work)
        attributes: Attributes = {names.MEMBER: fact.member, names.AGENT: fact.evaluator, names.ATTEMPT: fact.attempt}
        made = OpenSpan(
            "evaluation", key, f"evaluate {fact.member}", event.time, self._open.parent(event.scope), attributes
        )
        made.links = (SpanLink(trace_id=self._open.trace, span_id=span_id(self._open.run_id, "ask", work), to="work"),)
        self._evaluations[key] = made

    def _evaluated(self, event: Event, fact: TeamEvaluationResult) -> None:
        verdict, open_ = fact.verdict, self._evaluations.pop(parent_key(event.key), None)
        if open_ is None:
            return
        attributes: Attributes = {
            names.EVALUATION_NAME: str(open_.attributes[names.AGENT]),
            names.EVALUATION_LABEL: verdict.outcome,
        }
        if verdict.score is not None:
            attributes[names.EVALUATION_SCORE] = verdict.score
        open_.notes.append(SpanEvent(name=names.EVALUATION, time=event.time, attributes=attributes))
        open_.texts = ((names.EVALUATION_EXPLANATION, event),)
        self._open.close(open_, event.time)


def _caller(open_: OpenSpans, drives: int, origin: Origin | None) -> tuple[SpanLink, ...]:
    """The link of a drive to the one before, or that of the first drive to the run that it comes from."""
    if drives > 1:
        before = span_id(open_.run_id, "drive", "", drives - 1)
        return (SpanLink(trace_id=open_.trace, span_id=before, to="drive"),)
    if origin is None:
        return ()
    caller = span_id(origin.run_id, "drive")
    if origin.how == "place":
        caller = span_id(origin.run_id, "ask", parent_key(origin.key))
    return (SpanLink(trace_id=trace_id(origin.run_id), span_id=caller, to=origin.how),)


def _describe_chat(call: OpenSpan, name: str, max_output: int | None) -> None:
    provider, model = split_model(name)
    call.name, call.client = f"{names.CHAT} {model}", True
    call.attributes |= {names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: model}
    if max_output is not None:
        call.attributes[names.MAX_TOKENS] = max_output


def split_model(name: str) -> tuple[str, str]:
    """Return the provider of a model and its own name; a server that a manifest names speaks as OpenAI does."""
    provider, colon, model = name.partition(":")
    if not colon:
        return (name, name) if name in OWN else ("openai", name)
    if provider in PROVIDERS or provider in OWN:
        return names.PROVIDERS.get(provider, provider), model
    return "openai", name


def spans_of(events: Sequence[Event], *, driven: bool = False) -> list[Span]:
    """Return the spans of a run in the order in which they ended; those that are open, unless it is `driven` now."""
    found = SpanFold()
    for event in events:
        found.apply(event)
    if not driven:
        found.cut_off()
    return found.take()
