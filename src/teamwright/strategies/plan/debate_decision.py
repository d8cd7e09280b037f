"""A decision with which a debate ends: the options, the one that was chosen, the reasons, and who is against it.

It is data that a program can read. Who decides has made none of the proposals.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from pydantic import JsonValue

from teamwright.strategies.plan.planned_steps import TEXT, Lenient, read_form
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Reply

DECIDE_TASK = (
    'Your team has debated; what was said stands above. Decide. Answer with one JSON object: "options" are the ways'
    ' that were considered, each in a few words; "chosen" is one of them, word for word; "reasons" say why;'
    ' "dissent" has each member who is against it, with what it says. Leave out no objection that was made.'
)


class Dissent(Lenient):
    """What a member says against a decision."""

    member: str
    says: str


class DebateDecision(Lenient):
    """What was decided, and how."""

    options: tuple[str, ...]
    chosen: str
    reasons: tuple[str, ...]
    dissent: tuple[Dissent, ...] = ()


def decision_schema(members: Collection[str]) -> JsonSchema:
    """Return the schema of a decision of these members."""
    texts: JsonValue = {"type": "array", "minItems": 1, "items": TEXT}
    names = cast("list[JsonValue]", list(members))
    against: JsonValue = {
        "type": "object",
        "properties": {"member": {"type": "string", "enum": names}, "says": TEXT},
        "required": ["member", "says"],
    }
    return {
        "type": "object",
        "properties": {
            "options": texts,
            "chosen": TEXT,
            "reasons": texts,
            "dissent": {"type": "array", "items": against},
        },
        "required": ["options", "chosen", "reasons", "dissent"],
    }


def decision_of(reply: Reply, members: Collection[str]) -> JsonValue | ParseFailure:
    """Return the decision in a reply as data, or why it is none."""
    found = read_form(reply.full, DebateDecision)
    if isinstance(found, ParseFailure):
        return found
    problems = [] if any(map(str.strip, found.reasons)) else ["it gives no reasons"]
    if not found.chosen.strip():
        problems.append("it chooses nothing")
    elif found.chosen not in found.options:
        problems.append(f"it chooses {found.chosen!r:.100}, which is none of its options")
    strangers = dict.fromkeys(one.member for one in found.dissent if one.member not in members)
    problems += [f"{name!r:.100}, who is against it, is not of the team" for name in strangers]
    return ParseFailure("; ".join(problems)) if problems else cast("JsonValue", found.model_dump(mode="json"))
