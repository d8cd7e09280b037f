"""The port of sandboxes: a back end says how a command is started so that it can't leave its folder, and it is run so;
and filters of system calls for what neither Landlock nor namespaces hold.

A command gets no descriptor, variable or process of ours, and nothing that it has started outlives it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import struct
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal, Protocol, cast, get_args, runtime_checkable

import anyio

from teamwright.agents.functions.threads import finish
from teamwright.errors import AgentError
from teamwright.values.specs.tools import SandboxSettings

Excess = Literal["seconds", "memory", "processes", "disk", "output", "stopped"]
"""Why a command was ended."""
INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TERM", "TZ", "USER")
"""The variables that every command gets, besides PATH, HOME and TMPDIR: none of them is a secret."""
MOST_OUTPUT = 64 << 20
"""How much a command may print: what is too much to keep is still read, up to here."""
END_SECONDS = 10.0
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command ended: `excess` says why it was ended early, `cut` how many bytes of its output are left out."""

    exit_code: int
    output: str
    sandbox: str
    excess: Excess | None = None
    cut: int = 0
    seconds: float = 0.0


@runtime_checkable
class Sandbox(Protocol):
    """A way to confine commands. Subclass it, and name it by an entry point of `teamwright.sandboxes`."""

    name: str

    @abstractmethod
    def problem(self, settings: SandboxSettings) -> str | None:
        """Return why this machine, or this back end, can't do what the settings ask; `None` if it can."""
        ...

    @abstractmethod
    def confined(
        self, command: Sequence[str], workspace: Path, settings: SandboxSettings, report: int | None = None
    ) -> list[str]:
        """Return the command that runs this one in a folder, with its input and output, as the settings say.

        It ends with its parent, which is this process, and reports on a descriptor why it has ended the command.
        """
        ...

    async def run(
        self, command: Sequence[str], workspace: Path, settings: SandboxSettings, *, text: str = ""
    ) -> CommandOutcome:
        """Run a command, which reads this text, in a folder, and return how it ended.

        Raises `AgentError` if the sandbox can't be started. The command never goes on when this is cancelled.
        """
        if (problem := self.problem(settings)) is not None:
            raise AgentError(problem)
        return await _Run(self, workspace, settings).run(command, text)


class _Run:
    """One run of a command."""

    def __init__(self, sandbox: Sandbox, workspace: Path, settings: SandboxSettings) -> None:
        self._sandbox, self._workspace, self._settings = sandbox, workspace, settings
        self._output = _Ends(settings.output)

    async def run(self, command: Sequence[str], text: str) -> CommandOutcome:
        began, (reader, writer) = monotonic(), os.pipe()
        try:
            process = await self._start(command, writer)
        finally:
            os.close(writer)
        excess, said = cast("Excess | None", None), ""
        try:
            with anyio.move_on_after(self._settings.seconds) as scope:
                if not await self._follow(process, text):
                    excess = "output"
            if scope.cancelled_caught:
                excess = "seconds"
        finally:
            await finish(end_guard(process))
            with suppress(BlockingIOError):
                os.set_blocking(reader, False)
                said = os.read(reader, 4096).decode()
            os.close(reader)
        if excess is None and said:
            if said not in get_args(Excess):
                raise AgentError(f"the sandbox {self._sandbox.name!r} failed: {said}")
            excess = cast("Excess", said)
        kept, cut = self._output.text()
        code = process.returncode if process.returncode is not None else -1
        return CommandOutcome(code, kept, self._sandbox.name, excess, cut, monotonic() - began)

    async def _start(self, command: Sequence[str], report: int) -> asyncio.subprocess.Process:
        confined = self._sandbox.confined(command, self._workspace, self._settings, report)
        try:
            starting = asyncio.create_subprocess_exec(
                *confined,
                cwd=self._workspace,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment(self._settings, os.environ),
                pass_fds=(report,),
                start_new_session=True,
            )
            return await start_process(starting, end_guard)
        except (OSError, ValueError) as error:
            raise AgentError(f"the sandbox {self._sandbox.name!r} can't be started: {error}") from error

    async def _follow(self, process: asyncio.subprocess.Process, text: str) -> bool:
        """Give the command its input and read its output to the end; returns whether it printed no more than it may."""
        assert process.stdin is not None
        assert process.stdout is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, process.stdin, text.encode("utf-8", "replace"))
            while chunk := await process.stdout.read(CHUNK):
                if self._output.add(chunk) > MOST_OUTPUT:
                    tasks.cancel_scope.cancel()
                    return False
            await process.wait()
            tasks.cancel_scope.cancel()
        return True


async def start_process(
    starting: Awaitable[asyncio.subprocess.Process], end: Callable[[asyncio.subprocess.Process], Awaitable[None]]
) -> asyncio.subprocess.Process:
    """Return a process that is being started; if this is cancelled, `end` ends it once it is there.

    What asyncio does by itself ends the process alone, and not what it may have started by then.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await finish(task)
    except asyncio.CancelledError:
        if not task.cancelled() and task.exception() is None:
            await finish(end(task.result()))
        raise


async def _feed(stdin: asyncio.StreamWriter, content: bytes) -> None:
    with suppress(OSError):  # it may end without having read its input
        stdin.write(content)
        await stdin.drain()
        stdin.close()


async def end_guard(process: asyncio.subprocess.Process) -> None:
    """End the guard of a command, which ends the command with all that it has started."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    with anyio.move_on_after(END_SECONDS):
        while process.stdout is not None and await process.stdout.read(CHUNK):
            pass  # asyncio sees the end of a process only after that of its output
        await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def excess_text(excess: Excess, settings: SandboxSettings) -> str:
    """Return why a command was ended, in words."""
    match excess:
        case "seconds":
            return f"it took longer than {settings.seconds:g} seconds"
        case "memory":
            return f"it used more than {settings.megabytes} MB of memory"
        case "processes":
            return f"it had more than {settings.processes} processes"
        case "disk":
            return "it left too little room on the disk"
        case "output":
            return "it printed without end"
        case "stopped":
            return "it was stopped"


class _Ends:
    """Keeps the two ends of an output, and counts what is between them."""

    def __init__(self, most: int) -> None:
        self._half, self._head, self._tail = most // 2, b"", deque[bytes]()
        self._held = self.total = 0

    def add(self, chunk: bytes) -> int:
        """Add to the output; returns its size so far."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        self._head, rest = self._head + chunk[:room], chunk[room:]
        if rest:
            self._tail.append(rest)
            self._held += len(rest)
        while self._tail and self._held - len(self._tail[0]) >= self._half:
            self._held -= len(self._tail.popleft())
        return self.total

    def text(self) -> tuple[str, int]:
        """Return what is kept, with a line where some is left out, and how many bytes that are."""
        tail = b"".join(self._tail)
        last = tail[-self._half :] if len(tail) > self._half else tail
        cut = self.total - len(self._head) - len(last)
        gap = f"\n[… {cut} bytes of output are left out …]\n".encode() if cut else b""
        return (self._head + gap + last).decode("utf-8", "replace"), cut


def environment(settings: SandboxSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command gets; its guard adds HOME and TMPDIR, a folder that goes with it."""
    inherited = {name: environ[name] for name in INHERITED if name in environ}
    return {**inherited, "PATH": search_path(settings, environ), **settings.env}


def search_path(settings: SandboxSettings, environ: Mapping[str, str]) -> str:
    """Return where a command finds programs: in the folders of the path that it may read, and beside our Python."""
    allowed = [*system_folders(), *settings.readable, *settings.writable]
    found = [os.path.dirname(sys.executable), *environ.get("PATH", os.defpath).split(os.pathsep)]  # noqa: PTH120
    inside = [one for one in found if any(Path(one).is_relative_to(folder) for folder in allowed)]
    return os.pathsep.join(dict.fromkeys([*inside, "/usr/bin", "/bin"]))


SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ca-certificates",
    "/etc/gitconfig", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
    "/nix/store",
)  # fmt: skip
NAMES = ("/etc/hosts", "/etc/resolv.conf", "/etc/services")
"""What a program reads to find a host."""


def system_folders() -> list[str]:
    """Return the programs of the system and our Python with its packages, as far as they are there."""
    return [one for one in dict.fromkeys((*SYSTEM, sys.prefix, sys.base_prefix)) if os.path.exists(one)]  # noqa: PTH110


EPERM = 1
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | EPERM, 0x80000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
X32 = 0x40000000
"""Numbers from here on are another way to make the same calls, which a filter has to refuse."""

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's name of a machine, and the column of its numbers below."""
FAMILIES = (1, 2, 10, 16)
"""Sockets within the machine, of IPv4 and IPv6, and to the kernel; others reach devices and the host of a machine."""

ALWAYS = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "shmget": (29, 194), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
}  # fmt: skip
SOCKET = (41, 198)
WITHOUT_NAMESPACES = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "mknod", "mknodat", "utime",
    "utimes", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr", "setpriority", "ioprio_set", "inotify_add_watch",
)  # fmt: skip
"""Calls that `sandlock` refuses by name, and its supervisor makes itself, which has the filter of the command too."""
UTIMENSAT = (280, 88)
OF_ITSELF = {
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
"""Calls that a process may make about itself, whose first argument is then 0."""

Instruction = tuple[int, int, int, int]


def system_call_filter(*, namespaces: bool) -> bytes | None:
    """Return the filter for a program that has namespaces of its own, or that has none; `None` for another machine."""
    known = ARCHITECTURES.get(platform.machine())
    if known is None:
        return None
    name, column = known
    program = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, name), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    program += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE)] if column == 0 else []
    for numbers in ALWAYS.values() if namespaces else ():
        program += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, REFUSE)]
    program += _families(SOCKET[column])
    if not namespaces:
        program += _only_zero(UTIMENSAT[column], 2)  # to set the time of a file to now is all that `touch` does
        for numbers in OF_ITSELF.values():
            program += _only_zero(numbers[column], 0)
    return b"".join(struct.pack("=HBBI", *one) for one in [*program, (RETURN, 0, 0, ALLOW)])


def _families(number: int) -> Iterator[Instruction]:
    """Refuse sockets of other families."""
    count = len(FAMILIES)
    yield (EQUAL, 0, count + 2, number)
    yield (LOAD, 0, 0, ARGUMENTS)
    for place, family in enumerate(FAMILIES):
        yield (EQUAL, count - place, 0, family)
    yield (RETURN, 0, 0, REFUSE)
    yield (LOAD, 0, 0, NUMBER)


def _only_zero(number: int, argument: int) -> Iterator[Instruction]:
    """Refuse a call one of whose arguments is not 0, in either half of its 64 bits."""
    low = ARGUMENTS + 8 * argument
    yield (EQUAL, 0, 6, number)
    yield (LOAD, 0, 0, low)
    yield (EQUAL, 0, 2, 0)
    yield (LOAD, 0, 0, low + 4)
    yield (EQUAL, 1, 0, 0)
    yield (RETURN, 0, 0, REFUSE)
    yield (LOAD, 0, 0, NUMBER)
