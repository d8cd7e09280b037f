"""Reads the chosen member from the reply of a selector. Only candidates count.

The order is fixed: structured output, the exact name, the name in other case, one name in prose. Any other reply is
unclear, with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.text.display import cut
from teamwright.values.turns.turn import Reply

MOST_SHOWN = 80
MOST_READ = 100_000
_WORD = re.compile(r"[\w.-]+", re.ASCII)
"""Words that may be names, with punctuation that may surround a name but is also part of some."""

How = Literal["structured", "exact", "case", "mention"]


class SelectorChoice(NamedTuple):
    """The chosen member, and how it was read."""

    name: str
    how: How


class UnclearChoice(NamedTuple):
    """Why a reply names no candidate."""

    reason: str


class Selection(BaseModel):
    """The structured output of a selector."""

    model_config = ConfigDict(extra="ignore")

    member: str


def selection_schema(names: Sequence[str]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a selection among these names."""
    member: JsonValue = {"type": "string", "enum": list[JsonValue](names), "description": "who speaks next"}
    return {"type": "object", "properties": {"member": member}, "required": ["member"], "additionalProperties": False}


def read_selection(reply: Reply, candidates: Sequence[str], members: Sequence[str]) -> SelectorChoice | UnclearChoice:
    """Return the candidate that a reply names; the other members only improve the reason of a failure."""
    found = read_answer(reply, _selection())
    if isinstance(found, ParseFailure):
        return _read(reply.text[:MOST_READ], candidates, members, "exact")
    return _read(found.member, candidates, members, "structured")


@cache
def _selection() -> TypeAdapter[Selection]:
    return TypeAdapter(Selection)


def _read(text: str, candidates: Sequence[str], members: Sequence[str], exact: How) -> SelectorChoice | UnclearChoice:
    answer = text.strip()
    if answer in candidates:
        return SelectorChoice(answer, exact)
    plain = answer.casefold()
    alike = [name for name in candidates if name.casefold() == plain]
    if len(alike) == 1:
        return SelectorChoice(alike[0], "case")
    words = _words(answer)
    mentioned = [name for name in candidates if name in words]
    if not mentioned:
        folded = {word.casefold() for word in words}
        mentioned = [name for name in candidates if name.casefold() in folded]
    if len(mentioned) == 1:
        return SelectorChoice(mentioned[0], "mention")
    return UnclearChoice(
        _reason(answer, mentioned, [name for name in members if name in words and name not in candidates])
    )


def _words(text: str) -> set[str]:
    """Return the words of a text, with and without surrounding punctuation; a longer name hides one within it."""
    found = set(_WORD.findall(text))
    return found | {word.strip("._-") for word in found}


def _reason(answer: str, mentioned: Sequence[str], excluded: Sequence[str]) -> str:
    if not answer:
        return "the answer is empty"
    shown = cut(answer, MOST_SHOWN)
    if mentioned:
        return f"the answer {shown!r} names {len(mentioned)} of those who may speak"
    if excluded:
        return f"the answer {shown!r} names {excluded[0]!r}, who may not speak now"
    return f"the answer {shown!r} names nobody who may speak"
