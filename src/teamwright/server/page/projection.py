"""The projection of a run: each event of its journal yields zero or more page events, the same live and afterwards.

It is a fold: it does no I/O and reads no clock. A reader that joins in the middle catches up with the events before.
Pieces of replies are masked as one text from the beginning of their part, with offsets of what is shown. A piece whose
beginning is not known is never shown: it could be the inside of a secret.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from teamwright.history.event_notes import detail_text, mark_of, note_text
from teamwright.history.event_texts import bodies_of
from teamwright.history.record.asks import RecordedBodies
from teamwright.server.page.asks import (
    ToolCallAtWork,
    project_asked,
    project_call_failed,
    project_called,
    project_failed,
    project_rejected,
    project_replied,
    project_returned,
)
from teamwright.server.page.builder import EventBuilder
from teamwright.server.page.page_events import DeltaPart, PageDelta, PageEvent, PageNote, PageWarning
from teamwright.server.page.run_events import project_run
from teamwright.server.page.state import PageState
from teamwright.server.page.teams import project_team, reopen_plan
from teamwright.server.page.waits import BudgetView, Waits
from teamwright.values.events.agent import (
    AgentAbandoned,
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentCallRejected,
    AgentCompacted,
    AgentFailed,
    AgentProgressed,
    AgentReplied,
    AgentReturned,
    Body,
    WorkspaceConflicted,
    WorkspaceKept,
    WorkspaceWritten,
)
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event, Fact, ThinkingDelta
from teamwright.values.events.run import PersonAsked, RunLogged, RunMeasured, RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened
from teamwright.values.people import Question
from teamwright.values.text.secret_patterns import MaskedStream, mask_text

ENDINGS = (AgentReturned, AgentCallFailed, AgentReplied, AgentFailed, AgentAbandoned)
"""What replaces the pieces of a turn."""
Part = tuple[str, int]


class PageProjection:
    """Folds the events of one run into page events."""

    def __init__(self) -> None:
        self._state = PageState()
        self._budget = BudgetView()
        self._waits = Waits()
        self._calls: dict[str, ToolCallAtWork] = {}
        self._deltas = DeltaStreams(self._state)

    def apply(self, event: Event, bodies: RecordedBodies) -> list[PageEvent]:
        """Apply the next event, and return its page events."""
        return self._project(EventBuilder(self._state, event, bodies, bodies))

    def catch_up(self, event: Event, bodies: RecordedBodies) -> None:
        """Apply an event whose page events the reader has already."""
        self._project(EventBuilder(self._state, event, None, bodies))

    def delta(self, piece: AnyDelta) -> PageDelta | None:
        """Return a piece of a reply for the page; what may be the beginning of a secret is held back."""
        return self._deltas.project(piece)

    def written(self) -> list[PageDelta]:
        """Return what is being written so far, each part as one piece, for a reader that has just come."""
        return self._deltas.written()

    def _project(self, builder: EventBuilder) -> list[PageEvent]:
        fact = builder.event.fact
        self._deltas.end(builder.event)
        if not self._project_ask(builder, fact) and not project_run(builder, fact) and not project_team(builder, fact):
            self._note(builder, fact)
        self._waits.project(builder, fact)
        self._budget.project(builder, fact)
        return builder.made

    def _project_ask(self, builder: EventBuilder, fact: Fact) -> bool:
        match fact:
            case AgentAsked():
                project_asked(builder, fact)
            case AgentReplied():
                project_replied(builder, fact)
            case AgentFailed():
                project_failed(builder, fact)
            case AgentCalled():
                project_called(builder, fact, self._calls)
                return not fact.in_doubt
            case AgentReturned():
                project_returned(builder, fact, self._calls)
            case AgentCallFailed():
                return project_call_failed(builder, fact, self._calls)
            case AgentCallRejected():
                project_rejected(builder, fact)
            case _:
                return False
        return True

    def _note(self, builder: EventBuilder, fact: Fact) -> None:
        """Add a note or a warning in words for a fact that has no page event of its own."""
        event = builder.event
        match fact:
            case TeamEnded():
                builder.team.ended = fact
            case TeamReopened():
                self._state.reopen(event, fact)
                reopen_plan(builder)
            case AgentProgressed(name=name, text=text, done=done):
                self._add_note(builder, f"{name}: {text}", done)
            case RunLogged(level="debug" | "info", text=text):
                self._add_note(builder, text)
            case RunMeasured(name=name, value=value):
                self._add_note(builder, f"{name}: {value:g}")
            case _:
                self._add_words(builder)

    def _add_words(self, builder: EventBuilder) -> None:
        event = builder.event
        if text := note_text(event):
            ask = self._state.ask_around(event.scope)
            expert = None if ask is None or ask.is_team else ask.expert
            kind = PageNote if mark_of(event) == "·" else PageWarning
            builder.add(kind(**builder.head(expert), text=mask_text(text), code=event.kind))
        elif text := detail_text(event):
            self._add_note(builder, text)

    def _add_note(self, builder: EventBuilder, text: str, done: float | None = None) -> None:
        ask = self._state.ask_around(builder.event.scope)
        expert = None if ask is None or ask.is_team else ask.expert
        builder.add(PageNote(**builder.head(expert), text=mask_text(text), code=builder.event.kind, done=done))


def needed_bodies(event: Event, *, catching_up: bool = False) -> Collection[Body]:
    """Return the hashes of the texts that a projection needs for an event."""
    match event.fact:
        case RunStarted(task=task, manifest=manifest):
            return (manifest,) if catching_up else (task, manifest)
        case PersonAsked(question=Question(form="json"), draft=str() as proposed) if catching_up:
            return (proposed,)  # it may be a plan
        case _ if catching_up:
            return ()
        case AgentReplied() | AgentFailed() as ending:
            refs = ending.messages if event.scope else ending.messages[-1:]  # the run's team repeats its members
            return [*(ref.body for ref in refs), *([] if ending.data is None else [ending.data])]
        case WorkspaceKept() | WorkspaceConflicted() | WorkspaceWritten() | AgentCompacted():
            return ()
        case _:
            return tuple(bodies_of(event))


class DeltaStreams:
    """The parts that the open turns are writing now."""

    def __init__(self, state: PageState) -> None:
        self._state, self._masked = state, MaskedDeltas()

    def project(self, piece: AnyDelta) -> PageDelta | None:
        """Return what a piece adds to the page; `None` where it is held back, or its turn is over."""
        if self._state.ask_around(piece.key) is None:
            return None
        shown = self._masked.masked(piece)
        return None if shown is None else self._shown(shown)

    def written(self) -> list[PageDelta]:
        """Return what the page shows of each part so far, for a reader that has just come."""
        return [shown for one in self._masked.written() if (shown := self._shown(one)) is not None]

    def end(self, event: Event) -> None:
        """Forget a turn that is over."""
        self._masked.end(event)

    def _shown(self, piece: AnyDelta) -> PageDelta | None:
        ask = self._state.ask_around(piece.key)
        if ask is None:
            return None
        is_call = isinstance(piece, ArgumentsDelta)
        part: DeltaPart = "arguments" if is_call else "thinking" if isinstance(piece, ThinkingDelta) else "text"
        return PageDelta(
            key=piece.key,
            scope=ask.team.scope,
            expert=ask.expert,
            part=part,
            text=piece.text,
            offset=piece.offset,
            attempt=piece.attempt,
            tool=piece.tool if is_call else "",
            call=piece.call if is_call else 0,
        )


@dataclass(slots=True)
class _MaskedPart:
    """One part of a response: what began it, and what is shown of it."""

    first: AnyDelta
    stream: MaskedStream = field(default_factory=MaskedStream)
    shown: list[str] = field(default_factory=list[str])
    length: int = 0


class MaskedDeltas:
    """The parts that are being written in one run. The last word of a part is held back until the next piece."""

    def __init__(self) -> None:
        self._turns: dict[str, dict[Part, _MaskedPart]] = {}

    def masked(self, delta: AnyDelta) -> AnyDelta | None:
        """Return a piece with secrets masked, at its place in the masked part; `None` if nothing of it is shown."""
        place = delta.kind, delta.call if isinstance(delta, ArgumentsDelta) else 0
        parts = self._turns.setdefault(delta.key, {})
        if delta.offset == 0:
            parts[place] = _MaskedPart(delta)
        part = parts.get(place)
        if part is None or part.first.attempt != delta.attempt:
            return None
        shown, offset = part.stream.feed(delta.text), part.length
        if not shown:
            return None
        part.shown.append(shown)
        part.length += len(shown)
        return delta.changed(text=shown, offset=offset)

    def written(self) -> list[AnyDelta]:
        """Return what is shown so far of each part, as one piece that begins it."""
        found: list[AnyDelta] = []
        for part in (one for parts in self._turns.values() for one in parts.values() if one.shown):
            part.shown = ["".join(part.shown)]
            found.append(part.first.changed(text=part.shown[0], offset=0))
        return found

    def end(self, event: Event) -> None:
        """Forget the parts of a turn when its record replaces them."""
        if isinstance(event.fact, ENDINGS):
            self._turns.pop(event.scope, None)
            self._turns.pop(event.key, None)
