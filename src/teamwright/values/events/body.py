"""References to texts in events: each text is a body, which the journal stores once."""

from __future__ import annotations

from typing import Literal

from teamwright.values.models import Record
from teamwright.values.turns.artifacts import Artifact

Body = str
"""The content hash of a body in the journal."""


class MessageRef(Record, frozen=True):
    """A recorded message, whose text is a body."""

    name: str
    body: Body
    role: Literal["user"] | None = None
    attachments: tuple[Artifact, ...] = ()
