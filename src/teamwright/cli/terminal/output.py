"""What leaves the program: results on stdout or in a file, everything else on stderr.

Nothing leaves with a raw control character in it, nor with a text that looks like a secret. A result that can't be
written is an error; what is only said never is.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from teamwright.values.secrets.patterns import mask_text, mask_value

if TYPE_CHECKING:
    from pydantic import JsonValue

BROKEN = 1
"""The exit code where a result breaks a gate that it is held to."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the result to a file, not to stdout.")]

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(
    r"[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\ud800-\udfff\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)


class ClosedOutput(Exception):
    """Whoever read our stdout has gone; there is nobody left to tell."""


class LostOutput(Exception):
    """A result could not be written; the text says where and why."""


_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)
"""Where results go while others may not print there."""


def clean(text: str) -> str:
    """The text without escape sequences, control characters (but newline and tab) and what reorders a line.

    What looks like a secret is masked, so a text is cleaned before it is cut: half of a secret looks like nothing.
    """
    return mask_text(_CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n"))))


def one_line(text: str) -> str:
    """The first line that says something, cleaned; an ellipsis stands for the rest."""
    lines = [line.strip() for line in clean(text).splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[0] + (" …" if len(lines) > 1 else "")


def json_text(value: JsonValue | Mapping[str, JsonValue] | Sequence[JsonValue], *, indent: int | None = 2) -> str:
    """JSON that is safe to look at in a terminal, can always be encoded and shows nothing that looks like a secret."""
    text = json.dumps(mask_value(cast("JsonValue", value)), ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text)


def say(text: str) -> None:
    """Tell the user something that is no result; where nobody can be told, nothing comes of it."""
    with suppress(ClosedOutput, LostOutput):
        _write(sys.stderr, clean(text) + "\n")


def result(text: str, out: Path | None = None) -> None:
    """Hand over a result that is text for people."""
    _deliver(clean(text), out)


def result_json(value: JsonValue | Mapping[str, JsonValue] | Sequence[JsonValue], out: Path | None = None) -> None:
    """Hand over a result as one JSON document."""
    _deliver(json_text(value), out)


def result_pieces(pieces: Iterable[str], out: Path | None = None) -> None:
    """Hand over a long text piece by piece."""
    if out is None:
        for piece in pieces:
            _write(results(), mask_text(piece))
    else:
        write_file(map(mask_text, pieces), out)


def line_json(value: Mapping[str, JsonValue]) -> None:
    """Hand over one line of a stream of JSON."""
    _deliver(json_text(value, indent=None), None)


def _deliver(text: str, out: Path | None) -> None:
    ended = text if text.endswith("\n") else text + "\n"
    if out is None:
        _write(results(), ended)
    else:
        write_file(ended, out)


def write_file(text: str | Iterable[str], file: Path) -> None:
    """Write a file as it is, or say why that can't be."""
    try:
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines([text] if isinstance(text, str) else text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LostOutput(f"{str(file)!r} can't be written: {reason}; name another file.") from error


def results() -> TextIO:
    """The stream of results: stdout, also while `prints_aside` keeps everybody else from it."""
    return _RESULTS.get() or sys.stdout


@contextmanager
def prints_aside() -> Generator[None]:
    """Send what a team's own code prints to stderr for the time of the block, so that stdout holds results alone."""
    token = _RESULTS.set(results())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def _write(stream: TextIO, text: str) -> None:
    """Write and flush; where that can't be, nothing is written there any more."""
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
    """Write what others have left in stdout, such as a help text."""
    _write(results(), "")


def flush_all() -> None:
    """Write out everything before a process that ends without the interpreter's own end."""
    with suppress(ClosedOutput, LostOutput):
        flush_results()
    with suppress(OSError, ValueError):
        sys.stderr.flush()


def _silence(stream: TextIO) -> None:
    """Send the rest to nowhere, so that the interpreter does not complain when it flushes at its end."""
    with suppress(OSError):  # no stream of the system: nothing is flushed at the end
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_what_is_closed() -> None:
    """Put something in the place of streams that the caller has closed.

    Nothing is read from stdin, what is said is lost, and a result is refused by stdout. Their numbers are taken then,
    so that no file of ours gets one of them.
    """
    for name, mode, access in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def never_fail_to_encode() -> None:
    """Let characters that the terminal's encoding lacks be replaced instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def check_out(out: Path | None, option: str = "--out") -> None:
    """Refuse a file that can't be written before any work is done."""
    if out is None:
        return
    from teamwright.errors import UsageError

    if out.is_dir():
        raise UsageError(f"{option} {str(out)!r} is a folder; name a file.")
    if not out.parent.is_dir():
        raise UsageError(f"{option} {str(out)!r}: there is no folder {str(out.parent)!r}; make it first.")


def check_files(out: Path | None, plot: Path | None) -> None:
    """Refuse files that the result or its plot can't be written to, before any work is done."""
    check_out(out)
    if plot is not None:
        from teamwright.lab.drawing.svg import check_file

        check_out(plot, "--plot")
        check_file(plot)


def tell_broken(breaches: Iterable[str]) -> int:
    """Tell of every gate that is broken; the exit code."""
    told = list(breaches)
    for breach in told:
        say(breach)
    return BROKEN if told else 0
