"""Which folders file tools of a manifest may use: those below its own files, and those that the user allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from teamwright.errors import UsageError

VARIABLE = "${"


def allowed_roots(base: Path, files: Iterable[Path], allow: Iterable[Path | str]) -> tuple[str, ...]:
    """The folders beside the base that are allowed, without links: those of further files, and what the user names."""
    home = _resolved(base)
    folders = [*(_resolved(file.parent) for file in files), *(_resolved(Path(one).expanduser()) for one in allow)]
    return tuple(dict.fromkeys(str(folder) for folder in folders if not folder.is_relative_to(home)))


def checked_root(root: str, base: Path, allowed: Sequence[str] | None, agent: str) -> Path:
    """The folder of an agent's file tools, without links; one outside of what is allowed is refused."""
    folder = _resolved(base / root)
    if VARIABLE in root or allowed is None:  # a variable has no value yet, and is looked at when it has
        return folder
    if any(folder.is_relative_to(one) for one in (_resolved(base), *map(Path, allowed))):
        return folder
    raise UsageError(
        f"The file tools of the agent {agent!r} would use the folder {str(folder)!r}, which lies outside the"
        f" manifest's; if you trust it, allow it with  --allow-root {quote(str(folder))}"
    )


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"The folder {str(path)!r} can't be used: {error}.") from error
