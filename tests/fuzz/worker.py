"""Runs the cases of one target in a forked child: bounded in time and memory, reporting through a pipe and a page.

A case that hangs ends the child from inside, with the stacks of all threads in a file; the parent continues without it.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, NoReturn

from pydantic import JsonValue

from tests.fuzz.case import Case, Finding, Violation
from tests.fuzz.targets.protocol import Target

MOST_MEMORY = 8 << 30
"""The address space of a child, in bytes: what is larger is a mistake in any case."""
MOST_GROWTH = 400 << 20
"""How much more memory one case may take, in bytes."""
MOST_CPU = 10.0
"""CPU seconds that one case may take; wall time says little on a busy machine."""
BROKEN = 70
"""The exit code of a child whose target failed outside of a case: a mistake of the fuzzer itself."""
COUNTERS = struct.Struct("qqqq")


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a child has come; `number` is the case under way."""

    number: int = 0
    cases: int = 0
    accepted: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of a child: the cases of a target from number `first` on, until time or cases run out.

    Case numbers below zero are those of the corpus.
    """

    target: type[Target]
    seed: int
    first: int
    seconds: float
    cases: int | None = None
    slack: float = 1.0
    """By how much the bounds of a case are widened, to look again at one that was too slow."""


class Worker:
    """A child at work on a slice, as its parent sees it."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._page = mmap.mmap(-1, COUNTERS.size)
        self.pipe, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns of forks beside threads; a test may have some, and the child touches nothing of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _child(slice_, self.folder, self._page, writing)
        os.close(writing)
        os.set_blocking(self.pipe, False)
        self._received = b""
        self._born = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._born

    @property
    def counts(self) -> Counts:
        return Counts(*COUNTERS.unpack(self._page[: COUNTERS.size]))

    def findings(self) -> list[Finding]:
        """The reports since the last poll."""
        while True:
            try:
                piece = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                break
            self._received += piece
        *lines, self._received = self._received.split(b"\n")
        return [_finding(json.loads(line)) for line in lines]

    def ended(self) -> int | None:
        """The exit code once the child has ended, negative for a signal."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return None if pid == 0 else os.waitstatus_to_exitcode(status)

    def stacks(self) -> str:
        """The stacks of the threads of a child that was too slow."""
        file = self.folder / "stacks.txt"
        return file.read_text(errors="replace") if file.exists() else ""

    def payload(self) -> JsonValue:
        """The input that it was given to look at again."""
        return json.loads((self.folder / "payload.json").read_text())

    def close(self) -> None:
        os.close(self.pipe)
        self._page.close()
        rmtree(self.folder, ignore_errors=True)


def _finding(told: dict[str, Any]) -> Finding:
    return Finding(Case(**told.pop("case")), **told)


def _child(slice_: Slice, folder: Path, page: mmap.mmap, pipe: int) -> NoReturn:
    code = BROKEN
    try:
        _prepare(folder)
        _work(slice_, folder, page, pipe)
        code = 0
    except BaseException:  # noqa: BLE001 - a child never returns into its parent's code
        (folder / "stacks.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _prepare(folder: Path) -> None:
    """Set a separate home, without keys, input or output."""
    for name in list(os.environ):
        if name.startswith("TEAMWRIGHT_") or name.endswith(("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET")):
            del os.environ[name]
    os.environ.update(TEAMWRIGHT_HOME=str(folder / "home"), NO_PROXY="127.0.0.1,localhost", TMPDIR=str(folder))
    tempfile.tempdir = None
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    (folder / "work").mkdir()
    os.chdir(folder / "work")


def _work(slice_: Slice, folder: Path, page: mmap.mmap, pipe: int) -> None:
    target = slice_.target(folder / "work")
    corpus = target.corpus()
    counts, number = Counts(), max(slice_.first, -len(corpus))
    end = time.monotonic() + slice_.seconds
    with (folder / "stacks.txt").open("w") as stacks:
        while time.monotonic() < end and counts.cases != slice_.cases:
            page[: COUNTERS.size] = COUNTERS.pack(number, counts.cases, counts.accepted, counts.refused)
            payload = corpus[number] if number < 0 else draw(target, slice_.seed, number)
            if slice_.slack > 1:
                (folder / "payload.json").write_text(json.dumps(payload))
            faulthandler.dump_traceback_later(target.seconds * slice_.slack, exit=True, file=stacks)
            told = run_case(target, Case(target.name, slice_.seed, number, payload), slice_.slack)
            faulthandler.cancel_dump_traceback_later()
            if isinstance(told, Finding):
                os.write(pipe, json.dumps(asdict(told)).encode() + b"\n")
            number += 1
            counts = Counts(
                number, counts.cases + 1, counts.accepted + (told == "accepted"), counts.refused + (told == "refused")
            )
            page[: COUNTERS.size] = COUNTERS.pack(number, counts.cases, counts.accepted, counts.refused)
            if isinstance(told, Finding) and told.kind == "memory":
                return  # the high-water mark never falls, so a new child is started
    target.close()


def draw(target: Target, seed: int, number: int) -> JsonValue:
    """The input of a case: the same for the same seed, target and number."""
    return target.draw(Random(f"{seed}/{target.name}/{number}"))


def run_case(target: Target, case: Case, slack: float = 1.0) -> str | Finding:
    """The response of the product to a case, or what was wrong with it."""
    memory, cpu = _memory(), time.process_time()
    try:
        outcome = target.run(case.payload)
    except Violation as error:
        return Finding(case, error.kind, f"{error.kind}: {error.reason}", str(error))
    except Exception as error:  # noqa: BLE001 - whatever else the product raises is what is looked for
        return Finding(case, "traceback", _signature(error), traceback.format_exc())
    if (spent := time.process_time() - cpu) > MOST_CPU * slack:
        return Finding(case, "slow", "slow", f"it took {spent:.1f} seconds of CPU time")
    if (growth := _memory() - memory) > MOST_GROWTH:
        gc.collect()
        return Finding(case, "memory", "memory", f"it took {growth >> 20} MiB of memory")
    return outcome


def _memory() -> int:
    """The most memory that this process ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _signature(error: BaseException) -> str:
    """The kind of error, and the innermost place in the product where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "teamwright" in frame.filename] or list(frames)
    where = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"
    return f"{type(error).__name__} in {where}"
