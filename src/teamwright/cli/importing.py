"""Makes a manifest's own Python modules importable, whichever command needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teamwright.runtime.history import RunHistory


def let_import(base: str | Path) -> None:
    """Functions lie beside the manifest that names them, or where the user is; installed packages come first."""
    for folder in (str(Path(base).resolve()), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.append(folder)


def let_import_of(history: RunHistory) -> None:
    """The same for a run, whose record says where its manifest lay."""
    source = history.past.value(history.started.manifest)
    if isinstance(source, dict) and isinstance(base := source.get("base"), str) and base:
        let_import(base)
