"""Facts about a live team: its life, and what its members say to each other besides their work."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.models import Record

LifeState = Literal["forming", "planning", "executing", "synthesizing", "completed", "dissolved"]
MessageType = Literal["chat", "assist_request", "assist", "decision"]


class TeamLife(Record, frozen=True):
    """A team is in this state from now on, with this lead and these members; `left` are those who have left it."""

    kind: ClassVar = "team.life"
    state: LifeState
    lead: str
    members: tuple[str, ...]
    left: tuple[str, ...] = ()
    reason: str = ""


class TeamMessage(Record, frozen=True):
    """A member said something to others: `text` is what travels, `original` the artifact with the whole text.

    A request for assistance and its answer belong to a `round` of a phase; a `decision` of the lead ends the rounds.
    """

    kind: ClassVar = "team.message"
    type: MessageType
    by: str
    to: tuple[str, ...]
    text: str
    original: str = ""
    phase: str = ""
    round: int = 0
