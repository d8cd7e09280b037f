"""Files of a task, and files in the results of tools: read and checked once, then recorded by content.

Nothing reads the file again: the engine stores it, and a model sees it, unless it can't take the type. Bytes of a file
say little about its tokens: providers scale images down and count tiles or patches. The upper bounds here are for
reservations; what a reply reports is what is charged.
"""

from __future__ import annotations

import os
import stat
import sys
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Final, Protocol, TypeGuard, cast

from pydantic import JsonValue

from teamwright.agents.constructor_arguments import Mistakes
from teamwright.errors import ToolError, UsageError
from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import (
    Artifact,
    is_text_type,
    is_utf8,
    media_type_of,
    media_type_of_name,
    suffix_of,
)

LARGEST_FILE = 20_000_000
"""The most bytes of one file; providers take no larger ones within a request."""
LARGEST_TOTAL = 50_000_000
"""The most bytes of all files of one task."""
MOST_FILES = 100
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file by its content: for a task (`attachments=[…]`), or as the result of a tool.

    The media type is taken from the content unless it is given. Raises `UsageError` for an empty content, one that is
    larger than 20 MB, or one that is not what its name or media type says.
    """

    content: bytes
    name: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", _as_bytes(self.content))
        check_size(self.name or "the attachment", len(self.content))
        found = media_type_of(self.content, self.name)
        if not self.media_type:
            object.__setattr__(self, "media_type", found)
            _check_named_type(self.name, found)
        elif is_text_type(self.media_type) and not is_utf8(self.content):
            raise UsageError(f"The file {self.name!r} is given as {self.media_type}, but its content is no UTF-8 text.")
        name = PurePath(self.name).name[-LONGEST_NAME:] if self.name else f"file{suffix_of(self.media_type)}"
        object.__setattr__(self, "name", "".join(one if one.isprintable() else "_" for one in name))

    @classmethod
    def read(cls, path: Path | str) -> Attachment:
        """Read a regular file, or the one that a link leads to; raises `UsageError` if that is impossible."""
        try:
            return cls(_content(Path(path)), Path(path).name)
        except (OSError, ValueError) as error:
            raise _not_attached(path, error) from error


AttachmentLike = Attachment | Path | str
"""An attachment, or the path of a file to read."""


def read_attachments(given: Iterable[AttachmentLike]) -> tuple[Attachment, ...]:
    """Read all files of a task; raises `UsageError` with all that can't be attached, or if they are too many."""
    mistakes = Mistakes()
    found = tuple(mistakes.collect(_read, one) for one in given)
    mistakes.raise_all()
    check_total(found)
    return found


def check_total(files: Sequence[Attachment]) -> None:
    """Raise `UsageError` if these files are too many or too large together."""
    if len(files) > MOST_FILES:
        raise UsageError(f"At most {MOST_FILES} files can be attached at once, and these are {len(files)}.")
    if (total := sum(len(one.content) for one in files)) > LARGEST_TOTAL:
        raise UsageError(
            f"The attached files have {size_text(total)} in total, of at most {size_text(LARGEST_TOTAL)}; attach fewer,"
            " or give the team a tool that reads them."
        )


def check_size(name: str, size: int) -> None:
    """Raise `UsageError` for a file that is empty or too large."""
    if not size:
        raise UsageError(f"The file {name!r} is empty, so there is nothing to attach.")
    if size > LARGEST_FILE:
        raise UsageError(
            f"The file {name!r} has {size_text(size)}; an attachment can have {size_text(LARGEST_FILE)}. Make it"
            " smaller, or give the team a tool that reads it."
        )


def check_file(path: Path) -> None:
    """Raise `UsageError` if a file can't be attached, as far as that is known without reading it."""
    try:
        found = path.stat()
        _check_regular(found.st_mode)
    except (OSError, ValueError) as error:
        raise _not_attached(path, error) from error
    check_size(path.name, found.st_size)


def _as_bytes(content: object) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "replace")
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    raise UsageError(f"The content of an attachment is bytes or text, not {type(content).__name__!r}.")


def _read(given: object) -> Attachment:
    if isinstance(given, Attachment):
        return given
    if isinstance(given, Path | str):
        return Attachment.read(given)
    if isinstance(given, bytes | bytearray):
        raise UsageError("An attachment of bytes needs a name; write  Attachment(content, 'photo.png')")
    raise UsageError(f"An attachment is a path or an Attachment, not a {type(given).__name__!r}.")


def _content(path: Path) -> bytes:
    """Read a file within the limits. A pipe or a device is never read: it may block, or never end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(handle)
        _check_regular(found.st_mode)
        check_size(path.name, found.st_size)
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read(LARGEST_FILE + 1)
    finally:
        os.close(handle)


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ValueError("it is a folder" if stat.S_ISDIR(mode) else "it is no regular file")


def _not_attached(path: Path | str, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(f"The file {str(path)!r} can't be attached: {reason}.")


def _check_named_type(name: str, found: str) -> None:
    """Raise `UsageError` for a content that is not what its name says: providers would refuse it later."""
    named = media_type_of_name(name)
    if named is not None and named.partition("/")[0] != found.partition("/")[0]:
        raise UsageError(f"The file {name!r} is named like {named}, but its content is {found}; rename or replace it.")


IMAGE_TOKENS: Final = (
    ("openai:gpt-4o-mini", 48_169),
    ("azure:gpt-4o-mini", 48_169),
    ("openai", 10_000),
    ("azure", 10_000),
    ("anthropic", 5_000),
    ("google", 5_000),
)
"""The most tokens of one image, by the beginning of the model's name: 2 833 and 8 tiles of 5 667 for GPT-4o mini;
10 000 patches for other models of OpenAI; 4 784 for Claude; 16 tiles of 258 for Gemini."""
OTHER_IMAGE_TOKENS: Final = 16_384
"""The most tokens of one image for any other model: the default bound of Qwen-VL."""
PAGE_TOKENS: Final = 4_600
"""The most tokens of one page of a PDF: 3 000 of text, and an image."""
BYTES_PER_PAGE: Final = 2_000
"""The fewest bytes of a page; a smaller file has one."""
MOST_PAGES: Final = 600
"""The most pages that a provider takes."""
BYTES_PER_MEDIA_TOKEN: Final = 32
"""Speech at one kilobyte a second, with 32 tokens a second; video has more bytes for each token."""

_PREFIXES: Final = ("image/", "audio/", "video/", "application/pdf", "application/msword", "application/vnd.")


def media_tokens(files: Iterable[Artifact], model: str) -> int:
    """Return an upper bound of the tokens of these files in a prompt for this model."""
    return sum(_tokens(one, model) for one in files)


def why_not_taken(media_type: str, model: str) -> str | None:
    """Return why a model can't take files of a type, if that is known without asking it.

    Text is sent as text, which every model takes. An embedded model has no eyes.
    """
    if is_text_type(media_type):
        return None
    if model.partition(":")[0] == "local":
        return "an embedded model reads text only"
    if not media_type.startswith(_PREFIXES):
        return "no model takes files of this type"
    return None


def file_text(file: Artifact) -> str:
    """Name a file by its name, type and size. The text is part of prompts, so it must not change."""
    return f"{file.name!r} ({file.media_type}, {size_text(file.size)})"


def with_pointers(content: JsonValue, files: Sequence[Artifact]) -> JsonValue:
    """Return the result of a tool with a line for each of its files, which names it and points to its content."""
    lines = [f"file {file_text(one)}: {one.pointer}" for one in files]
    if content is None or isinstance(content, str):
        return "\n".join(filter(None, (content, *lines)))
    return {"result": content, "files": cast("list[JsonValue]", lines)}


def _tokens(file: Artifact, model: str) -> int:
    kind = file.media_type.partition("/")[0]
    if is_text_type(file.media_type):
        return file.size
    if kind == "image":
        return next((most for prefix, most in IMAGE_TOKENS if model.startswith(prefix)), OTHER_IMAGE_TOKENS)
    if kind in {"audio", "video"}:
        return 1 + file.size // BYTES_PER_MEDIA_TOKEN
    return PAGE_TOKENS * min(MOST_PAGES, 1 + file.size // BYTES_PER_PAGE)


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
