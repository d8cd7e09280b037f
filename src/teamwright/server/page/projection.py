"""The projection of a run: each event of its journal yields zero or more page events, the same live and afterwards.

It is a fold: it does no I/O and reads no clock; `PageReader` and `read_page_events` read a recorded run through it. A
reader that joins in the middle catches up with the events before. Pieces of replies are masked as one text from the
beginning of their part. A piece whose beginning is not known is never shown: it could be the inside of a secret.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from teamwright.errors import UnknownName
from teamwright.history.event_wording import detail_text, mark_of, note_text
from teamwright.history.recorded_asks import RecordedBodies, bodies_of
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.runtime.recorded.reader import read_events
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
from teamwright.server.page.page_events import DeltaPart, PageArtifact, PageDelta, PageEvent, PageNote, PageWarning
from teamwright.server.page.page_state import EventBuilder, PageState, page_artifacts
from teamwright.server.page.run_events import BudgetView, Waits, project_run
from teamwright.server.page.teams import project_team, reopen_plan
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
    WorkspacePatched,
    WorkspaceRefused,
    WorkspaceWritten,
)
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event, Fact, ThinkingDelta
from teamwright.values.events.run import PersonAsked, RunLogged, RunMeasured, RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened
from teamwright.values.people import Question
from teamwright.values.text.secrets import MaskedStream, mask_text
from teamwright.values.turns.artifacts import BYTES, Artifact

ENDINGS = (AgentReturned, AgentCallFailed, AgentReplied, AgentFailed, AgentAbandoned)
"""What replaces the pieces of a turn."""
Part = tuple[str, int]
BATCH = 200
"""The events whose texts are read at once."""
LARGE_BATCH = 2000
"""The same for a reader that keeps all of them anyway: each batch waits twice for the thread that reads the journal."""
NO_BODIES = RecordedBodies()


class PageProjection:
    """Folds the events of one run into page events."""

    def __init__(self) -> None:
        self._state = PageState()
        self._budget = BudgetView()
        self._waits = Waits()
        self._calls: dict[str, ToolCallAtWork] = {}
        self._deltas = DeltaStreams(self._state)

    def apply(self, event: Event, bodies: RecordedBodies) -> list[PageEvent]:
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
        case WorkspacePatched() | WorkspaceRefused():
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
            steps=piece.steps,
            tool=piece.tool if is_call else "",
            call=piece.call if is_call else 0,
        )


@dataclass(slots=True)
class _MaskedPart:
    """One part of a response: what began it, and what is shown of it."""

    first: AnyDelta
    stream: MaskedStream = field(default_factory=MaskedStream)
    shown: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])
    held_steps: list[str] = field(default_factory=list[str])
    """Steps whose text is held back."""
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
        part.held_steps += delta.steps
        if not shown:
            return None
        steps = tuple(part.held_steps)
        part.steps += steps
        part.held_steps.clear()
        part.shown.append(shown)
        part.length += len(shown)
        return delta.changed(text=shown, offset=offset, steps=steps)

    def written(self) -> list[AnyDelta]:
        """Return what is shown so far of each part, as one piece that begins it."""
        found: list[AnyDelta] = []
        for part in (one for parts in self._turns.values() for one in parts.values() if one.shown):
            part.shown = ["".join(part.shown)]
            found.append(part.first.changed(text=part.shown[0], offset=0, steps=tuple(part.steps)))
        return found

    def end(self, event: Event) -> None:
        """Forget the parts of a turn when its record replaces them."""
        if isinstance(event.fact, ENDINGS):
            self._turns.pop(event.scope, None)
            self._turns.pop(event.key, None)


class PageReader:
    """Projects the events of one run, in order, and reads the texts that they need."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id
        self.projection = PageProjection()
        self.number = 0
        """The number of the last event that was applied."""

    async def catch_up(self, number: int) -> None:
        """Apply the events up to a number, whose page events the client has already."""
        while number > self.number:
            events = await self._journal.read(self._run_id, self.number, min(BATCH, number - self.number))
            if not events:
                return
            for event in events:
                self.projection.catch_up(event, await self._read(needed_bodies(event, catching_up=True)))
                self.number = event.number

    async def page_events(self, event: Event) -> list[PageEvent]:
        bodies = await self._read(needed_bodies(event))
        self.number = event.number
        return self.projection.apply(event, bodies)

    async def recorded(self, limit: int | None = None, batch: int = BATCH) -> AsyncGenerator[PageEvent]:
        """Yield the page events of all recorded events that were not applied yet, or of the first `limit` of them."""
        last = None if limit is None else self.number + limit
        while events := await self._journal.read(self._run_id, self.number, _batch(self.number, last, batch)):
            bodies = await self._read({body for event in events for body in needed_bodies(event)})
            for event in events:
                self.number = event.number
                for one in self.projection.apply(event, bodies):
                    yield one

    async def _read(self, needed: Collection[Body]) -> RecordedBodies:
        return RecordedBodies(await self._journal.bodies(needed)) if needed else NO_BODIES


def _batch(number: int, last: int | None, most: int) -> int:
    return most if last is None else min(most, last - number)


async def read_page_events(journal: Journal, run_id: str, after: int = 0, limit: int | None = None) -> list[PageEvent]:
    """Return the page events of the recorded events of a run after a number, or of the first `limit` of them."""
    reader = PageReader(journal, run_id)
    await reader.catch_up(after)
    return [event async for event in reader.recorded(limit, LARGE_BATCH)]


async def list_artifacts(journal: Journal, run_id: str) -> tuple[PageArtifact, ...]:
    """Return the artifacts of a run in the order in which they were stored, each once."""
    return page_artifacts(_artifacts(await read_events(journal, run_id)).values())


async def read_artifact(journal: Journal, run_id: str, hash: str) -> tuple[Artifact, bytes]:
    """Return an artifact of a run and its content; raises `UnknownName`. A text is masked."""
    found, content = await stored_artifact(journal, run_id, hash)
    return found, mask_text(content).encode() if isinstance(content, str) else content


async def stored_artifact(journal: Journal, run_id: str, hash: str) -> tuple[Artifact, bytes | str]:
    """Return an artifact of a run and its content as it is stored, which no client may see; raises `UnknownName`.

    The journal stores equal texts of all runs once, so a hash alone proves nothing: only what this run has stored can
    be read.
    """
    known = _artifacts(await read_events(journal, run_id))
    if hash not in known:
        raise UnknownName("artifact", hash, known)
    found = decode_body((await journal.bodies([hash]))[hash])
    if isinstance(found, dict) and BYTES in found:
        return known[hash], b64decode(str(found[BYTES]))
    return known[hash], str(found)


def _artifacts(events: Iterable[Event]) -> dict[str, Artifact]:
    return {one.hash: one for one in _stored(events)}


def _stored(events: Iterable[Event]) -> Iterator[Artifact]:
    for event in events:
        match event.fact:
            case RunStarted(attachments=found) | AgentReplied(artifacts=found) | AgentReturned(artifacts=found):
                yield from found
            case WorkspaceKept(artifact=artifact):
                yield artifact
            case _:
                pass
