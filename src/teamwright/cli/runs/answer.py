"""`teamwright runs answer`: answers a question of a run, or lists its open questions."""

from __future__ import annotations

import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import STDIN, MaxTokens, MaxUsd, Run
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.errors import JournalError, UsageError
from teamwright.values.text.display import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.people import Answer, Question
    from teamwright.values.turns.results import RunSummary

EDIT = "edit"
"""The answer about a draft that approves another text instead."""


def answer(
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[ANSWER]", help="The answer; about a draft: approve, reject, revise, or edit."),
    ] = None,
    detail: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="reject: why; revise: what is to be changed; edit: the text instead."),
    ] = None,
    *,
    key: Annotated[str | None, typer.Option("--key", help="Which question, if several are open.")] = None,
    edit_file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="edit: the text of this file; `-` is stdin.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Who answers, which is recorded.")] = "",
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Answer a question of a run, or list its open questions.

    A running run receives the answer at once, a paused one when it is resumed.

    Examples:
      teamwright runs answer last
      teamwright runs answer last "In May."
      teamwright runs answer last approve
      teamwright runs answer last reject "It names no price."
      teamwright runs answer last edit --file letter.txt
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        given = AnswerOptions(text, detail, edit_file, by, max_tokens, max_usd).to_answer()
        questions = await OpenQuestions.load(engine, found.id)
        if given is None:
            if json:
                write_json(questions.to_json(), out)
            else:
                write_result(questions.to_text(), out)
            return 0
        chosen = questions.choose(key)
        await engine.runs.answer(found.id, chosen, given)
        if json:
            write_json({"run_id": found.id, "key": chosen, "answer": given.text, "data": given.data}, out)
        else:
            write_result(f"answered {chosen}", out)
        if found.status != "running":
            say(questions.worker_hint or f"resume with: teamwright runs resume {found.id}")
        return 0

    return with_run(run, work)


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """An answer as given on the command line: a text, or a decision about a draft with what goes with it."""

    text: str | None = None
    detail: str | None = None
    edit_file: str | None = None
    by: str = ""
    max_tokens: int | None = None
    max_usd: float | None = None

    def to_answer(self) -> Answer | None:
        """Return the answer, or None if no option gives one; reject options that give several."""
        from teamwright.values.people import Answer

        if self.text == EDIT and (self.detail is not None or self.edit_file is not None):
            return Answer.edit(self._edited(), by=self.by)
        if self.edit_file is not None:
            raise UsageError(f"--file is the text of the answer {EDIT!r}; write it before it.")
        return None if self.text is None else Answer(text=self.text, data=self._data(), by=self.by)

    def _edited(self) -> str:
        if self.detail is not None and self.edit_file is not None:
            raise UsageError("TEXT and --file are different answers; give one of them.")
        return _read_edit(self.edit_file) if self.edit_file is not None else self.detail or ""

    def _data(self) -> JsonValue:
        """What goes with an answer: a reason, what is to be changed, or a lower ceiling."""
        from teamwright.values.people import REJECT, REVISE

        if self.detail is None:
            return self._ceiling()
        if self.text not in (REJECT, REVISE):
            raise UsageError(
                f"A second text belongs to the answers {REJECT!r}, {REVISE!r} and {EDIT!r}; quote an answer of several"
                " words."
            )
        return self.detail or None

    def _ceiling(self) -> JsonValue:
        """The lower ceiling for a run that waits for its confirmation."""
        from teamwright.values.people import SMALLER

        given = {"tokens": self.max_tokens, "usd": self.max_usd}
        ceiling: dict[str, JsonValue] = {unit: amount for unit, amount in given.items() if amount is not None}
        if ceiling and self.text != SMALLER:
            raise UsageError(f"--max-tokens and --max-usd belong to the answer {SMALLER!r}; write it before them.")
        return ceiling or None


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    """The open questions of a run, and answers that the run has not consumed yet."""

    run_id: str
    questions: dict[str, Question]
    answers: dict[str, Answer]
    live: bool = False
    queue: str = ""
    """The queue whose workers continue the run; empty if it was not submitted."""

    @classmethod
    async def load(cls, engine: Engine, run_id: str) -> OpenQuestions:
        from teamwright.values.events.run import RunQueued

        history, live = await engine.runs.history(run_id), await engine.journal.is_driven(run_id)
        queues = [event.fact.queue for event in history.events if isinstance(event.fact, RunQueued)]
        return cls(run_id, history.questions(), await engine.runs.answers(run_id), live, queues[-1] if queues else "")

    @property
    def worker_hint(self) -> str:
        """Who continues the run once it is answered; empty if it was not submitted, so that a person resumes it."""
        return self.queue and f"once all is answered, a worker of the queue {self.queue!r} continues"

    def choose(self, key: str | None) -> str:
        """Return the given key, or the key of the only unanswered question."""
        if key is not None:
            return key
        candidates = self._unanswered() or list(self.questions)
        if not candidates:
            raise UsageError(f"Run {self.run_id!r} has no open question.")
        if len(candidates) > 1:
            listed = "\n".join(f"  --key {one}   {visible(self.questions[one].text)}" for one in candidates)
            many = f"Run {self.run_id!r} has {len(candidates)} open questions"
            raise UsageError(f"{many}; choose one with --key:\n{listed}")
        return candidates[0]

    def to_text(self) -> str:
        """Each question with its draft and the command that answers it."""
        from teamwright.cli.terminal.result_wording import answer_hint, draft_text, pending_answer_text
        from teamwright.history.event_wording import question_text
        from teamwright.runtime.people.webhook import resume_command

        if not self.questions:
            raise UsageError(f"Run {self.run_id!r} has no open question.")
        lines: list[str] = []
        for key, question in self.questions.items():
            lines += [f"{key}", textwrap.indent(question_text(question), "  ")]
            if question.draft:
                lines.append(draft_text(question))
            command = answer_hint(self.run_id, key, question)
            if (answer := self.answers.get(key)) is None:
                lines.append(f"  {command}")
            else:
                lines += [f"  {pending_answer_text(answer)}", f"  change it with: {command}"]
        if not self.live:
            then = "then" if self._unanswered() else "all answered, resume with"
            lines.append(self.worker_hint or f"{then}: {resume_command(self.run_id)}")
        return "\n".join(lines)

    def _unanswered(self) -> list[str]:
        return [key for key in self.questions if key not in self.answers]

    def to_json(self) -> dict[str, JsonValue]:
        from teamwright.cli.terminal.result_wording import answer_hint
        from teamwright.runtime.people.webhook import resume_command

        listed: list[JsonValue] = []
        for key, question in self.questions.items():
            answer = self.answers.get(key)
            command = answer_hint(self.run_id, key, question)
            fields: dict[str, JsonValue] = {
                "key": key,
                "answer": answer.to_json() if answer else None,
                "command": command,
            }
            listed.append(question.to_json() | fields)
        return {"run_id": self.run_id, "questions": listed, "resume": resume_command(self.run_id)}


def _read_edit(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"The edit can't be read from {file!r}: {error}; name another file.") from error


async def answered_runs(journal: Journal, runs: Iterable[RunSummary]) -> frozenset[str]:
    """The ids of paused runs whose questions are all answered, so that they can be resumed."""
    from teamwright.history.run_history import RunHistory
    from teamwright.values.people import Answered
    from teamwright.values.turns.results import FOR_PEOPLE

    found: set[str] = set()
    for run in runs:
        if run.status != "paused" or run.stop_reason not in FOR_PEOPLE or run.damage:
            continue
        with suppress(JournalError):  # an unreadable record is reported by the commands that open that run
            sent = [item.intervention for item in await journal.inbox(run.id)]
            keys = {one.key for one in sent if isinstance(one, Answered)}
            if keys and keys.issuperset((await RunHistory.load(journal, await journal.read(run.id))).questions()):
                found.add(run.id)
    return frozenset(found)
