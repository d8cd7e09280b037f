"""What members share: versioned values, and pointers to artifacts."""

from __future__ import annotations

from teamwright.values.models import JsonValue, Record

POINTER = "artifact://"


class SharedValue(Record, frozen=True):
    """A version of a shared value, with its author."""

    value: JsonValue
    version: int
    by: str


class Artifact(Record, frozen=True):
    """A pointer to a large content; the same content is stored once."""

    hash: str
    name: str
    media_type: str = "text/plain"
    size: int = 0

    @property
    def pointer(self) -> str:
        """The pointer as it appears in envelopes and texts."""
        return POINTER + self.hash
