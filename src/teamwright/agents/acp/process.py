"""The process of a coding agent, which a guard watches: nothing that it has started outlives it, however it ends.

It gets no variable that is not listed here or named by its declaration. All that it prints is read in bounded pieces.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

from teamwright.agents.sandbox.back_ends import find_sandbox, guarded
from teamwright.agents.sandbox.port import INHERITED, environment, start_process
from teamwright.errors import AgentError, InvalidRequest
from teamwright.values.specs.members import AcpCommand
from teamwright.values.specs.sandbox import NONE, SandboxSettings

CHUNK = 1 << 16
STDERR_TAIL = 2048
CLOSE_SECONDS = 0.3
"""How long an agent may take to end by itself once its input is closed."""
END_SECONDS = 2.0
"""How long its guard may take to end all that it has started."""


class AgentProcess:
    """One process; `start` makes it, and `end` ends it with all that it has started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._tail = b""
        self._stderr = asyncio.create_task(self._keep_tail())

    @classmethod
    async def start(
        cls, label: str, declared: AcpCommand, folder: Path, sandbox: SandboxSettings | None
    ) -> AgentProcess:
        """Start the command in a folder; raises `InvalidRequest` if it is not there."""
        arguments = command_of(label, declared)
        variables = {**own_environment(sandbox, os.environ), **declared.env}
        try:
            starting = asyncio.create_subprocess_exec(
                *_guarded(arguments, folder, sandbox),
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=variables,
                limit=CHUNK,
                start_new_session=True,
            )
            process = await start_process(starting, asyncio.subprocess.Process.terminate)
        except (OSError, ValueError) as error:
            raise AgentError(f"The coding agent {label!r} can't be started: {error}") from error
        return cls(process)

    async def read(self) -> bytes:
        """Return what the agent prints next; nothing once it has ended."""
        chunk = await self._stdout.read(CHUNK)
        await asyncio.sleep(0)  # an agent that prints without end must not hold up everything else
        return chunk

    def write(self, content: bytes) -> None:
        """Send to the agent, which need not read it at once."""
        if not self._stdin.is_closing():
            self._stdin.write(content)

    @property
    def unread(self) -> int:
        """How many bytes the agent has not read yet."""
        return 0 if self._stdin.is_closing() else self._stdin.transport.get_write_buffer_size()

    @property
    def last_words(self) -> str:
        """The last line that it wrote to its error output."""
        lines = self._tail.decode("utf-8", "replace").replace("\0", "").strip().splitlines()
        return lines[-1].strip() if lines else ""

    async def end(self) -> None:
        """Close its input, and end what goes on then."""
        with suppress(OSError):
            self._stdin.close()
        for seconds, force in ((CLOSE_SECONDS, self._terminate), (END_SECONDS, self._kill)):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._gone()
            if self._process.returncode is not None:
                break
            force()
        else:
            await self._gone()
        self._stderr.cancel()
        await asyncio.wait([self._stderr])

    async def _gone(self) -> None:
        """Wait for its end, which asyncio sees only after that of its output."""
        while await self._stdout.read(CHUNK):
            pass
        await self._process.wait()

    def _terminate(self) -> None:
        if sys.platform != "linux":  # there is no guard
            self._kill()
            return
        with suppress(ProcessLookupError):
            self._process.terminate()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, SIGKILL)

    async def _keep_tail(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(CHUNK):
            self._tail = (self._tail + chunk)[-STDERR_TAIL:]
            await asyncio.sleep(0)


def command_of(label: str, declared: AcpCommand) -> list[str]:
    """Return a command as a list; raises `InvalidRequest` if it can't be read, or its program is not there."""
    if (problem := command_problem(declared)) is not None:
        raise InvalidRequest(f"The coding agent {label!r} can't be started: {problem}.")
    return [*declared.command]


def command_problem(declared: AcpCommand) -> str | None:
    """Return why a command can't be started; `None` if its program is there."""
    program = declared.command[0]
    if shutil.which(program, path=declared.env.get("PATH")) is None:
        return f"there is no command {program!r}; check it, or install it"
    return None


def own_environment(sandbox: SandboxSettings | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an agent gets besides those that its declaration names."""
    if sandbox is not None:
        return environment(sandbox, environ)
    return {name: environ[name] for name in (*INHERITED, "HOME", "PATH") if name in environ}


def _guarded(command: Sequence[str], folder: Path, sandbox: SandboxSettings | None) -> list[str]:
    if sandbox is not None:
        return find_sandbox(sandbox).confined(command, folder, sandbox)
    if sys.platform != "linux":
        return [*command]
    unbounded = SandboxSettings(backend=NONE, megabytes=1 << 24, processes=1 << 20)
    return guarded(command, folder, unbounded, None, home=os.environ.get("HOME", ""))
