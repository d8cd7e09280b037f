"""The confirmation of a run before it spends anything: its answers, and the lower ceiling that a person may set."""

from __future__ import annotations

import re
from math import isfinite
from typing import cast

from teamwright.errors import UsageError
from teamwright.values.key import join_key
from teamwright.values.models import JsonValue
from teamwright.values.people.questions import Answer, Question

YES, SMALLER, NO = "yes", "smaller", "no"
CONFIRM_CHOICES = (YES, SMALLER, NO)
CONFIRM = "confirm"
UNITS = ("tokens", "usd")
_WRITTEN = re.compile(r"\s*(?:(\$)\s*)?([0-9][0-9_., ]*)\s*(usd|dollars?|\$|tokens?)?\s*", re.IGNORECASE)


def confirmation_key(team: str) -> str:
    """Return the key of the question whether a run of a team may begin."""
    return join_key(team, CONFIRM)


def is_confirmation(question: Question) -> bool:
    """Whether a question asks for the confirmation of a run."""
    return question.reason == "approval" and question.choices == CONFIRM_CHOICES


def check_confirmation(key: str, given: Answer) -> Answer:
    """Return a valid answer to a confirmation; a smaller run needs a ceiling in tokens, dollars or both."""
    if given.text != SMALLER:
        return given
    return given.changed(data=cast("JsonValue", lower_ceiling(key, given.data)))


def lower_ceiling(key: str, data: JsonValue) -> dict[str, float]:
    """Return the ceiling of an answer: an object, or a text such as `0.50 usd` or `20000 tokens`."""
    if isinstance(data, str):
        data = cast("JsonValue", read_ceiling(data))
    if not isinstance(data, dict) or not data or not set(data) <= set(UNITS):
        raise UsageError(
            f"A smaller run at {key!r} needs its ceiling:  --max-usd X,  --max-tokens N  or both; in Python"
            '  Answer(text="smaller", data={"usd": 0.5}).'
        )
    found: dict[str, float] = {}
    for unit, amount in data.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not isfinite(amount) or amount <= 0:
            raise UsageError(f"The ceiling {unit} at {key!r} is {amount!r}; it must be a number above 0.")
        found[unit] = int(amount) if unit == "tokens" else float(amount)
    if found.get("tokens", 1) < 1:
        raise UsageError(f"The ceiling tokens at {key!r} must be at least 1.")
    return found


def read_ceiling(text: str) -> dict[str, float] | None:
    """Read a ceiling that a person has written: `0.50 usd`, `$2`, `20000 tokens`; `None` if it is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None or not (found[1] or found[3]):
        return None
    digits = re.sub(r"[_, ]", "", found[2])
    is_money = found[1] is not None or not found[3].casefold().startswith("token")
    try:
        return {"usd": float(digits)} if is_money else {"tokens": int(digits)}
    except ValueError:
        return None
