"""Everything that waits for a person, over all runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, JsonValue

from teamwright.errors import TeamwrightError
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Answered
from teamwright.values.people.questions import Question
from teamwright.values.results import FINAL, RunSummary, iso

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine


class WaitingQuestion(BaseModel):
    """A question of a run. `answered` says that its answer is sent and not used yet."""

    run_id: str
    team: str
    key: str
    text: str
    choices: list[str]
    to: str
    reason: str
    draft: str | None
    form: str
    about: str
    asked_at: str
    answered: bool


@dataclass(frozen=True, slots=True)
class _Read:
    number: int
    questions: dict[str, tuple[Question, str]]


class Inbox:
    """Reads the open questions of runs. A run is read again only after events that can change them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read: dict[str, _Read] = {}

    async def questions(self) -> list[WaitingQuestion]:
        """Return what waits for a person in runs that have not ended, the newest run first."""
        open_ = [one for one in await self._engine.runs.list() if one.status not in FINAL and one.damage is None]
        self._read = {one.id: self._read[one.id] for one in open_ if one.id in self._read}
        found: list[WaitingQuestion] = []
        for summary in open_:
            try:
                found += await self.questions_of(summary)
            except TeamwrightError:  # deleted meanwhile, or a record that can't be read
                continue
        return found

    async def questions_of(self, summary: RunSummary) -> list[WaitingQuestion]:
        """Return what one run waits for."""
        read = await self._questions(summary.id)
        if not read.questions:
            return []
        sent = {
            item.intervention.key
            for item in await self._engine.journal.inbox(summary.id)
            if isinstance(item.intervention, Answered)
        }
        return [
            _waiting(summary, key, question, asked_at, answered=key in sent)
            for key, (question, asked_at) in read.questions.items()
        ]

    async def _questions(self, run_id: str) -> _Read:
        known = self._read.get(run_id)
        if known is not None:
            later = await self._engine.journal.read(run_id, known.number)
            if not any(_matters(event, known) for event in later):
                self._read[run_id] = _Read(later[-1].number if later else known.number, known.questions)
                return known
        history = await self._engine.runs.history(run_id)
        asked = {event.key: iso(event.time) for event in history.events if event.kind == "person.asked"}
        questions = {key: (one, asked.get(key, "")) for key, one in history.questions().items()}
        self._read[run_id] = _Read(history.number, questions)
        return self._read[run_id]


def _matters(event: Event, known: _Read) -> bool:
    """Whether an event can change what a run waits for: most of what a run records can't."""
    if event.kind in {"agent.replied", "agent.failed"}:
        return bool(known.questions)
    return event.domain == "person" or event.kind in {"run.paused", "run.resumed"}


def _waiting(summary: RunSummary, key: str, question: Question, asked_at: str, *, answered: bool) -> WaitingQuestion:
    fields: dict[str, JsonValue] = question.to_json()
    return WaitingQuestion.model_validate(
        {**fields, "run_id": summary.id, "team": summary.team, "key": key, "asked_at": asked_at, "answered": answered}
    )
