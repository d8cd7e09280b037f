"""Watches one confined program: a script of its own, with nothing but the standard library and `sandlock`.

It ends everything that the program has started when the program ends, when it uses too much, or when its own parent is
gone, however that died. It reports why on a descriptor that the program never gets.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the plain module: each import costs a command some milliseconds

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 36, 38, 22, 24
CAPABILITIES = 64
SECCOMP_MODE_FILTER = 2
TMP = "{tmp}"
"""What stands for the temporary folder among the options of the program that confines."""
FILTER = "{filter}"
"""What stands for the descriptor of the filter of system calls among them."""
TEMPORARY = ("/tmp", "/var/tmp")
"""Where the temporary folder of a program may be: the first that is no memory."""
MEMORY_FILES = (0x01021994, 0x858458F6)
"""Kinds of file systems whose files are memory, which no process would be charged with."""
KEEP_FILES = 100_000
"""How many more files a file system has room for, or half of what it had when the program started."""
LOOK_SECONDS = 0.025
KILL_SECONDS = 5.0
NOT_STARTED = 127
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class GuardedProgram:
    """The watch over one program."""

    def __init__(self, spec: dict[str, str], command: list[str]) -> None:
        self.spec, self.command = spec, command
        self.most_processes, self.most_memory = int(spec["processes"]), int(spec["memory"])
        self.places: list[WritablePlace] = []
        self.code: int | None = None
        self.error = ""
        self.awake, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self.ending = False
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGCHLD, self._wake_up)

    def _end(self, *_: object) -> None:
        self.ending = True

    def _wake_up(self, *_: object) -> None:
        """Do nothing: that a signal has arrived ends the wait."""

    def run(self) -> int:
        """Run the program to its end; return its exit code."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != int(self.spec["parent"]):
            return NOT_STARTED
        folder = f"{temporary_place(libc)}/teamwright-{os.urandom(8).hex()}"
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is another import
        try:
            keep_free = int(self.spec["keep_free"])
            others = (folder, *filter(None, self.spec["writable"].split("\n")))
            self.places = [WritablePlace(self.spec["workspace"], keep_free)]
            self.places += [WritablePlace(one, min(keep_free, room(one)[0] // 2)) for one in others]
            own = self.spec["tmp"] or folder
            os.environ.update({"TMPDIR": own, "HOME": self.spec["home"] or own})
            reason = self._watch(self._start(libc, folder))
        finally:
            self._kill_all()
            try:  # noqa: SIM105 - contextlib is another import
                remove_folder(folder)
            except OSError:  # the command is not judged by what can't be removed
                pass
        self._report(reason)
        return NOT_STARTED if self.code is None else self.code

    def _start(self, libc: ctypes.CDLL, folder: str) -> int:
        """Start the program; return the id of its process, or 0 if a thread waits for it."""
        if not self.spec["sandlock"]:
            return self._fork(folder)
        for number in range(CAPABILITIES):  # the program gets none, also where this process is root's
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
        if program := self.spec["filter"]:
            libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            _load_filter(libc, bytes.fromhex(program))
        _thread.start_new_thread(self._run_sandlock, (folder,))
        return 0

    def _fork(self, folder: str) -> int:
        own = int(self.spec["options"])
        options, command = [one.replace(TMP, folder) for one in self.command[:own]], self.command[own:]
        if (program := self.spec["filter"]) and FILTER in options:
            descriptor = os.memfd_create("filter", 0)
            os.write(descriptor, bytes.fromhex(program))
            os.lseek(descriptor, 0, os.SEEK_SET)
            options[options.index(FILTER)] = str(descriptor)
        command = [*options, *command]
        child = os.fork()
        if child:
            return child
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_STARTED)

    def _run_sandlock(self, folder: str) -> None:
        try:
            sys.path.append(self.spec["packages"])
            import json

            from sandlock import Sandbox  # pyright: ignore[reportMissingTypeStubs]

            settings: dict[str, Any] = json.loads(self.spec["sandlock"])
            settings["fs_writable"].append(folder)
            self.code = Sandbox(**settings).run_interactive(self.command)
            if self.code < 0:
                self.code, self.error = NOT_STARTED, "sandlock could not start it"
        except Exception as error:  # noqa: BLE001 - becomes the reason of this run, and nothing else
            self.code, self.error = NOT_STARTED, f"{type(error).__name__}: {error}"
        os.write(self._wake, b".")

    def _watch(self, child: int) -> str:
        """Wait for the end of the program; return why it was ended, or nothing."""
        while True:
            if child:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    self.code = os.waitstatus_to_exitcode(status)
                    self.code = 128 - self.code if self.code < 0 else self.code
            if self.code is not None:
                return self.error
            if reason := self._excess():
                return reason
            if select.select([self.awake], [], [], LOOK_SECONDS)[0]:
                os.read(self.awake, 4096)
            if self.ending:
                return "stopped"

    def _excess(self) -> str:
        """Return the limit that the program and what it has started exceed, or nothing."""
        found = self._descendants(os.getpid())
        if len(found) > self.most_processes:
            return "processes"
        if sum(map(_memory, found)) > self.most_memory:
            return "memory"
        return "disk" if any(one.is_full() for one in self.places) else ""

    def _descendants(self, process: int) -> list[int]:
        """Return the processes below one, also those that have left its session or whose parents have ended."""
        found: list[int] = []
        pending = [process]
        while pending:
            one = pending.pop()
            for task in _entries(f"/proc/{one}/task"):
                below = list(map(int, _read(f"/proc/{one}/task/{task}/children").split()))
                found += below
                pending += below
        return found

    def _kill_all(self) -> None:
        """Kill whatever is left; a process that is just being started is found in the next pass."""
        until = time.monotonic() + KILL_SECONDS
        while (found := self._descendants(os.getpid())) and time.monotonic() < until:
            for one in found:
                try:
                    os.kill(one, signal.SIGKILL)
                except OSError:  # it has ended meanwhile
                    continue
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)

    def _report(self, reason: str) -> None:
        if self.spec["report"]:
            os.write(int(self.spec["report"]), reason.encode())


class WritablePlace:
    """A folder in which a program may write, and how much room it leaves on the file system there."""

    def __init__(self, path: str, keep_free: int) -> None:
        self.path, self.keep_free = path, keep_free
        self.keep_files = min(KEEP_FILES, room(path)[1] // 2)

    def is_full(self) -> bool:
        """Whether less room is left than there has to be."""
        free, files = room(self.path)
        return free < self.keep_free or files < self.keep_files


def room(path: str) -> tuple[int, int]:
    """Return how many bytes and how many files there is room for; 0 files where a file system does not count them."""
    try:
        found = os.statvfs(path)
    except OSError:  # it is not there, so nothing is written there
        return 0, 0
    return found.f_bavail * found.f_frsize, found.f_favail


def temporary_place(libc: ctypes.CDLL) -> str:
    """Return the folder for temporary files of a program: on a disk, if there is one."""
    found = [one for one in TEMPORARY if os.access(one, os.W_OK | os.X_OK)]
    return next((one for one in found if not is_memory(libc, one)), TEMPORARY[0])


def is_memory(libc: ctypes.CDLL, folder: str) -> bool:
    """Whether the files in a folder are memory."""
    status = ctypes.create_string_buffer(512)
    failed = libc.statfs(os.fsencode(folder), status)
    return not failed and ctypes.c_long.from_buffer(status).value in MEMORY_FILES


def remove_folder(folder: str) -> None:
    """Remove a folder with all that is in it, however deep; a link in it is not followed. Raises `OSError`."""
    above: list[tuple[str, int]] = []
    here = _enter(folder, None)
    try:
        while True:
            if inner := _remove_entries(here):
                above.append((inner, os.fstat(here).st_ino))
                entered = _enter(inner, here)
            elif above:
                entered = os.open("..", FOLDER, dir_fd=here)
                name, number = above.pop()
                if os.fstat(entered).st_ino != number:
                    raise OSError(errno.ESTALE, f"{name} was moved meanwhile")
                os.rmdir(name, dir_fd=entered)
            else:
                break
            os.close(here)
            here = entered
    finally:
        os.close(here)
    os.rmdir(folder)  # noqa: PTH106 - pathlib is another import


def _enter(name: str, above: int | None) -> int:
    """Open a folder to remove what is in it, also one that its owner may not read or change."""
    try:
        opened = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        opened = os.open(name, FOLDER, dir_fd=above)
    os.fchmod(opened, 0o700)
    return opened


def _remove_entries(folder: int) -> str:
    """Remove what an open folder holds up to the first folder in it; returns that, or nothing if there is none."""
    with os.scandir(folder) as entries:
        for one in entries:
            if one.is_dir(follow_symlinks=False):
                return one.name
            os.unlink(one.name, dir_fd=folder)
    return ""


def _memory(process: int) -> int:
    """The memory of a process that belongs to no file on disk, in bytes."""
    lines = _read(f"/proc/{process}/status").splitlines()
    return 1024 * sum(int(one.split()[1]) for one in lines if one.startswith(("RssAnon:", "RssShmem:")))


def _read(file: str) -> str:
    """Return the text of a file of `/proc`; nothing if its process has ended."""
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123 - pathlib is another import
            return opened.read()
    except OSError:
        return ""


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []


class Program(ctypes.Structure):
    """A filter of system calls, as the kernel takes it."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _load_filter(libc: ctypes.CDLL, instructions: bytes) -> None:
    program = Program(len(instructions) // 8, instructions)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


if __name__ == "__main__":
    BEGIN = sys.argv.index("--")
    SPEC = dict(one.split("=", 1) for one in sys.argv[1:BEGIN])
    if SPEC["report"]:
        os.set_inheritable(int(SPEC["report"]), False)
    sys.exit(GuardedProgram(SPEC, sys.argv[BEGIN + 1 :]).run())
