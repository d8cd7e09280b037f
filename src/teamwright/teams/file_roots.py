"""Checks which folders a manifest's file tools may use: those of its own files, and those that the user allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from teamwright.errors import UsageError

VARIABLE = "${"


def allowed_roots(base: Path, files: Iterable[Path], allow: Iterable[Path | str]) -> tuple[str, ...]:
    """Return the allowed folders outside the base, with links resolved: those of other files and those in `allow`."""
    home = _resolved(base)
    folders = [*(_resolved(file.parent) for file in files), *(_resolved(Path(one).expanduser()) for one in allow)]
    return tuple(dict.fromkeys(str(folder) for folder in folders if not folder.is_relative_to(home)))


def checked_root(root: str, base: Path, allowed: Sequence[str] | None, agent: str) -> Path:
    """Return the folder of an agent's tools, with links resolved; raises `UsageError` if it is not allowed."""
    folder = _resolved(base / root)
    if VARIABLE in root or allowed is None:  # a variable has no value yet, and is checked when it has one
        return folder
    if any(folder.is_relative_to(one) for one in (_resolved(base), *map(Path, allowed))):
        return folder
    raise UsageError(
        f"The tools of the agent {agent!r} would use the folder {str(folder)!r}, which is outside the"
        f" manifest's; if you trust it, allow it with  --allow-root {quote(str(folder))}"
    )


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"The folder {str(path)!r} can't be used: {error}.") from error
