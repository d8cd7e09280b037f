"""Reads whom a selector means, whatever it answers: only those who may speak can be meant.

The ladder is fixed: structured output, the exact name, the name in other letters, one name in prose. Nothing else
counts, and why it does not is told in words.
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
"""What may be a name, with the marks that may stand around one but are also part of some."""

How = Literal["structured", "exact", "case", "mention"]


class SelectorChoice(NamedTuple):
    """Who is meant, and how that was read."""

    name: str
    how: How


class Unclear(NamedTuple):
    """Why nobody is meant."""

    reason: str


class Selection(BaseModel):
    """The form in which a selector should answer."""

    model_config = ConfigDict(extra="ignore")

    member: str


def selection_schema(names: Sequence[str]) -> dict[str, JsonValue]:
    """The form of an answer that names one of these."""
    member: JsonValue = {"type": "string", "enum": list[JsonValue](names), "description": "who speaks next"}
    return {"type": "object", "properties": {"member": member}, "required": ["member"], "additionalProperties": False}


def read_selection(reply: Reply, candidates: Sequence[str], members: Sequence[str]) -> SelectorChoice | Unclear:
    """Whom of the candidates a reply means; the other members only help to say what is wrong with it."""
    found = read_answer(reply, _selection())
    if isinstance(found, ParseFailure):
        return _read(reply.text[:MOST_READ], candidates, members, "exact")
    return _read(found.member, candidates, members, "structured")


@cache
def _selection() -> TypeAdapter[Selection]:
    return TypeAdapter(Selection)


def _read(text: str, candidates: Sequence[str], members: Sequence[str], exact: How) -> SelectorChoice | Unclear:
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
    return Unclear(_reason(answer, mentioned, [name for name in members if name in words and name not in candidates]))


def _words(text: str) -> set[str]:
    """The words of a text, as they stand and without the marks around them; a longer name hides one within it."""
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
