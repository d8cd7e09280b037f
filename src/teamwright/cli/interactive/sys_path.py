"""Makes a manifest's own modules importable for commands that load them, and lists its code for those that do not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.history import RunHistory
    from teamwright.values.specs.manifest import Manifest

MOST_CODE = 20
"""How much of a manifest's code is listed line by line."""


def let_import(base: str | Path) -> None:
    """Functions lie beside the manifest that names them, or where the user is; installed packages come first."""
    for folder in (str(Path(base).resolve()), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.append(folder)


def let_import_of(history: RunHistory) -> None:
    """The same for a run, whose record says where its manifest lay."""
    source = history.manifest
    if isinstance(source, dict) and isinstance(base := source.get("base"), str) and base:
        let_import(base)


def tell_code(manifest: Manifest) -> list[JsonValue]:
    """Say which code a manifest names that was not loaded, and give it as data."""
    from teamwright.manifests.code_references import code_in

    code = code_in(manifest)
    for one in code[:MOST_CODE]:
        say(f"not loaded: {one}")
    if len(code) > MOST_CODE:
        say(f"not loaded: {len(code) - MOST_CODE} more")
    return [one.to_json() for one in code]
