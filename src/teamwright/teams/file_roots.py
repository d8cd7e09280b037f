"""Checks which folders a manifest may read and write: those of its own files, and those that the user allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from teamwright.errors import UsageError

VARIABLE = "${"


def allowed_roots(base: Path, files: Iterable[Path], allow: Iterable[Path | str]) -> tuple[str, ...]:
    """Return the allowed folders, with links resolved: those of other files outside the base, and those in `allow`.

    One in `allow` may lie in the base: a run that travels has another base.
    """
    home = _resolved(base)
    folders = [folder for file in files if not (folder := _resolved(file.parent)).is_relative_to(home)]
    folders += [_resolved(Path(one).expanduser()) for one in allow]
    return tuple(dict.fromkeys(map(str, folders)))


def checked_root(root: str, base: Path, allowed: Sequence[str] | None, agent: str) -> Path:
    """Return the folder of an agent's tools, with links resolved; raises `UsageError` if it is not allowed."""
    folder = _resolved(base / root)
    if VARIABLE in root or _is_allowed(folder, base, allowed):  # a variable is checked when it has a value
        return folder
    raise UsageError(
        f"The tools of the agent {agent!r} would use the folder {str(folder)!r}, which is outside the"
        f" manifest's; if you trust it, allow it with  --allow-root {quote(str(folder))}"
    )


def checked_file(file: str, base: Path, allowed: Sequence[str] | None, team: str) -> Path:
    """Return the path of a team's attachment, with links resolved; raises `UsageError` if it is not allowed."""
    path = _resolved(base / file)
    if VARIABLE in file or _is_allowed(path, base, allowed):
        return path
    raise UsageError(
        f"The team {team!r} would attach the file {str(path)!r}, which is outside the manifest's folder; if you trust"
        f" it, allow it with  --allow-root {quote(str(path.parent))}"
    )


def _is_allowed(path: Path, base: Path, allowed: Sequence[str] | None) -> bool:
    """Whether a path lies in the base or in an allowed folder; without a list, every path is allowed."""
    return allowed is None or any(path.is_relative_to(one) for one in (_resolved(base), *map(Path, allowed)))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"The folder {str(path)!r} can't be used: {error}.") from error
