"""The identity of a team that is measured: a digest of everything on this machine that may change its answers.

These are its manifest, the files that it names, and the Python code beside it. Folders that its tools work in are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.teams.manifests.manifest_loader import LOCAL, relocate
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.tools import FILES
from teamwright.values.turns.messages import digest

SECTIONS = {"agents": "agent", "models": "model", "tools": "tool"}
WORKED_IN = frozenset((FILES, LOCAL, "mcp", "sandbox"))
"""Paths of these kinds are not part of a team: the folders of its work, and the weights of a model that has a name."""
SKIPPED, ENVIRONMENT = frozenset(("__pycache__", "node_modules")), "pyvenv.cfg"
CODE = ".py"
MOST_FILES = 20_000


def team_identity(source: Source, name: str = "") -> str:
    """Return the identity of a team; another `name` makes it another team."""
    base = Path(source.base)
    manifest = source.manifest.model_dump_json(exclude_defaults=True)
    files = sorted({*_files_in(base, CODE), *_named(source, base)})
    return digest(name, source.team, manifest, *(_digest_of(one) for one in files))


def files_digest(folder: Path, files: tuple[str, ...]) -> str:
    """Return the digest of some files in a folder: their names and contents; empty for none."""
    return digest("", *(f"{one} {_digest_of(folder / one)}" for one in files)) if files else ""


def _named(source: Source, base: Path) -> Iterator[Path]:
    """Yield the files that a manifest names, and those in the folders that it names."""
    found: list[Path] = []

    def keep(kind: str, written: str) -> str:
        if kind not in WORKED_IN:
            found.append(base / written)
        return written

    data: dict[str, dict[str, JsonValue]] = source.manifest.model_dump(mode="json", exclude_unset=True)
    for section, kind in SECTIONS.items():
        for value in data.get(section, {}).values():
            relocate(kind, value, keep)
    for path in found:
        yield from _files_in(path) if path.is_dir() else [path]


def _files_in(folder: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the files below a folder but hidden ones and those of other programs, with this suffix if there is one."""
    number = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in SKIPPED]
        if ENVIRONMENT in names:
            folders.clear()
            continue
        for one in names:
            if one.endswith(suffix) and not one.startswith("."):
                number += 1
                yield Path(parent, one)
        if number > MOST_FILES:
            raise UsageError(f"{str(folder)!r} has more than {MOST_FILES} files, so what is measured can't be told.")


def _digest_of(file: Path) -> str:
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest() if file.is_file() else ""
    except OSError as error:
        raise UsageError(f"The file {str(file)!r} can't be read: {error.strerror}.") from error
