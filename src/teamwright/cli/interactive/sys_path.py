"""Makes the modules of the working directory importable, or lists the code that a command does not load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.values.specs.manifest import Manifest

MOST_CODE = 20
"""At most so many references to code are listed one by one."""


def extend_sys_path() -> None:
    """Append the working directory to `sys.path`, after installed packages; modules beside the manifest come first."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def report_unloaded_code(manifest: Manifest) -> list[JsonValue]:
    """Print which code a manifest names that was not loaded, and return it as data."""
    from teamwright.teams.manifests.code_references import code_in

    code = code_in(manifest)
    for one in code[:MOST_CODE]:
        say(f"not loaded: {one}")
    if len(code) > MOST_CODE:
        say(f"not loaded: {len(code) - MOST_CODE} more")
    return [one.to_json() for one in code]
