"""The conformance suite of sandboxes: attempts to get out, to take too much and to outlive a command.

Inherit it in a test, and say how to make the sandbox. Each attempt is a line of Python that runs inside.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from teamwright.agents.sandbox import CommandOutcome, Sandbox
from teamwright.values.specs.tools import SandboxSettings

SECRET = "OUTER_SECRET"
PATIENCE = 10.0

ATTEMPTS = """
import ctypes, json, os, resource, signal, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def write(path, text="out"):
    with open(path, "a") as opened:
        opened.write(text)

def connect(family, kind, address):
    with socket.socket(family, kind) as one:
        one.settimeout(3)
        one.connect(address)
        if kind == socket.SOCK_DGRAM:
            one.send(b"out")

found = {}
for name, code in json.loads(sys.argv[1]).items():
    try:
        exec(code)
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
    else:
        found[name] = None
print(json.dumps(found))
"""
"""Runs each attempt; what has raised is held."""

FILES = {
    "read": "open(outside).read()",
    "write": "write(outside)",
    "truncate": "os.truncate(outside, 0)",
    "create": "write(folder + '/new')",
    "make a folder": "os.mkdir(folder + '/new')",
    "remove": "os.remove(outside)",
    "rename": "os.rename(outside, 'mine')",
    "replace": "write('other'); os.rename('other', outside)",
    "hard link": "os.link(outside, 'hard')",
    "mode": "os.chmod(outside, 0o777)",
    "owner": "os.chown(outside, os.getuid(), os.getgid())",
    "time": "os.utime(outside, (1, 1))",
    "attribute": "os.setxattr(outside, 'user.out', b'1')",
    "list": "os.listdir(folder)",
    "read by a link": "os.symlink(outside, 'soft'); open('soft').read()",
    "write by a link": "os.path.lexists('soft') or os.symlink(outside, 'soft'); write('soft')",
    "list by a link": "os.symlink(folder, 'softly'); os.listdir('softly')",
    "leave by dots": "open('../' + os.path.basename(folder) + '/outside').read()",
    "system": "write('/etc/passwd', '')",
    "our Python": "write(sys.prefix + '/out')",
    "mode of a readable file": "os.chmod(os.open(os.__file__, os.O_RDONLY), 0o777)",
    "passwords": "open('/etc/shadow').read()",
}
PROCESSES = {
    "signal": "os.kill(driver, signal.SIGCONT)",
    "signal to the parent": "os.getppid() > 1 and os.kill(os.getppid(), signal.SIGTERM) or 1 / (os.getppid() > 1)",
    "environment": "open(f'/proc/{driver}/environ').read()",
    "arguments": "open(f'/proc/{driver}/cmdline').read()",
    "root": "os.listdir(f'/proc/{driver}/root')",
    "folder": "os.listdir(f'/proc/{driver}/cwd')",
    "descriptors": "os.listdir(f'/proc/{driver}/fd')",
    "memory": "open(f'/proc/{driver}/mem', 'rb')",
    "trace": "call('ptrace', 16, driver, 0, 0)",
    "descriptor of another": "call('syscall', 438, call('syscall', 434, driver, 0), 0, 0)",
    "limits": "resource.prlimit(driver, resource.RLIMIT_NOFILE, resource.prlimit(driver, resource.RLIMIT_NOFILE))",
    "priority": "os.setpriority(os.PRIO_PROCESS, driver, 19)",
    "cores": "os.sched_setaffinity(driver, {0})",
    "kernel": "write('/proc/sys/kernel/core_pattern', '')",
    "time of the machine": "time = __import__('time'); time.clock_settime(0, time.time())",
    "name of the machine": "socket.sethostname('out')",
    "keys": "call('syscall', 250 if os.uname().machine == 'x86_64' else 219, 0, -3, 1)",
}
DEVICES = {
    "disk": "os.mknod('disk', stat.S_IFBLK | 0o600, os.makedev(254, 0)); open('disk', 'rb').read(1)",
    "memory": "open('/dev/mem', 'rb').read(1)",
    "log": "open('/dev/kmsg', 'rb').read(1)",
    "terminal": "open('/dev/tty', 'rb')",
    "mount": "call('mount', b'/', b'.', None, 4096, None)",
    "namespace": "call('unshare', 0x10000000)",
    "root": "call('chroot', b'.')",
    "module": "call('syscall', 313, 0, b'', 0)",
}
SOCKETS = {
    "a socket in a folder": "connect(socket.AF_UNIX, socket.SOCK_STREAM, folder + '/socket')",
    "a socket without a folder": "connect(socket.AF_UNIX, socket.SOCK_STREAM, chr(0) + abstract)",
    "loopback": "connect(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', port))",
    "loopback of IPv6": "connect(socket.AF_INET6, socket.SOCK_STREAM, ('::1', port))",
    "a name": "socket.getaddrinfo('localhost.example', 80)",
    "the host of a virtual machine": "connect(40, socket.SOCK_STREAM, (2, 22))",
    "packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
}


class SandboxConformance:
    """What every sandbox holds. `make` returns one that this machine can use."""

    @abstractmethod
    def make(self) -> Sandbox:
        """Return the sandbox."""
        ...

    async def run(self, code: str, folder: Path, *arguments: str, **settings: Any) -> CommandOutcome:
        """Run Python code in a folder."""
        command = [sys.executable, "-I", "-c", code, *arguments]
        folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - a test
        given: dict[str, Any] = {"seconds": 30.0, **settings}
        return await self.make().run(command, folder, SandboxSettings(**given))

    async def attempt(
        self, attempts: Mapping[str, str], inside: Path, values: Mapping[str, object] | None = None, **settings: Any
    ) -> list[str]:
        """Make the attempts in a folder, with these values; return those that worked."""
        given = "".join(f"{name} = {value!r}\n" for name, value in (values or {}).items())
        outcome = await self.run(given + ATTEMPTS, inside, json.dumps(attempts), **settings)
        assert outcome.exit_code == 0, outcome
        found = cast("dict[str, str | None]", json.loads(outcome.output.splitlines()[-1]))
        return [name for name, error in found.items() if error is None]

    async def test_it_runs_a_command_in_its_folder_and_says_how_it_ended(self, tmp_path: Path) -> None:
        """With what it reads, what it prints in order, and the file that it leaves."""
        code = "import sys, os; print(sys.stdin.read()); print(os.getcwd(), flush=True); open('made', 'w'); sys.exit(3)"
        command = [sys.executable, "-I", "-c", code]
        outcome = await self.make().run(command, tmp_path, SandboxSettings(seconds=30.0), text="hello")
        assert (outcome.exit_code, outcome.output) == (3, f"hello\n{tmp_path}\n")
        assert outcome.sandbox == self.make().name
        assert outcome.excess is None
        assert (tmp_path / "made").exists()

    async def test_it_reaches_no_file_outside_of_its_folder(self, tmp_path: Path) -> None:
        """Not by a path, a link or a descriptor; modes, owners, times and attributes of files included."""
        outside = tmp_path / "folder" / "outside"
        outside.parent.mkdir()
        outside.write_text("untouched")
        before = outside.stat()
        values = {"outside": str(outside), "folder": str(outside.parent)}
        _none(await self.attempt(FILES, tmp_path / "inside", values))
        after = outside.stat()
        assert outside.read_text() == "untouched"
        kept = ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_nlink")
        assert [getattr(after, one) for one in kept] == [getattr(before, one) for one in kept]
        assert [one.name for one in outside.parent.iterdir()] == ["outside"]

    async def test_it_reaches_no_other_process(self, tmp_path: Path) -> None:
        """Neither by a signal or a trace, nor by what `/proc` shows, nor by limits."""
        _none(await self.attempt(PROCESSES, tmp_path, {"driver": os.getpid()}))

    async def test_it_reaches_no_device_and_changes_no_namespace(self, tmp_path: Path) -> None:
        """Also where this process may."""
        _none(await self.attempt(DEVICES, tmp_path / "inside"))

    async def test_it_reaches_no_socket(self, tmp_path: Path) -> None:
        """Neither of the network nor of this machine, with a name in the file system or without."""
        abstract = f"teamwright-{os.getpid()}-{tmp_path.name}"
        datagrams = {"datagrams": "connect(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', datagram_port))"}
        with (
            socket.socket(socket.AF_UNIX) as named,
            socket.socket(socket.AF_UNIX) as nameless,
            socket.socket() as tcp,
            socket.socket(type=socket.SOCK_DGRAM) as udp,
        ):
            udp.bind(("127.0.0.1", 0))
            udp.setblocking(False)
            for one, address in ((named, f"{tmp_path}/socket"), (nameless, f"\0{abstract}"), (tcp, ("127.0.0.1", 0))):
                one.bind(address)
                one.listen()
            values = {"folder": str(tmp_path), "abstract": abstract, "port": tcp.getsockname()[1]}
            _none(await self.attempt(SOCKETS, tmp_path / "inside", values))
            await self.attempt(datagrams, tmp_path / "inside", {"datagram_port": udp.getsockname()[1]})
            try:
                received = udp.recv(10)
            except BlockingIOError:
                received = None
        assert received is None, received

    async def test_it_gets_no_variable_and_no_descriptor_of_ours(self, tmp_path: Path) -> None:
        """Only the variables that are named, and the three descriptors of a program."""
        os.environ[SECRET] = "s3cret-value-of-ours"
        kept, _ = os.pipe()
        os.set_inheritable(kept, True)
        code = (
            "import os\n"
            "def is_open(one):\n"
            "    try: os.fstat(one)\n"
            "    except OSError: return False\n"
            "    return True\n"
            "print(sorted(os.environ), os.environ.get('NAMED_VARIABLE'), [*filter(is_open, range(3, 400))])"
        )
        try:
            outcome = await self.run(code, tmp_path, env={"NAMED_VARIABLE": "named"})
        finally:
            del os.environ[SECRET]
            os.close(kept)
        assert SECRET not in outcome.output
        assert outcome.output.endswith(" named []\n")

    async def test_it_reads_and_writes_the_folders_that_are_named(self, tmp_path: Path) -> None:
        """A readable one stays as it is."""
        (tmp_path / "read").mkdir()
        (tmp_path / "read" / "text").write_text("seen")
        (tmp_path / "write").mkdir()
        attempts = {
            "read": "assert open(read + '/text').read() == 'seen'",
            "write": "write(written + '/new')",
            "write what is readable": "write(read + '/text')",
            "create where it is readable": "write(read + '/new')",
        }
        read, written = str(tmp_path / "read"), str(tmp_path / "write")
        values, settings = {"read": read, "written": written}, {"readable": (read,), "writable": (written,)}
        worked = await self.attempt(attempts, tmp_path / "inside", values, **settings)
        assert worked == ["read", "write"], worked

    async def test_it_leaves_what_is_protected_in_its_folder(self, tmp_path: Path) -> None:
        """Hooks of a repository, which its user would run, and a file that is named."""
        hooks = tmp_path / "inside" / ".git" / "hooks"
        hooks.mkdir(parents=True)
        manifest = tmp_path / "inside" / "team.yaml"
        manifest.write_text("kept")
        attempts = {
            "hook": "write('.git/hooks/pre-commit')",
            "rename": "os.rename('.git', 'moved')",
            "remove": "os.rmdir('.git/hooks')",
            "by a link": "os.symlink('.git', 'linked'); write('linked/hooks/pre-commit')",
            "manifest": "write('team.yaml')",
            "replaced manifest": "write('other'); os.rename('other', 'team.yaml')",
        }
        _none(await self.attempt(attempts, tmp_path / "inside", protected=(".git", "team.yaml")))
        assert list(hooks.iterdir()) == []
        assert manifest.read_text() == "kept"

    async def test_it_ends_a_command_that_takes_too_long(self, tmp_path: Path) -> None:
        """With what it has started and detached, which may hold its output open."""
        code = _detached("77.25") + "time.sleep(77.25)"
        began = time.monotonic()
        outcome = await self.run(code, tmp_path, seconds=1.5)
        assert outcome.excess == "seconds"
        assert time.monotonic() - began < PATIENCE
        assert _alive("77.25") == []

    async def test_nothing_outlives_a_command(self, tmp_path: Path) -> None:
        """Children in sessions of their own, whose parents have ended, end with it; they write nothing later."""
        code = _detached("78.25", then="open('later', 'w')") + "print('done', flush=True)"
        outcome = await self.run(code, tmp_path)
        assert outcome.output == "done\n", outcome
        assert _alive("78.25") == []
        assert not (tmp_path / "later").exists()

    async def test_nothing_outlives_a_driver_that_is_killed(self, tmp_path: Path) -> None:
        """`kill -9` of this process ends the command and all that it has started."""
        make = type(self.make())
        command = [sys.executable, "-I", "-c", _detached("79.25") + "print(1, flush=True); time.sleep(79.25)"]
        driver = (
            f"import asyncio; from pathlib import Path; from {make.__module__} import {make.__qualname__} as Made\n"
            "from teamwright.values.specs.tools import SandboxSettings\n"
            f"asyncio.run(Made().run({command!r}, Path({str(tmp_path)!r}), SandboxSettings(seconds=60.0)))"
        )
        started = subprocess.Popen([sys.executable, "-c", driver])  # noqa: ASYNC220 - a test
        try:
            assert _wait_for(lambda: len(_alive("79.25")) >= 3)
        finally:
            started.kill()
            started.wait()
        assert _wait_for(lambda: _alive("79.25") == [])

    async def test_it_ends_a_command_that_starts_too_many_processes(self, tmp_path: Path) -> None:
        """Either a process can't be started, or all of them are ended."""
        code = (
            "import os, time\n"
            "count = 0\n"
            "try:\n"
            "    while count < 300:\n"
            "        if os.fork() == 0: time.sleep(80.25); os._exit(0)\n"
            "        count += 1\n"
            "except OSError: print('refused', flush=True)\n"
            "else: time.sleep(30)\n"
        )
        outcome = await self.run(code, tmp_path, processes=24)
        assert outcome.excess == "processes" or outcome.output == "refused\n"
        assert _alive("80.25") == []

    async def test_it_ends_a_command_that_takes_too_much_memory(self, tmp_path: Path) -> None:
        """Whether one process has it or many; memory that belongs to no process is refused."""
        much = "import time; held = [bytearray(b'x' * 4_000_000) for _ in range(100)]; time.sleep(30)"
        many = (
            "import os, time\n"
            "for _ in range(10):\n"
            "    if os.fork() == 0: break\n"
            "held = bytearray(b'x' * 30_000_000); time.sleep(30)"
        )
        for code in (much, many):
            assert (await self.run(code, tmp_path, megabytes=150)).excess == "memory"
        _none(await self.attempt({"memory without a process": "os.memfd_create('x')"}, tmp_path))

    async def test_it_ends_a_command_that_prints_without_end(self, tmp_path: Path) -> None:
        """Of what it prints, both ends are kept, and no more."""
        code = "import os\nwhile True: os.write(1, b'x' * 65536)"
        outcome = await self.run(code, tmp_path, output=1000)
        assert outcome.excess == "output"
        assert len(outcome.output) < 1200
        code = "print('first'); print('x' * 100_000); print('last')"
        outcome = await self.run(code, tmp_path, output=1000)
        assert outcome.output.startswith("first\n")
        assert outcome.output.endswith("last\n")
        assert (outcome.excess, outcome.cut) == (None, 100_012 - 1000)


def _none(worked: Sequence[str]) -> None:
    assert not worked, f"these attempts got out: {', '.join(worked)}"


def _detached(seconds: str, then: str = "") -> str:
    """Code that starts two sleepers which have left its session and lost their parent, with its output."""
    return (
        "import os, subprocess, sys, time\n"
        f"sleep = [sys.executable, '-I', '-c', {f'import time; time.sleep({seconds}); {then}'!r}]\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        subprocess.Popen(sleep)\n"
        "        os._exit(0)\n"
        "os.wait(), os.wait()\n"
    )


def _alive(mark: str) -> Sequence[str]:
    """The programs of this machine with this mark in their arguments, but for tests and those who search for it."""
    found: list[str] = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and one.name != str(os.getpid()):
            try:
                arguments = (one / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(f"time.sleep({mark})".encode() in argument for argument in arguments):
                found.append(one.name)
    return found


def _wait_for(condition: Any) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if condition():
            return True
        threading.Event().wait(0.02)
    return False
