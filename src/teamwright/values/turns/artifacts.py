"""What members share: values with versions, and pointers to artifacts."""

from __future__ import annotations

from teamwright.values.models import JsonValue, Record

POINTER = "artifact://"


class Held(Record, frozen=True):
    """A shared value as somebody left it."""

    value: JsonValue
    version: int
    by: str


class Artifact(Record, frozen=True):
    """A pointer to something large; the same content is stored once, whoever keeps it."""

    hash: str
    name: str
    media_type: str = "text/plain"
    size: int = 0

    @property
    def pointer(self) -> str:
        """How envelopes and texts point at it."""
        return POINTER + self.hash
