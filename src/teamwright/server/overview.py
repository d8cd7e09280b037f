"""All runs at once: the rows of a list with their changes as they happen, and everything that waits for a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs
from pydantic import BaseModel, JsonValue

from teamwright.errors import TeamwrightError
from teamwright.journal.run_filter import ALL_RUNS, RunFilter
from teamwright.runtime.recorded.reader import read_texts
from teamwright.runtime.tasks import BackgroundTasks
from teamwright.server.frames import Item
from teamwright.server.masked_json import unmasked
from teamwright.values.events.event import Event
from teamwright.values.people import EDIT, Answered, Question
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import SPARSE, RunSummary, iso

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine


TASK_LENGTH = 240
"""How many characters of a task a list shows."""
SHOWN = 500
"""How many of the newest runs are watched for changes."""
MOST_SEARCHED, SEARCHED_AT_ONCE = 2000, 200
"""How many runs one page of a search looks at: their tasks are in the journal, where nothing finds them by a word."""
MOST_TASKS = 20_000
"""How many tasks are remembered."""
SOON, LATER = 0.4, 1.0
"""Seconds until changes of runs of this engine, and of other processes, are looked for."""


class RunRow(BaseModel):
    """A run in a list."""

    id: str
    team: str
    status: str
    stop_reason: str | None
    task: str
    started_at: str
    seconds: float
    total_tokens: int
    usd: float | None
    conversation: str
    damage: str | None
    parent: str
    driver: str

    def has(self, words: Sequence[str]) -> bool:
        """Whether its id, team, conversation and task have all these words, which are in small letters."""
        text = f"{self.id} {self.team} {self.conversation} {self.task}".casefold()
        return all(word in text for word in words)


class RunPage(NamedTuple):
    """Some runs of a list; the next page begins after the run `next`, and there is none without it."""

    rows: list[RunRow]
    next: str | None


class Overview:
    """Lists runs, and tells watchers which rows have changed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: dict[str, str] = {}
        self._rows: dict[str, RunRow] = {}
        self._watchers: dict[asyncio.Queue[str], set[str]] = {}
        self._watching = BackgroundTasks()
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Watch runs within this block, while there is a watcher."""
        await self._watching.open()
        try:
            self._watching.group().start_soon(self._watch)
            yield
        finally:
            await self._watching.close()

    async def page(
        self, limit: int, which: RunFilter = ALL_RUNS, *, search: str = "", parent: str | None = None
    ) -> RunPage:
        """Return a page of the runs that fit; `search` looks at ids, teams, conversations and tasks.

        Child runs are left out, because the figures of their parent include theirs; with `parent`, they are all. A
        search looks at so many runs at most: its page may be short, or empty, and still have a next one.
        """
        journal, words = self._engine.journal, search.casefold().split()
        rows: list[RunRow] = []
        if parent is not None:
            children = which.pick(await journal.children([parent]), limit)
            return RunPage([await self.row(one) for one in children], None)
        after, searched = which.after, 0
        while len(rows) < limit and searched < MOST_SEARCHED:
            size = SEARCHED_AT_ONCE if words else limit + 1
            found = await journal.top_runs(size, structs.replace(which, after=after))
            for left, summary in zip(range(len(found) - 1, -1, -1), found, strict=True):
                row = await self.row(summary)
                after, searched = summary.id, searched + 1
                if row.has(words):
                    rows.append(row)
                if len(rows) == limit:
                    return RunPage(rows, after if left or len(found) == size else None)
            if len(found) < size:
                return RunPage(rows, None)
        return RunPage(rows, after)

    async def row(self, summary: RunSummary) -> RunRow:
        task = await self._task(summary)
        return RunRow.model_validate({**dict.fromkeys(SPARSE, ""), "damage": None, **summary.to_json(), "task": task})

    async def changes(self) -> AsyncGenerator[Item]:
        """Yield the rows of the newest runs, then `ready`, then each row that has changed."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._watchers[queue] = set()  # before the rows are read, so that no change is missed
        try:
            with self._engine.bus.observing(lambda _: self._changed.set()):
                rows = (await self.page(SHOWN)).rows
                self._rows = {row.id: row for row in rows} | self._rows
                self._watched.set()
                for row in reversed(rows):
                    yield _item(row)
                yield {"kind": "ready"}
                while True:
                    run_id = await queue.get()
                    self._watchers[queue].discard(run_id)
                    if (row := self._rows.get(run_id)) is not None:
                        yield _item(row)
                    else:
                        yield {"kind": "deleted", "run_id": run_id}
        finally:
            del self._watchers[queue]

    async def _task(self, summary: RunSummary) -> str:
        if summary.id not in self._tasks and summary.damage is None:
            if len(self._tasks) >= MOST_TASKS:
                self._tasks.clear()
            with suppress(TeamwrightError):
                for event in await self._engine.journal.read(summary.id, 0, 1):
                    task = str((await read_texts(self._engine.journal, event)).get("task", ""))
                    self._tasks[summary.id] = task[:TASK_LENGTH]
        return self._tasks.get(summary.id, "")

    async def _watch(self) -> None:
        while True:
            if not self._watchers:
                self._rows.clear()
                self._watched.clear()
                await self._watched.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LATER):
                    await self._changed.wait()
            self._changed.clear()
            with suppress(TeamwrightError):
                await self._refresh()
            await asyncio.sleep(SOON)

    async def _refresh(self) -> None:
        rows = {row.id: row for row in (await self.page(SHOWN)).rows}
        changed = [id_ for id_, row in rows.items() if _differs(self._rows.get(id_), row)]
        # A run that is older than all these was not deleted: newer ones have taken its place.
        oldest = min((row.started_at for row in rows.values()), default="") if len(rows) >= SHOWN else ""
        gone = [id_ for id_, row in self._rows.items() if id_ not in rows and row.started_at > oldest]
        self._rows = rows
        for queue, waiting in self._watchers.items():
            for run_id in (*changed, *gone):
                if run_id not in waiting:  # the latest row counts, so that a slow watcher has each run at most once
                    waiting.add(run_id)
                    queue.put_nowait(run_id)


def _differs(before: RunRow | None, row: RunRow) -> bool:
    """Whether a row shows anything new; the time of a live run passes by itself."""
    return before is None or before.model_copy(update={"seconds": row.seconds}) != row


def _item(row: RunRow) -> Item:
    return {"kind": "row", "run_id": row.id, "run": row.model_dump()}


class WaitingQuestion(BaseModel):
    """A question of a run. `answered` says that its answer is sent and not used yet, which one that is `paused` does
    once it is resumed.
    """

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
    paused: bool

    def unmasked(self, text: str, data: JsonValue) -> tuple[str, JsonValue]:
        """Restore the secrets of a draft that was edited, and of a choice that was made."""
        choices = {mask_text(one): one for one in self.choices}
        if self.draft is None or text != EDIT:
            return choices.get(text, text), data
        if self.form == "json" and not isinstance(data, str):
            return text, unmasked(data, json.loads(self.draft), json.loads(mask_text(self.draft)))
        return text, unmasked(data, self.draft)


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
        open_ = [one for one in await self._engine.journal.open_runs() if one.damage is None]
        self._read = {one.id: self._read[one.id] for one in open_ if one.id in self._read}
        found: list[WaitingQuestion] = []
        for summary in open_:
            try:
                found += await self.questions_of(summary)
            except TeamwrightError:  # deleted meanwhile, or a record that can't be read
                continue
        return found

    async def open_questions(self, summary: RunSummary) -> list[WaitingQuestion]:
        """Return what a run waits for and has no answer yet."""
        return [one for one in await self.questions_of(summary) if not one.answered]

    async def questions_of(self, summary: RunSummary) -> list[WaitingQuestion]:
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
        {
            **fields,
            "run_id": summary.id,
            "team": summary.team,
            "key": key,
            "asked_at": asked_at,
            "answered": answered,
            "paused": summary.status == "paused",
        }
    )
