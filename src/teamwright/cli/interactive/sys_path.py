"""Makes a manifest's own modules importable, or lists the code that a command does not load."""

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
"""At most so many references to code are listed one by one."""


def extend_sys_path(base: str | Path) -> None:
    """Append the manifest's folder and the working directory to `sys.path`; installed packages come first."""
    for folder in (str(Path(base).resolve()), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.append(folder)


def extend_sys_path_for(history: RunHistory) -> None:
    """Extend `sys.path` for a run, whose record holds the folder of its manifest."""
    source = history.manifest
    if isinstance(source, dict) and isinstance(base := source.get("base"), str) and base:
        extend_sys_path(base)


def report_unloaded_code(manifest: Manifest) -> list[JsonValue]:
    """Print which code a manifest names that was not loaded, and return it as data."""
    from teamwright.manifests.code_references import code_in

    code = code_in(manifest)
    for one in code[:MOST_CODE]:
        say(f"not loaded: {one}")
    if len(code) > MOST_CODE:
        say(f"not loaded: {len(code) - MOST_CODE} more")
    return [one.to_json() for one in code]
