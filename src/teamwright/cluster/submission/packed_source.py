"""Packs the source of a team so that it can be built on another machine: with all files that its manifest names.

Scripts and the folders of tools travel. Attachments need not, because the start of a run records their contents.
Secrets and settings stay names of environment variables, which the worker resolves.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from pydantic import JsonValue

from teamwright.cluster.submission.needs import VARIABLE
from teamwright.errors import UsageError
from teamwright.teams.manifests.relocation import LOCAL, SCRIPTED, relocate
from teamwright.teams.run_files import LARGEST_FILE, LARGEST_TOTAL, MOST_FILES, check_files
from teamwright.values.specs.manifest import FILES, Manifest, Source
from teamwright.values.turns.messages import digest

MCP = "mcp"
_SECTIONS = {"agents": "agent", "models": "model", "tools": "tool"}
_SKIPPED = {"__pycache__", "node_modules"}


@dataclass(frozen=True, slots=True)
class PackedSource:
    """A source whose paths are below its base, and the files at these paths."""

    source: Source
    files: Mapping[str, bytes]


def pack(source: Source, *, allow: Sequence[Path] = (), secrets: Collection[str] = ()) -> PackedSource:
    """Read the files that a source names, and return it with the paths under which they travel.

    Files outside the base must be in a folder that the source or `allow` allows. Raises `UsageError` for what can't
    travel, such as a file that contains one of the `secrets`.
    """
    packer = _Packer(Path(source.base).resolve(), source.roots, [one.resolve() for one in allow])
    data = source.manifest.model_dump(mode="json", exclude_unset=True)
    for section, kind in _SECTIONS.items():
        declared: dict[str, JsonValue] = data.get(section, {})
        for name, value in declared.items():
            declared[name] = relocate(kind, value, packer.move, packer.original)
    check_files(packer.files)
    _check_secrets(packer.files, secrets)
    return PackedSource(source.model_copy(update={"manifest": Manifest.model_validate(data)}), packer.files)


@dataclass(slots=True)
class _Packer:
    base: Path
    roots: Sequence[str] | None
    allow: Sequence[Path]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _originals: dict[str, Path] = field(default_factory=dict[str, Path])
    _size: int = 0

    def move(self, kind: str, written: str) -> str:
        """Add what is at a path, and return the path under which it travels."""
        if VARIABLE in written or kind == MCP:  # the worker resolves it; the folder of a command is one of its own
            return written
        if kind in {FILES, LOCAL}:
            return _check_absolute(kind, written)
        place = Path(self.base, written)
        try:
            found = place.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            if kind != SCRIPTED:  # a tool may name what it creates
                return written
            raise UsageError(f"The file {written!r} of scripted replies can't be read: {error}.") from error
        name = self._name(found, written)
        self._originals[name] = found
        if found.is_dir():
            self._add_folder(found, name)
        else:
            self._add(name, found)
        return name

    def original(self, moved: str) -> Path:
        """Return where a path came from."""
        return self._originals.get(moved) or Path(self.base, moved)

    def _name(self, found: Path, written: str) -> str:
        if found.is_relative_to(self.base):
            return found.relative_to(self.base).as_posix()
        allowed = [*self.allow, *map(Path, self.roots or ())]
        if self.roots is not None and not any(found.is_relative_to(one) for one in allowed):
            raise UsageError(
                f"{written!r} is outside the folder of the manifest, and would travel with the run; if you trust it,"
                f" allow it with  --allow-root {quote(str(found.parent))}"
            )
        return f"outside-{digest(str(found.parent))[:8]}/{found.name}"

    def _add_folder(self, folder: Path, name: str) -> None:
        """Add the files below a folder, without hidden ones and links that lead out of it."""
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED)
            for one in sorted(names):
                place = Path(parent, one)
                if not one.startswith(".") and place.is_file() and place.resolve().is_relative_to(folder):
                    inside = place.relative_to(folder).as_posix()
                    self._add(inside if name == "." else f"{name}/{inside}", place)

    def _add(self, name: str, place: Path) -> None:
        if name in self.files:
            return
        content = _read(place)
        self._size += len(content)
        self.files[name] = content
        if len(self.files) > MOST_FILES or self._size > LARGEST_TOTAL + LARGEST_FILE:
            check_files(self.files)  # says which limit is exceeded, before the rest is read


def _check_absolute(kind: str, written: str) -> str:
    if Path(written).is_absolute():
        return written
    what = "The files tool" if kind == FILES else "The model"
    raise UsageError(
        f"{what} names {written!r}, which does not travel with a run: a worker would not find it. Name an absolute path"
        " that every worker has, such as one on a shared disk."
    )


def _read(place: Path) -> bytes:
    """Read a regular file within the limits. A pipe or a device is never read: it may block, or never end."""
    try:
        handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{str(place)!r} is no regular file, so it can't travel with a run.")
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"The file {str(place)!r} can't be read: {error.strerror}.") from error


def _check_secrets(files: Mapping[str, bytes], secrets: Collection[str]) -> None:
    for path, content in files.items():
        if any(secret.encode() in content for secret in secrets if secret.strip()):
            raise UsageError(
                f"The file {path!r} contains a secret of the manifest, and files travel with the run as they are;"
                " remove it from the file."
            )
