"""What members share: versioned values and artifacts, and the media type of a content. Reads no file."""

from __future__ import annotations

import codecs
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from teamwright.values.value import JsonValue, Record

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


TEXT, BINARY = "text/plain", "application/octet-stream"
PATCH = "text/x-diff"
"""The media type of the changes of a turn, as Git writes them."""


def patch_name(commit: str, number: int) -> str:
    """Return the name of the changes to a commit: the commit, and how many states of the turn were recorded by then."""
    return f"{commit}.{number}.diff"


def patch_in(artifacts: Iterable[Artifact]) -> Artifact | None:
    """Return the latest changes among the artifacts of a reply or a result."""
    found = [one for one in artifacts if one.media_type == PATCH]
    return max(found, key=patch_number) if found else None


def patch_number(patch: Artifact) -> int:
    """Return how many states of the turn were recorded by then."""
    number = patch.name.split(".")[1:2]
    return int(number[0]) if number and number[0].isdigit() else 0


class TreeState(Record, frozen=True):
    """The files that a turn begins with: a commit of the team's branch, with changes to it.

    Without a commit, it is the one that the branch is at when the turn begins, which the engine sets.
    """

    commit: str = ""
    patch: Artifact | None = None

    @classmethod
    def after(cls, artifacts: Iterable[Artifact]) -> TreeState | None:
        """Return the files as a turn left them; `None` if it changed nothing."""
        patch = patch_in(artifacts)
        return None if patch is None else cls(commit=patch.name.partition(".")[0], patch=patch)

    @property
    def identity(self) -> str:
        """What the digest of a turn covers."""
        return f"{self.commit} {self.patch.hash if self.patch is not None else ''}"


_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS: Final = ((b"avif", "image/avif"), (b"hei", "image/heic"), (b"M4A", "audio/mp4"), (b"qt", "video/quicktime"))
"""The brands of ISO media files whose type is not `video/mp4`, by their beginning."""

_TEXTS: Final = {
    ".csv": "text/csv", ".css": "text/css", ".htm": "text/html", ".html": "text/html", ".json": "application/json",
    ".jsonl": "application/jsonl", ".md": "text/markdown", ".svg": "image/svg+xml", ".toml": "application/toml",
    ".tsv": "text/tab-separated-values", ".xml": "application/xml", ".yaml": "application/yaml",
    ".yml": "application/yaml",
}  # fmt: skip
_BINARY_SUFFIXES: Final = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".avif": "image/avif", ".heic": "image/heic", ".pdf": "application/pdf", ".mp3": "audio/mpeg", ".wav": "audio/wav",
    ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4", ".mp4": "video/mp4", ".webm": "video/webm",
    ".mov": "video/quicktime",
}  # fmt: skip
_ZIPPED: Final = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_TEXT_TYPES: Final = frozenset((*_TEXTS.values(), "application/javascript", "application/x-yaml"))


def media_type_of(content: bytes, name: str = "") -> str:
    """Return the media type of a content: by its signature, else as text if it is UTF-8, else as unknown bytes.

    The name decides only among types of text, and among office documents, which are all ZIP files.
    """
    suffix = PurePath(name).suffix.lower()
    if (found := _by_signature(content)) is not None:
        return _ZIPPED.get(suffix, found) if found == "application/zip" else found
    if not is_utf8(content):
        return BINARY
    return _TEXTS.get(suffix, TEXT)


def media_type_of_name(name: str) -> str | None:
    """Return the binary media type that a name promises, if any."""
    return _BINARY_SUFFIXES.get(PurePath(name).suffix.lower())


def is_text_type(media_type: str) -> bool:
    """Whether content of this type is text, which every model can read."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare.startswith("text/") or bare in _TEXT_TYPES or bare.endswith(("+json", "+xml", "+yaml"))


def is_utf8(content: bytes) -> bool:
    """Whether a content is text in UTF-8: it decodes, and has no zero bytes."""
    try:
        codecs.decode(content, "utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def suffix_of(media_type: str) -> str:
    """Return the usual suffix of a media type, for a file without a name; empty if there is none."""
    known = {**_TEXTS, **_BINARY_SUFFIXES, **_ZIPPED, ".txt": TEXT}
    return next((suffix for suffix, one in known.items() if one == media_type), "")


def _by_signature(content: bytes) -> str | None:
    for signature, media_type in _SIGNATURES:
        if content.startswith(signature):
            return media_type
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12])
    if content[4:8] == b"ftyp":
        return next((found for brand, found in _BRANDS if content[8:].startswith(brand)), "video/mp4")
    return None
