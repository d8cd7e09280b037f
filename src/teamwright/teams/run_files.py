"""The files that travel with a run, by their paths in the folder of its manifest. No path leads out of that folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic_core import to_json

from teamwright.errors import UsageError
from teamwright.values.events.body import Body
from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import stored_content
from teamwright.values.turns.messages import digest

MOST_FILES = 1_000
LARGEST_FILE = 4_000_000
LARGEST_TOTAL = 16_000_000
"""The most bytes of one file, and of all files of a run: the database holds them for as long as the run."""
LONGEST_NAME, LONGEST_PATH = 200, 800


def check_files(files: Mapping[str, bytes]) -> None:
    """Raise `UsageError` if these files can't travel: too many, too large, or with a path that leaves the folder."""
    if len(files) > MOST_FILES:
        raise UsageError(f"The manifest names {len(files)} files, and at most {MOST_FILES} travel with a run.")
    for path, content in files.items():
        check_path(path)
        if len(content) > LARGEST_FILE:
            raise UsageError(
                f"The file {path!r} has more than {size_text(LARGEST_FILE)}, and no larger one travels with a run;"
                " put it where every worker finds it, and name it by an absolute path."
            )
    if sum(map(len, files.values())) > LARGEST_TOTAL:
        raise UsageError(
            f"The files of the manifest have more than {size_text(LARGEST_TOTAL)} together, and no more travel with a"
            " run; put the largest where every worker finds them, and name them by absolute paths."
        )
    for path in files:
        if blocked := [str(one) for one in PurePosixPath(path).parents if str(one) in files]:
            raise UsageError(f"{blocked[0]!r} can't travel with the run both as a file and as the folder of {path!r}.")


def check_path(path: str) -> None:
    """Raise `UsageError` for a path that is not plainly below a folder, on any system."""
    parts = path.split("/")
    if (
        any(part in {"", ".", ".."} or len(part.encode("utf-8", "replace")) > LONGEST_NAME for part in parts)
        or len(path) > LONGEST_PATH
        or any(one in '\\:*?"<>|' or not one.isprintable() for one in path)
    ):
        raise UsageError(
            f"The file {path!r} can't travel with a run: its path must be plain, without '..', links or special signs."
        )


def body_of(content: bytes) -> Body:
    """Return the hash under which the journal stores the content of a file."""
    return digest(to_json(stored_content(content)).decode())


def digest_of(files: Mapping[str, Body]) -> str:
    """Return the digest of all files: of their paths and contents."""
    return digest("files", *(text for entry in sorted(files.items()) for text in entry))
