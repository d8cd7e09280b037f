"""The process of a coding agent, which a guard watches, and messages of JSON-RPC, one on each line, from and to it.

Nothing that the process has started outlives it, and it gets no variable that is not listed here or named by its
declaration. What it prints is read as an attacker's, in bounded pieces. Nothing reads ahead: an agent whose messages
are not waited for is held up by its own output.
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
from typing import NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.sandbox import INHERITED, end_guard, environment, start_process
from teamwright.agents.sandbox_back_ends import find_sandbox, guarded
from teamwright.errors import AgentError, InvalidRequest
from teamwright.values.specs.members import AcpCommand
from teamwright.values.specs.tools import NONE, SandboxSettings
from teamwright.values.text.display import cut, size_text

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
            process = await start_process(starting, end_guard)
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


Json = dict[str, JsonValue]
Id = int | str | None

LONGEST_LINE = 16 << 20
"""How long a message may be, in bytes."""
MOST_STRAY_LINES = 100
"""How many lines may be no messages: some programs greet before they speak the protocol."""
MOST_UNREAD = 64 << 20
"""How much of what is sent to an agent may wait until it reads it, in bytes."""
LONGEST_QUOTE = 200
METHOD_NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32601, -32602, -32000


class ProtocolViolation(AgentError):
    """What an agent sends is not a message of the protocol."""

    unknown_cost = True


class AgentEnded(AgentError):
    """The process of an agent has ended before it has answered."""

    kind, unknown_cost = "server", True


class RequestRefused(AgentError):
    """An agent has answered a request with an error."""

    unknown_cost = True

    def __init__(self, label: str, method: str, error: Mapping[str, JsonValue]) -> None:
        self.code = error.get("code")
        said = cut(str(error.get("message") or "an error without words"), LONGEST_QUOTE)
        details = error.get("data")
        if details is not None:
            said += f" ({cut(details if isinstance(details, str) else to_json(details).decode(), LONGEST_QUOTE)})"
        super().__init__(f"The coding agent {label!r} refused {method!r}: {said}")


class Incoming(NamedTuple):
    """A message of an agent: a request or a notification has a method, and a response has none."""

    id: Id
    method: str
    params: Json
    result: JsonValue = None
    error: Json | None = None

    @property
    def is_request(self) -> bool:
        return bool(self.method) and self.id is not None


class Connection:
    """The two ways of one agent."""

    def __init__(self, label: str, process: AgentProcess) -> None:
        self.label, self.process = label, process
        self._buffer = bytearray()
        self._searched = self._strays = self._number = 0
        self._stray = b""
        """The last line that was no message."""
        self.has_spoken = False
        """Whether it has sent any message of the protocol."""

    def request(self, method: str, params: Json) -> int:
        """Send a request; returns its id."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params})

    def answer(self, asked: Incoming, result: JsonValue) -> None:
        self._send({"id": asked.id, "result": result})

    def refuse(self, asked: Incoming, code: int, text: str) -> None:
        self._send({"id": asked.id, "error": {"code": code, "message": text}})

    def _send(self, message: Json) -> None:
        if self.process.unread > MOST_UNREAD:
            raise ProtocolViolation(f"The coding agent {self.label!r} asks on and on, and reads no answers.")
        self.process.write(to_json({"jsonrpc": "2.0", **message}) + b"\n")

    async def receive(self) -> Incoming:
        """Return the next message; raises `AgentEnded`, or `ProtocolViolation` for a program that sends none."""
        while True:
            line = await self._line()
            if (message := read_message(line)) is not None:
                self.has_spoken = True
                return message
            if line.strip():
                self._strays, self._stray = self._strays + 1, line[:LONGEST_QUOTE]
            if self._strays > MOST_STRAY_LINES:
                raise self._no_protocol(line)

    async def result(self, number: int, method: str) -> JsonValue:
        """Return the result of a request that is made before a session; everything else meanwhile is refused."""
        while True:
            message = await self.receive()
            if message.is_request:
                self.refuse(message, METHOD_NOT_FOUND, f"{message.method!r} is not offered here")
            elif not message.method and message.id == number:
                return self.checked(message, method)

    def checked(self, response: Incoming, method: str) -> JsonValue:
        """Return the result of a response; raises `RequestRefused`."""
        if response.error is not None:
            raise RequestRefused(self.label, method, response.error)
        return response.result

    async def _line(self) -> bytes:
        while (at := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LONGEST_LINE:
                start = bytes(self._buffer[:LONGEST_QUOTE])
                raise self._no_protocol(start, f" on a line of more than {size_text(LONGEST_LINE)}")
            if not (chunk := await self.process.read()):
                raise self._ended()
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        self._searched = 0
        return line

    def _no_protocol(self, line: bytes, where: str = "") -> ProtocolViolation:
        said = cut(line.decode("utf-8", "replace").strip(), LONGEST_QUOTE)
        return ProtocolViolation(
            f"The coding agent {self.label!r} does not speak the Agent Client Protocol: it printed {said!r}{where}."
        )

    def _ended(self) -> AgentEnded:
        words = self.process.last_words or (bytes(self._buffer) or self._stray).decode("utf-8", "replace").strip()
        why = f" ({cut(words, LONGEST_QUOTE)})" if words else ""
        when = "before it had answered" if self.has_spoken else "without a word of the Agent Client Protocol"
        return AgentEnded(f"The coding agent {self.label!r} ended {when}{why}.")


def read_message(line: bytes) -> Incoming | None:
    """Return the message on a line; `None` for any other line."""
    try:
        found: object = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)
    number, method, params = fields.get("id"), fields.get("method", ""), fields.get("params")
    if not isinstance(number, int | str | None) or isinstance(number, bool) or not isinstance(method, str):
        return None
    if not method and number is None:
        return None
    error = fields.get("error")
    return Incoming(
        number,
        method,
        cast("Json", params) if isinstance(params, dict) else {},
        cast("JsonValue", fields.get("result")),
        cast("Json", error) if isinstance(error, dict) else {"message": str(error)} if error else None,
    )


def text_at(data: JsonValue, *path: str) -> str:
    """Return the text at a path in JSON data; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""


def part_at(data: JsonValue, *path: str) -> Json:
    """Return the object at a path in JSON data; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def items_at(data: JsonValue, *path: str) -> list[Json]:
    """Return the objects of the list at a path in JSON data."""
    *outer, last = path
    found = part_at(data, *outer).get(last)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
