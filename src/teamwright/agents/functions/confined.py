"""Runs a function of the user in a sandbox, in a process of its own, and is the program of that process.

The process may read the code that this one imports. Its answer comes in a file, which is read as one that an attacker
has written.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.functions.imports import import_path, load_function, modules_of, own_folder
from teamwright.agents.sandbox import excess_text
from teamwright.agents.sandbox_back_ends import find_sandbox
from teamwright.errors import AgentError
from teamwright.values.specs.tools import SandboxSettings
from teamwright.values.text.display import error_text

ANSWER = "answer.json"
MOST_BYTES = 64 << 20
"""How large an answer may be."""
PLAIN_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


async def run_in_sandbox(function: Callable[..., Any], text: str, settings: SandboxSettings) -> JsonValue:
    """Call an importable function with a text; returns the text or the JSON that it returns."""
    own, path = own_folder() or "", import_path(function) or ""
    code = [one for one in sys.path if one and os.path.exists(one)]  # noqa: PTH110, ASYNC240 - a look at the disk
    update = {
        "readable": (*settings.readable, *code, *([own] if own else [])),
        "env": {**settings.env, "PYTHONPATH": os.pathsep.join(code)},
    }
    confined = settings.model_copy(update=update)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "teamwright.agents.functions.confined", path, own]
        outcome = await find_sandbox(confined).run(command, Path(folder), confined, text=text)
        if outcome.excess is not None:
            raise AgentError(f"its process was ended, because {excess_text(outcome.excess, confined)}")
        found = _read_answer(Path(folder, ANSWER))
    if found is None:
        last = (outcome.output.strip().splitlines() or ["nothing"])[-1]
        raise AgentError(f"its process ended before it had answered; it printed {last!r:.300}")
    if "error" in found:
        raise AgentError(str(found["error"]))
    return found.get("value")


def _read_answer(file: Path) -> dict[str, JsonValue] | None:
    """Return the content of the file; `None` if there is no such file, or something else under its name."""
    try:
        opened = os.open(file, PLAIN_FILE)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as answer:
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_BYTES:
            return None
        try:
            found: object = from_json(answer.read(MOST_BYTES))
        except ValueError:
            return None
    return cast("dict[str, JsonValue]", found) if isinstance(found, dict) else None


def main(path: str, folder: str) -> None:
    """Call the function with the text on the input, and write its answer."""
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    with modules_of(folder):
        try:
            answer = {"value": load_function(path, "the agent")(text)}
            content = to_json(answer)
        except BaseException as error:  # noqa: BLE001 - becomes the failure of this call
            content = to_json({"error": error_text(error)})
    Path(ANSWER).write_bytes(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
