"""The projection of a run: each event of its journal yields zero or more page events, the same live and afterwards.

It is a fold: it does no I/O and reads no clock. A reader that joins in the middle catches up with the events before.
"""

from __future__ import annotations

from collections.abc import Collection

from teamwright.history.event_texts import bodies_of
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.wording import detail_text, mark_of, note_text
from teamwright.server.page.page_events import PageDelta, PageEvent, PageNote, PageWarning
from teamwright.server.page.projection.asks import (
    ToolCallAtWork,
    project_asked,
    project_call_failed,
    project_called,
    project_failed,
    project_rejected,
    project_replied,
    project_returned,
)
from teamwright.server.page.projection.budgets import BudgetView
from teamwright.server.page.projection.deltas import DeltaStreams
from teamwright.server.page.projection.draft import PageDraft
from teamwright.server.page.projection.run_events import project_run
from teamwright.server.page.projection.stage import Stage
from teamwright.server.page.projection.teams import project_team, reopen_plan
from teamwright.server.page.projection.waits import Waits
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentCallRejected,
    AgentCompacted,
    AgentFailed,
    AgentProgressed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.body import Body
from teamwright.values.events.event import AnyDelta, Event, Fact
from teamwright.values.events.person import PersonAsked
from teamwright.values.events.run import RunLogged, RunMeasured, RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened
from teamwright.values.events.workspace import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
from teamwright.values.people.questions import Question
from teamwright.values.secrets.patterns import mask_text


class PageProjection:
    """Folds the events of one run into page events."""

    def __init__(self) -> None:
        self._stage = Stage()
        self._budget = BudgetView()
        self._waits = Waits()
        self._calls: dict[str, ToolCallAtWork] = {}
        self._deltas = DeltaStreams(self._stage)

    def apply(self, event: Event, bodies: RecordedBodies) -> list[PageEvent]:
        """Apply the next event, and return its page events."""
        return self._project(PageDraft(self._stage, event, bodies, bodies))

    def catch_up(self, event: Event, bodies: RecordedBodies) -> None:
        """Apply an event whose page events the reader has already."""
        self._project(PageDraft(self._stage, event, None, bodies))

    def delta(self, piece: AnyDelta) -> PageDelta | None:
        """Return a piece of a reply for the page; what may be the beginning of a secret is held back."""
        return self._deltas.project(piece)

    def written(self) -> list[PageDelta]:
        """Return what is being written so far, each part as one piece, for a reader that has just come."""
        return self._deltas.written()

    def _project(self, draft: PageDraft) -> list[PageEvent]:
        fact = draft.event.fact
        self._deltas.end(draft.event)
        if not self._project_ask(draft, fact) and not project_run(draft, fact) and not project_team(draft, fact):
            self._note(draft, fact)
        self._waits.project(draft, fact)
        self._budget.project(draft, fact)
        return draft.made

    def _project_ask(self, draft: PageDraft, fact: Fact) -> bool:
        match fact:
            case AgentAsked():
                project_asked(draft, fact)
            case AgentReplied():
                project_replied(draft, fact)
            case AgentFailed():
                project_failed(draft, fact)
            case AgentCalled():
                project_called(draft, fact, self._calls)
                return not fact.in_doubt
            case AgentReturned():
                project_returned(draft, fact, self._calls)
            case AgentCallFailed():
                return project_call_failed(draft, fact, self._calls)
            case AgentCallRejected():
                project_rejected(draft, fact)
            case _:
                return False
        return True

    def _note(self, draft: PageDraft, fact: Fact) -> None:
        """Add a note or a warning in words for a fact that has no page event of its own."""
        event = draft.event
        match fact:
            case TeamEnded():
                draft.team.ended = fact
            case TeamReopened():
                self._stage.reopen(event, fact)
                reopen_plan(draft)
            case AgentProgressed(name=name, text=text, done=done):
                self._add_note(draft, f"{name}: {text}", done)
            case RunLogged(level="debug" | "info", text=text):
                self._add_note(draft, text)
            case RunMeasured(name=name, value=value):
                self._add_note(draft, f"{name}: {value:g}")
            case _:
                self._add_words(draft)

    def _add_words(self, draft: PageDraft) -> None:
        event = draft.event
        if text := note_text(event):
            ask = self._stage.ask_around(event.scope)
            expert = None if ask is None or ask.is_team else ask.expert
            kind = PageNote if mark_of(event) == "·" else PageWarning
            draft.add(kind(**draft.head(expert), text=mask_text(text), code=event.kind))
        elif text := detail_text(event):
            self._add_note(draft, text)

    def _add_note(self, draft: PageDraft, text: str, done: float | None = None) -> None:
        ask = self._stage.ask_around(draft.event.scope)
        expert = None if ask is None or ask.is_team else ask.expert
        draft.add(PageNote(**draft.head(expert), text=mask_text(text), code=draft.event.kind, done=done))


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
