"""All output of the program: results on stdout or in a file, everything else on stderr.

Control characters are removed and texts that look like secrets are masked. A result that can't be written is an error;
a message on stderr that can't be written is dropped. A stream of JSON lines is kept free of anything else: libraries,
warnings and C code write to the file descriptors, so these lead through a pipe to a thread, which writes a JSON line
for each text. Nothing there may raise into the program whose output it carries.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO, cast

import typer

from teamwright.values.text.secrets import mask_text, mask_value

if TYPE_CHECKING:
    from pydantic import JsonValue


GATE_FAILED = 1
"""The exit code of a command whose result fails a gate."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the result to a file instead of stdout.")
]

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(
    r"[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\ud800-\udfff\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)
QUIET_SECONDS: Final = 0.05
"""Lines that follow each other faster, such as those of a traceback, become one."""
DRAIN_SECONDS: Final = 2.0
"""How long the end of the program may wait for its last lines: a child that lives on may hold the pipe."""
LONGEST: Final = 64 * 1024
_OUT, _ERR = 1, 2
INTERVAL = 2.0
"""Seconds between two lines about progress, and before the first one."""


class ClosedOutput(Exception):
    """The reader of our stdout has closed the pipe."""


class LostOutput(Exception):
    """A result could not be written; the message says where and why."""


_DRAINS: list[Callable[[], None]] = []
_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)
"""The stream of results while `redirect_prints` redirects stdout."""


def clean(text: str) -> str:
    """Return the text without escape sequences, control characters (except newline and tab) and bidi overrides.

    Secrets are masked, so clean a text before you cut it: half of a secret is not recognised as one.
    """
    return mask_text(_CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n"))))


def one_line(text: str) -> str:
    """The first non-empty line, cleaned, with an ellipsis if there are more."""
    lines = [line.strip() for line in clean(text).splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[0] + (" …" if len(lines) > 1 else "")


def json_text(value: JsonValue | Mapping[str, JsonValue] | Sequence[JsonValue], *, indent: int | None = 2) -> str:
    """JSON with secrets masked and every character escaped that a terminal could hide, obey or fail to encode."""
    text = json.dumps(mask_value(cast("JsonValue", value)), ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text)


def say(text: str) -> None:
    """Print a message on stderr; if stderr can't be written, drop it."""
    with suppress(ClosedOutput, LostOutput):
        _write(sys.stderr, clean(text) + "\n")


def write_result(text: str, out: Path | None = None, *, exact: bool = False) -> None:
    """Write a result as text, to stdout or a file; an `exact` one is cleaned for a terminal alone."""
    keeps = exact and (out is not None or not sys.stdout.isatty())
    _deliver(text if keeps else clean(text), out)


def write_text(text: str) -> None:
    """Write a piece of a result to stdout; it is cleaned already."""
    _write(result_stream(), text)


def write_json(
    value: JsonValue | Mapping[str, JsonValue] | Sequence[JsonValue], out: Path | None = None, *, private: bool = False
) -> None:
    """Write a result as one JSON document, to stdout or a file, which only its owner may read if it is `private`."""
    _deliver(json_text(value), out, private=private)


def write_pieces(pieces: Iterable[str], out: Path | None = None) -> None:
    """Write a long text piece by piece, to stdout or a file."""
    if out is None:
        for piece in pieces:
            _write(result_stream(), mask_text(piece))
    else:
        write_file(map(mask_text, pieces), out)


def write_json_line(value: Mapping[str, JsonValue]) -> None:
    """Write one line of a JSON stream to stdout."""
    _deliver(json_text(value, indent=None), None)


def _deliver(text: str, out: Path | None, *, private: bool = False) -> None:
    ended = text if text.endswith("\n") else text + "\n"
    if out is None:
        _write(result_stream(), ended)
    else:
        write_file(ended, out, private=private)


def write_file(text: str | Iterable[str], file: Path, *, private: bool = False) -> None:
    """Write a file, or raise LostOutput with the reason. A `private` one is readable by its owner alone."""
    try:
        with open(file, "w", encoding="utf-8", opener=_open_private if private else None) as opened:
            opened.writelines([text] if isinstance(text, str) else text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LostOutput(f"{str(file)!r} can't be written: {reason}; name another file.") from error


def _open_private(path: str, flags: int) -> int:
    """Open a file that others can't read, also one that was there and open to them; a pipe or device stays as it is."""
    handle = os.open(path, flags, 0o600)
    with suppress(OSError):  # of another owner: then it is not ours to close
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, 0o600)
    return handle


def result_stream() -> TextIO:
    """The stream of results: the real stdout, also while `redirect_prints` redirects prints."""
    return _RESULTS.get() or sys.stdout


@contextmanager
def redirect_prints() -> Generator[None]:
    """Redirect what a team's own code prints to stderr within the block, so that stdout holds only results."""
    token = _RESULTS.set(result_stream())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def _write(stream: TextIO, text: str) -> None:
    """Write and flush; after a failure, redirect the stream to the null device."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError as error:
        _silence(stream)
        raise ClosedOutput from error
    except OSError as error:
        _silence(stream)
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        raise LostOutput(f"The result can't be written to stdout: {reason}.") from error


def flush_results() -> None:
    """Flush what others have written to stdout, such as a help text."""
    _write(result_stream(), "")


def register_drain(drain: Callable[[], None]) -> None:
    """Call this in `flush_all`: it waits until what was written has reached its reader."""
    _DRAINS.append(drain)


def flush_all() -> None:
    """Flush both streams before `os._exit`, which does not."""
    with suppress(ClosedOutput, LostOutput):
        flush_results()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    while _DRAINS:
        _DRAINS.pop()()


def _silence(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that the interpreter does not complain when it flushes on exit."""
    with suppress(OSError):  # a stream without a file descriptor is not flushed on exit
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def reopen_closed_streams() -> None:
    """Replace standard streams that the caller has closed.

    Reading stdin then returns nothing, messages are dropped, and writing a result fails. The file descriptors 0 to 2
    are taken, so that no file of ours gets one of them.
    """
    for name, mode, access in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def replace_unencodable() -> None:
    """Replace characters that the terminal's encoding lacks, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def check_out(out: Path | None, option: str = "--out") -> None:
    """Reject an output file that can't be written, before any work is done."""
    if out is None:
        return
    from teamwright.errors import UsageError

    if out.is_dir():
        raise UsageError(f"{option} {str(out)!r} is a folder; name a file.")
    if not out.parent.is_dir():
        raise UsageError(f"{option} {str(out)!r}: there is no folder {str(out.parent)!r}; create it first.")


def report_failed_gates(messages: Iterable[str]) -> int:
    """Print a message for every failed gate, and return the exit code."""
    printed = list(messages)
    for message in printed:
        say(message)
    return GATE_FAILED if printed else 0


def wants_json_lines(arguments: Sequence[str]) -> bool:
    """Whether a command line, without options of servers before the command, asks for a log of JSON lines."""
    return list(arguments[:1]) == ["worker"] and "--json" in arguments


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


@dataclass(slots=True)
class ProgressCounter:
    """A progress callback; `what` names the things that it counts."""

    what: str
    _printed_at: float = field(default_factory=time.monotonic)

    def __call__(self, done: int, total: int) -> None:
        """Print the progress, unless the work is done or the last line is recent."""
        now = time.monotonic()
        if done < total and now - self._printed_at >= INTERVAL:
            self._printed_at = now
            say(f"{done} of {total} {self.what}")


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text with aligned columns."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
