"""Keeps a stream of JSON lines free of anything else: what others write becomes a JSON line of its own.

Libraries, warnings, tracebacks and C code write to the file descriptors, so these lead through a pipe to a thread.
Nothing here may raise into the program whose output it carries.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, TextIO

from teamwright.cli.terminal.output import clean, register_drain

QUIET_SECONDS: Final = 0.05
"""Lines that follow each other faster, such as those of a traceback, become one."""
DRAIN_SECONDS: Final = 2.0
"""How long the end of the program may wait for its last lines: a child that lives on may hold the pipe."""
LONGEST: Final = 64 * 1024
_OUT, _ERR = 1, 2


def wants_json_lines(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for a log of JSON lines."""
    return "worker" in arguments and ("--log=json" in arguments or ("--log", "json") in pairwise(arguments))


@contextmanager
def json_lines() -> Generator[None]:
    """Let all that the process writes within the block be lines of JSON on its stderr, and nothing on its stdout."""
    if not _are_real_streams():
        yield
        return
    carrier = _Carrier()
    register_drain(carrier.close)
    try:
        yield
    finally:
        carrier.close()


def _are_real_streams() -> bool:
    """Whether the streams of Python are those of the process, and not of a test or an embedding program."""
    try:
        return (sys.stdout.fileno(), sys.stderr.fileno()) == (_OUT, _ERR)
    except (OSError, ValueError, AttributeError):
        return False


class _Carrier:
    """Carries what is written to the two file descriptors to the real stderr, as lines of JSON."""

    def __init__(self) -> None:
        self._kept, self._streams = (os.dup(_OUT), os.dup(_ERR)), (sys.stdout, sys.stderr)
        _flush(self._streams)
        self._source, target = os.pipe()
        for descriptor in (_OUT, _ERR):
            os.dup2(target, descriptor)
        os.close(target)
        # Those of before remember whether they led to a file, and ask the pipe for a position in it.
        sys.stdout, sys.stderr = (_stream_on(descriptor) for descriptor in (_OUT, _ERR))
        self._thread = threading.Thread(target=self._carry, name="json-lines", daemon=True)
        self._thread.start()
        self._is_open = True

    def close(self) -> None:
        """Give the descriptors back, and wait until all is carried."""
        if not self._is_open:
            return
        self._is_open = False
        _flush((sys.stdout, sys.stderr, *self._streams))
        sys.stdout, sys.stderr = self._streams
        for kept, descriptor in zip(self._kept, (_OUT, _ERR), strict=True):
            os.dup2(kept, descriptor)
        self._thread.join(DRAIN_SECONDS)

    def _carry(self) -> None:
        rest, others = b"", list[str]()
        while True:
            ready = bool(select.select([self._source], [], [], QUIET_SECONDS if others else None)[0])
            chunk = os.read(self._source, LONGEST) if ready else b""
            *lines, rest = (rest + chunk).split(b"\n")
            if ready and (not chunk or len(rest) > LONGEST):  # the end, or a line without one
                lines, rest = [*lines, rest], b""
            for line in lines:
                text = line.decode("utf-8", "replace")
                if _is_record(text):
                    self._write_others(others)
                    self._write(text)
                elif text.strip():
                    others.append(text)
            if not ready or not chunk or sum(map(len, others)) > LONGEST:
                self._write_others(others)
            if ready and not chunk:
                return

    def _write_others(self, lines: list[str]) -> None:
        if lines:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._write(json.dumps({"time": time, "event": "output", "detail": clean("\n".join(lines))}))
            lines.clear()

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "replace") + b"\n"
        with suppress(OSError):
            while data:
                data = data[os.write(self._kept[1], data) :]


def _flush(streams: Iterable[TextIO]) -> None:
    for stream in streams:
        with suppress(OSError, ValueError):
            stream.flush()


def _stream_on(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)


def _is_record(text: str) -> bool:
    if not text.startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
