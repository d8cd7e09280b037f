"""Answers the questions that runs ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.errors import UsageError
from teamwright.values.people import Answer

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.people import Question


async def give(engine: Engine, run_id: str, key: str | None, text: str, by: str) -> str:
    """Send an answer to the open question that is meant, and return its key."""
    chosen = key if key is not None else _only(run_id, (await engine.history(run_id)).questions())
    await engine.answer(run_id, chosen, Answer(text=text, by=by))
    return chosen


def _only(run_id: str, asked: dict[str, Question]) -> str:
    if not asked:
        raise UsageError(f"Run {run_id!r} has no open question.")
    if len(asked) > 1:
        listed = "\n".join(f"  --key {key}   {question.text}" for key, question in asked.items())
        raise UsageError(f"Run {run_id!r} has {len(asked)} open questions; choose one with --key:\n{listed}")
    return next(iter(asked))
