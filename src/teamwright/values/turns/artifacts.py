"""What members share: versioned values, and pointers to artifacts."""

from __future__ import annotations

from base64 import b64decode, b64encode

from teamwright.values.models import JsonValue, Record

POINTER = "artifact://"
BYTES = "$bytes"
"""The only field of a stored body that is no text: its bytes, in base64."""


def stored_content(content: bytes) -> JsonValue:
    """Return the content of a file as it is stored: as a text, where it is UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {BYTES: b64encode(content).decode()}


def content_of(stored: JsonValue) -> bytes:
    """Return the content of a file from what is stored of it; raises `ValueError` if that is something else."""
    match stored:
        case str():
            return stored.encode("utf-8", "surrogatepass")
        case {"$bytes": str() as encoded} if len(stored) == 1:
            return b64decode(encoded, validate=True)
        case _:
            raise ValueError("it is neither a text nor bytes")


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
