"""What members share: versioned values, and pointers to artifacts."""

from __future__ import annotations

from teamwright.values.models import JsonValue, Record

POINTER = "artifact://"
BYTES = "$bytes"
"""The only field of a stored body that is no text: its bytes, in base64."""


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
    def identity(self) -> tuple[str, str, str]:
        """What a digest of the artifact covers: its content, its name and its media type."""
        return self.hash, self.name, self.media_type

    @property
    def pointer(self) -> str:
        """The pointer as it appears in envelopes and texts."""
        return POINTER + self.hash
