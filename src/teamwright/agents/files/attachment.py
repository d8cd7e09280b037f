"""Files for a task or from a tool: read and checked once, then recorded by content; nothing reads the file again."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from teamwright.agents.contract.arguments import Mistakes
from teamwright.errors import UsageError
from teamwright.values.text.display import size_text
from teamwright.values.turns.media_types import is_text_type, is_utf8, media_type_of, media_type_of_name, suffix_of

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
