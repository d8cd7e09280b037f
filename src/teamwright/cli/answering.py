"""Answers the questions that runs ask: what an answer says, which question it is for, and what is open."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.wording import draft_text, question_text
from teamwright.errors import UsageError
from teamwright.runtime.notifying import answer_command, resume_command
from teamwright.values.people import Answer

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.runtime.engine import Engine
    from teamwright.values.people import Question

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
        asked, live = (await engine.history(run_id)).questions(), engine.journal.is_driven(run_id)
        return cls(run_id, asked, await engine.answers(run_id), live)

    def which(self, key: str | None) -> str:
        """The key of the question that is meant: the given one, or the only one that nobody has answered."""
        if key is not None:
            return key
        left = [one for one in self.questions if one not in self.answers] or list(self.questions)
        if not left:
            raise UsageError(f"Run {self.run_id!r} has no open question.")
        if len(left) > 1:
            listed = "\n".join(f"  --key {one}   {self.questions[one].text}" for one in left)
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
            if (answer := self.answers.get(key)) is not None:
                told.append(f"  answered: {answer.text}{f', by {answer.by}' if answer.by else ''}")
            told.append(f"  {answer_command(self.run_id, key, question)}")
        then = [] if self.live else [f"then: {resume_command(self.run_id)}"]
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
