"""Runs a program that checks a text. It gets the text on stdin and no secrets, and leaves nothing behind.

No shell reads its arguments, and it works in a folder of its own, with what is known of the text besides, which is
deleted afterwards. On cancellation and on a timeout, the program and all that it started in its session are killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import anyio

from teamwright.agents.functions.own_modules import own_folder
from teamwright.errors import AgentError
from teamwright.experts.evaluation.check_context import CheckContext

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that a program inherits: none of them is a secret."""
MOST_BYTES, LOOK_SECONDS = 16 << 20, 0.1
"""How much a program may print, and how often that is looked at."""
SHOWN_BYTES = 400
"""How much of the end of the program's output becomes the reason."""
EMPTY = CheckContext()
BESIDE = re.compile(r"\.\.?/")
"""The beginning of an argument that is a path beside the manifest."""


async def run_command(command: Sequence[str], text: str, context: CheckContext = EMPTY) -> tuple[int, str]:
    """Return the exit code of a program that gets this text, and the end of its output; its folder has the context."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        await anyio.to_thread.run_sync(context.write_to, Path(folder))
        try:
            process = await asyncio.create_subprocess_exec(
                *_located(command),
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AgentError(f"the program {command[0]!r} can't be started: {error}") from error
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_bound_output, process, output)
                await process.communicate(text.encode("utf-8", "replace"))
                tasks.cancel_scope.cancel()
        finally:
            _kill(process)
            with anyio.CancelScope(shield=True):
                await process.wait()
        assert process.returncode is not None
        size = output.seek(0, os.SEEK_END)
        if size > MOST_BYTES:
            raise AgentError(f"the program {command[0]!r} printed more than {MOST_BYTES >> 20} MiB")
        output.seek(max(0, size - SHOWN_BYTES))
        return process.returncode, output.read().decode("utf-8", "replace").strip()


async def _bound_output(process: asyncio.subprocess.Process, output: IO[bytes]) -> None:
    """Kill a program that prints without end, before it fills the disk."""
    while os.fstat(output.fileno()).st_size <= MOST_BYTES:  # noqa: ASYNC110 - nothing tells that a file grows
        await anyio.sleep(LOOK_SECONDS)
    _kill(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _located(command: Sequence[str]) -> list[str]:
    """Return the command with its paths beside the manifest in full, since it works in another folder.

    These are a program with a relative path, and arguments that begin with `./` or `../`.
    """
    program, *arguments = command
    beside = own_folder() or os.getcwd()  # noqa: PTH109 - as text
    found = [os.path.normpath(os.path.join(beside, one)) if BESIDE.match(one) else one for one in arguments]  # noqa: PTH118
    if "/" not in program:
        return [program, *found]
    path = os.path.normpath(os.path.join(beside, program))  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        raise AgentError(f"the program {program!r} can't be started: there is no file {path!r}")
    return [path, *found]
