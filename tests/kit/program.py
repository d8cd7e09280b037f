"""The program in processes of its own. A server that has imported it forks them, so that each starts in milliseconds.

`Program` is a `Popen` whose process the server forks; it begins at the program's entry and ends as any interpreter
does. Run as a program, this module is the server: it takes jobs from a socket, with the streams of each process.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Collection
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from teamwright.wings import is_there
from tests.kit.terminal import write_team
from tests.paths import ROOT

IMPORTED = ("rich.live", "teamwright.agents.model.turn", "teamwright.cli.terminal.live", "teamwright.server.app")
"""What commands import besides those of the warm-up."""
WARM_UP = (("run", "TEAM", "Go", "--run-id", "one"), ("runs", "show", "one"), ("runs", "list"))
TEAM = """
agents: {a: {model: scripted:replies.yaml}, b: {model: scripted:replies.yaml}}
teams: {t: {members: [a, b]}}
"""
LONGEST_JOB = 1 << 17
STREAMS = (0, 1, 2)
OPENED: dict[str, dict[str, Any]] = {
    "stdin": {},
    "stdout": {"mode": "w"},
    "stderr": {"mode": "w", "buffering": 1, "errors": "backslashreplace"},
}
"""How Python opens its standard streams."""


@dataclass(frozen=True, slots=True)
class Job:
    """One process of the program: its arguments, where it begins, which of its streams are closed, and its patience."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    session: bool
    terminal: bool
    closed: list[int]
    grace: float | None


class Program(subprocess.Popen[str]):
    """The program with these arguments, in a process that the server forks.

    The streams in `closed` are closed, as by `>&-` in a shell. In a new session, the terminal that is stdin controls
    the process if `terminal` says so: Ctrl-C reaches it. Members that are cancelled have `grace` seconds to end instead
    of the usual five.
    """

    # Of `Popen`, and not described in its types.
    _close_pipe_fds: Callable[..., None]
    _handle_exitstatus: Callable[[int], None]
    _waitpid_lock: threading.Lock

    def __init__(
        self,
        *arguments: object,
        closed: Collection[int] = (),
        terminal: bool = False,
        grace: float | None = None,
        **options: Any,
    ) -> None:
        self._closed, self._terminal, self._grace = list(closed), terminal, grace
        super().__init__(["teamwright", *map(str, arguments)], text=True, **options)

    def _execute_child(self, *given: Any) -> None:
        """Start the process. The arguments of this method of `Popen` have the same order in every Python so far."""
        arguments, folder, environment, session = given[0], given[5], given[6], given[21]
        pipes = in_read, _, _, out_write, _, error_write = given[10:16]
        job = Job(
            arguments[1:],
            str(folder or os.getcwd()),  # noqa: PTH109
            dict(os.environ if environment is None else environment),
            bool(session),
            self._terminal,
            self._closed,
            self._grace,
        )
        own = (in_read, out_write, error_write)
        streams = [number if file == -1 else file for number, file in zip(STREAMS, own, strict=True)]
        self._reports, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            socket.send_fds(_server(), [json.dumps(asdict(job)).encode()], [far.fileno(), *streams])
        self.pid = self._receive()
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _receive(self, flags: int = 0) -> int:
        """Receive a report: first the id of the process, later the status with which it ended."""
        if not (report := self._reports.recv(16, flags)):
            raise RuntimeError("the server that forks the program has ended")
        return int(report)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        try:
            status = self._receive(socket.MSG_DONTWAIT if wait_flags == os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self._reports.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run_program(*arguments: object, timeout: float = 50, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, and keep what it wrote."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with Program(*arguments, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@cache
def _server() -> socket.socket:
    """Start the server of this process, which ends with it, and return the socket for jobs."""
    jobs, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        server = subprocess.Popen([sys.executable, "-m", __name__], stdin=far.fileno(), cwd=ROOT)

    def end() -> None:
        jobs.close()
        server.wait()

    atexit.register(end)
    return jobs


def _serve(jobs: socket.socket) -> Job | None:
    """Fork a process for each job. Return the job in that process, and nothing in the server when the jobs end."""
    running: dict[int, socket.socket] = {}

    def report_ends(*_: object) -> None:
        while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with running.pop(ended[0]) as reports:
                _report(reports, ended[1])

    signal.signal(signal.SIGCHLD, report_ends)
    while True:
        text, files, *_ = socket.recv_fds(jobs, LONGEST_JOB, 1 + len(STREAMS))
        if not text:
            return None
        reports, job = socket.socket(fileno=files[0]), Job(**json.loads(text))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if (pid := os.fork()) == 0:
            for other in running.values():
                other.close()
            jobs.detach()
            _begin(job, files[1:])
            with reports:
                _report(reports, os.getpid())
            return job
        running[pid] = reports
        for file in files[1:]:
            os.close(file)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _report(reports: socket.socket, number: int) -> None:
    """Tell a number to who started the process, unless that has ended."""
    try:
        reports.send(str(number).encode())
    except OSError:
        return


def _begin(job: Job, files: list[int]) -> None:
    """Make this process one that was just started for the job."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    if job.session:
        os.setsid()
    for number, file in zip(STREAMS, files, strict=True):
        os.dup2(file, number)
        os.close(file)
        if number in job.closed:
            os.close(number)
    if job.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if job.grace is not None:
        import_module("teamwright.runtime.tasks").__dict__["CANCEL_GRACE"] = job.grace
    os.chdir(job.folder)
    os.environ.clear()
    os.environ.update(job.environment)
    sys.path[0] = job.folder
    sys.argv = ["teamwright", *job.arguments]
    for number, (name, options) in enumerate(OPENED.items()):
        stream = None if number in job.closed else open(number, closefd=False, **options)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _warm_up() -> None:
    """Import what most commands import, and build the models of pydantic that they use, by running a few."""
    from teamwright.cli.main import main

    before = os.environ.copy()
    with TemporaryDirectory() as name, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        os.environ["TEAMWRIGHT_HOME"] = f"{name}/home"
        team = write_team(Path(name, "team"), TEAM, "rules: [{reply: Hello.}]")
        for command in WARM_UP:
            main([str(team) if word == "TEAM" else word for word in command])
    os.environ.clear()
    os.environ.update(before)
    for module in filter(is_there, IMPORTED):
        import_module(module)
    assert threading.active_count() == 1, "a fork has one thread"
    gc.collect()
    gc.freeze()  # else the first collection of each process copies every page of this one


if __name__ == "__main__":
    _warm_up()
    if _serve(socket.socket(fileno=0)) is not None:
        from teamwright.cli.entry import main

        sys.exit(main())
