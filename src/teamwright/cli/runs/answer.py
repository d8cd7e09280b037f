"""Answers the questions that runs ask: what an answer says, which question it is for, and what is open."""

from __future__ import annotations

import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.text.events import draft_text, question_text, waiting_answer_text
from teamwright.errors import JournalError, UsageError
from teamwright.runtime.webhooks.notice import FOR_PEOPLE, answer_command, resume_command
from teamwright.values.people.interventions import Answered
from teamwright.values.people.questions import Answer
from teamwright.values.text.control_characters import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.people.questions import Question
    from teamwright.values.results import RunSummary

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as it was written on the command line: a text, or a decision about a draft."""

    text: str | None = None
    approve: bool = False
    reject: str | None = None
    edit: str | None = None
    edit_file: str | None = None
    by: str = ""

    def answer(self) -> Answer | None:
        """The answer, or nothing if none was given; one that says two things is refused."""
        ways = {
            "TEXT": self.text is not None,
            "--approve": self.approve,
            "--reject": self.reject is not None,
            "--edit": self.edit is not None,
            "--edit-file": self.edit_file is not None,
        }
        given = [way for way, used in ways.items() if used]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are different answers; give one of them.")
        if self.approve:
            return Answer.approve(by=self.by)
        if self.reject is not None:
            return Answer.reject(self.reject, by=self.by)
        if self.edit is not None or self.edit_file is not None:
            edited = self.edit if self.edit is not None else _content(str(self.edit_file))
            return Answer.edit(edited, by=self.by)
        return None if self.text is None else Answer(text=self.text, by=self.by)


@dataclass(frozen=True, slots=True)
class Open:
    """The open questions of a run, and what has been answered without having been taken yet."""

    run_id: str
    questions: dict[str, Question]
    answers: dict[str, Answer]
    live: bool = False

    @classmethod
    async def of(cls, engine: Engine, run_id: str) -> Open:
        """What is open now."""
        asked, live = (await engine.runs.history(run_id)).questions(), await engine.journal.is_driven(run_id)
        return cls(run_id, asked, await engine.runs.answers(run_id), live)

    def which(self, key: str | None) -> str:
        """The key of the question that is meant: the given one, or the only one that nobody has answered."""
        if key is not None:
            return key
        left = [one for one in self.questions if one not in self.answers] or list(self.questions)
        if not left:
            raise UsageError(f"Run {self.run_id!r} has no open question.")
        if len(left) > 1:
            listed = "\n".join(f"  --key {one}   {visible(self.questions[one].text)}" for one in left)
            raise UsageError(f"Run {self.run_id!r} has {len(left)} open questions; choose one with --key:\n{listed}")
        return left[0]

    def words(self) -> str:
        """Every question with what it is about and what to type."""
        if not self.questions:
            raise UsageError(f"Run {self.run_id!r} has no open question.")
        told: list[str] = []
        for key, question in self.questions.items():
            told += [f"{key}", textwrap.indent(question_text(question), "  ")]
            if question.draft:
                told.append(draft_text(question))
            command = answer_command(self.run_id, key, question)
            if (answer := self.answers.get(key)) is None:
                told.append(f"  {command}")
            else:
                told += [f"  {waiting_answer_text(answer)}", f"  change it with: {command}"]
        left = [key for key in self.questions if key not in self.answers]
        then = [] if self.live else [f"{'then' if left else 'all answered, go on with'}: {resume_command(self.run_id)}"]
        return "\n".join([*told, *then])

    def to_json(self) -> dict[str, JsonValue]:
        """The same as data."""
        listed: list[JsonValue] = []
        for key, question in self.questions.items():
            answer = self.answers.get(key)
            command = answer_command(self.run_id, key, question)
            told: dict[str, JsonValue] = {
                "key": key,
                "answer": answer.to_json() if answer else None,
                "command": command,
            }
            listed.append(question.to_json() | told)
        return {"run_id": self.run_id, "questions": listed, "resume": resume_command(self.run_id)}


def _content(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"The edit can't be read from {file!r}: {error}; name another file.") from error


async def answered_runs(journal: Journal, runs: Iterable[RunSummary]) -> frozenset[str]:
    """The paused runs whose questions have all been answered, so that they only have to be resumed."""
    from teamwright.history.history import RunHistory

    found: set[str] = set()
    for run in runs:
        if run.status != "paused" or run.stop_reason not in FOR_PEOPLE or run.damage:
            continue
        with suppress(JournalError):  # a record that can't be read is told where that run is looked at
            sent = [item.intervention for item in await journal.inbox(run.id)]
            keys = {one.key for one in sent if isinstance(one, Answered)}
            if keys and keys.issuperset((await RunHistory.load(journal, await journal.read(run.id))).questions()):
                found.add(run.id)
    return frozenset(found)
