"""The editor of the person at the terminal, which draws on stderr: stdout is for the result of the command."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

import anyio

from teamwright.errors import UsageError

TERMINAL = 2
"""The file descriptor of stderr."""


def editor_command() -> str | None:
    """Return the command of the editor that the environment names, if it names one."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or None


async def edit_text(command: str, text: str, name: str) -> str:
    """Open a text as a file of this name, and return it as it was saved; raises `UsageError` if that fails."""
    with tempfile.TemporaryDirectory(prefix="teamwright-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8", newline="")
        try:
            opened = await anyio.open_process(
                [*shlex.split(command), str(file)], stdin=None, stdout=TERMINAL, stderr=TERMINAL
            )
            async with opened as process:
                code = await process.wait()
            edited = file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise UsageError(f"The editor {command!r} can't be used: {error}.") from error
    if code:
        raise UsageError(f"{command!r} exited with {code}; nothing is changed.")
    return edited
