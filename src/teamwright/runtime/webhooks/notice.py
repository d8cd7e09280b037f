"""The notice that a webhook receives when a run waits for a person: open questions, and commands to continue."""

from __future__ import annotations

import os
from collections.abc import Mapping
from shlex import quote

from teamwright.values.models import JsonValue, Record
from teamwright.values.people import ACCEPT, NO, REVISE, SMALLER, STOP, YES, Question, is_confirmation, is_review
from teamwright.values.text.control_characters import visible
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.results import StopReason

LONGEST_DRAFT = 4000
SERVER = "TEAMWRIGHT_URL"
"""The variable with the address of the server, which a server sets for the runs that it drives."""


class Notice(Record, frozen=True):
    """Which run waits since which event, for what, and the commands that continue it."""

    run_id: str
    team: str
    stop_reason: StopReason
    checkpoint: int
    questions: tuple[dict[str, JsonValue], ...]
    answer: tuple[str, ...]
    resume: str
    url: str | None = None

    @classmethod
    def of(
        cls, run_id: str, team: str, stop_reason: StopReason, checkpoint: int, open_: Mapping[str, Question]
    ) -> Notice:
        """Create the notice for these open questions."""
        return cls(
            run_id=run_id,
            team=team,
            stop_reason=stop_reason,
            checkpoint=checkpoint,
            questions=tuple(_question_json(key, question) for key, question in open_.items()),
            answer=tuple(answer_command(run_id, key, question) for key, question in open_.items()),
            resume=resume_command(run_id),
            url=page_address(run_id),
        )


def page_address(run_id: str) -> str | None:
    """Return the address of a run on the page of a server; `None` if the environment names no server."""
    server = os.environ.get(SERVER, "").rstrip("/")
    return f"{server}/#/runs/{run_id}" if server else None


def answer_command(run_id: str, key: str | None, question: Question) -> str:
    """Return the command that answers a question; without a key if it is the only one."""
    which = f" --key {quote(key)}" if key is not None else ""
    if question.reason == "pause":
        return f"{resume_command(run_id)} --member {quote(question.about)}"
    command = f"teamwright runs answer {quote(run_id)}{which}"
    if is_confirmation(question):
        return f"{command} {YES}   (or {SMALLER} --max-usd X, {SMALLER} --max-tokens N, or {NO})"
    if is_review(question):
        return f'{command} {ACCEPT}   (or {REVISE} --note "…", or {STOP})'
    if question.reason == "approval":
        return f'{command} --approve   (or --reject "why", or --edit "…")'
    if question.choices:
        first, *others = map(quote, question.choices)
        return f"{command} {first}" + (f"   (or {', '.join(others)})" if others else "")
    return f'{command} "…"'


def resume_command(run_id: str) -> str:
    """Return the command that resumes a run."""
    return f"teamwright runs resume {quote(run_id)}"


def _question_json(key: str, question: Question) -> dict[str, JsonValue]:
    """Return a question as the reader of the notice sees it: only what looks like a secret is masked."""
    draft = None if question.draft is None else _masked(question.draft)
    if draft is not None and len(draft) > LONGEST_DRAFT:
        draft = draft[:LONGEST_DRAFT] + "…"
    return {
        "key": key,
        "text": _masked(question.text),
        "choices": list(question.choices),
        "reason": question.reason,
        "to": question.to,
        "draft": draft,
    }


def _masked(text: str) -> str:
    return mask_text(visible(text))
