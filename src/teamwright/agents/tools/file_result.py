"""Files in the results of tools: images, documents, audio. The engine stores them, and a model sees them."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol, TypeGuard, cast

from pydantic import JsonValue

from teamwright.agents.files.attachment import Attachment, check_total
from teamwright.errors import ToolError, UsageError
from teamwright.values.turns.media_types import is_utf8


@dataclass(frozen=True, slots=True)
class FileResult:
    """The result of a tool with files. `value` is the rest of the result, if there is any.

    Raises `UsageError` if the files are too many or too large together.
    """

    files: tuple[Attachment, ...]
    value: JsonValue = None

    def __post_init__(self) -> None:
        check_total(self.files)


ToolValue = JsonValue | FileResult
"""What a call of a tool returns."""


def split_files(result: ToolValue) -> tuple[JsonValue, tuple[Attachment, ...]]:
    """Return the value and the files of a result."""
    return (result.value, result.files) if isinstance(result, FileResult) else (result, ())


def find_files(result: object) -> tuple[object, tuple[Attachment, ...]]:
    """Return what a function returned without its files, and the files: one alone, or items of a list or tuple."""
    if (alone := _file(result)) is not None:
        return None, (alone,)
    listed = cast("Sequence[object]", result) if isinstance(result, list | tuple) else ()
    items = [(one, _file(one)) for one in listed]
    files = tuple(file for _, file in items if file is not None)
    if not files:
        return cast("object", result), ()
    rest = [one for one, file in items if file is None]
    return rest[0] if len(rest) == 1 else rest or None, files


def mcp_files(tool: str, blocks: Iterable[object]) -> tuple[Attachment, ...]:
    """Return the images, audio and embedded files among the content blocks of an MCP server's result."""
    return tuple(_mcp_file(tool, block, data) for block in blocks if (data := mcp_data(block)) is not None)


def mcp_data(block: object) -> str | None:
    """Return the content of a block that is a file, in base64; None for a block of text."""
    data = getattr(block, "data", None) or getattr(getattr(block, "resource", None), "blob", None)
    return data if isinstance(data, str) else None


def _mcp_file(tool: str, block: object, data: str) -> Attachment:
    holder = getattr(block, "resource", block)
    name = PurePosixPath(str(getattr(holder, "uri", ""))).name
    try:
        return Attachment(b64decode(data, validate=True), name, getattr(holder, "mime_type", None) or "")
    except (UsageError, ValueError) as error:
        raise ToolError(f"The tool {tool!r} returned a file that can't be used: {error}") from error


def _file(value: object) -> Attachment | None:
    """Return a value as a file: an attachment, binary content of pydantic-ai, or bytes that are no text."""
    if isinstance(value, Attachment):
        return value
    if isinstance(value, bytes | bytearray) and value and not is_utf8(bytes(value)):
        return Attachment(bytes(value))
    return Attachment(value.data, media_type=value.media_type) if _is_binary_content(value) else None


class _BinaryContent(Protocol):
    data: bytes
    media_type: str


def _is_binary_content(value: object) -> TypeGuard[_BinaryContent]:
    module = sys.modules.get("pydantic_ai.messages")  # who returns such a value has imported it
    return module is not None and isinstance(value, module.BinaryContent)
