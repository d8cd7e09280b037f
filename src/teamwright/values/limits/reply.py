"""How long a reply may take and how large a reply or a tool's result may be, and how a text is cut to that size."""

from __future__ import annotations

import math

from teamwright.errors import UsageError

REPLY_SECONDS = 600.0
"""Seconds that a model's whole reply may take where nothing else is set."""
IDLE_SECONDS = 60.0
"""Seconds of silence after which a stream that has begun counts as lost, where nothing else is set."""
MOST_REQUESTS = 50
"""Requests that one turn of a model may make before it counts as one without an answer."""
MAX_BYTES = 4_000_000
"""Bytes that one reply or tool result may have where nothing else is set."""
LEAST_MAX_BYTES, MOST_MAX_BYTES = 1_000, 1_000_000_000
_REPLY = "the reply of "


def check_max_bytes(name: str, max_bytes: int | None) -> int:
    """The size cap of an agent, or the usual one where it sets none."""
    if max_bytes is None:
        return MAX_BYTES
    if type(max_bytes) is not int or not LEAST_MAX_BYTES <= max_bytes <= MOST_MAX_BYTES:
        raise UsageError(
            f"The agent {name!r} can't have max_bytes={max_bytes!r}: give a whole number of bytes from"
            f" {LEAST_MAX_BYTES} to {MOST_MAX_BYTES}."
        )
    return max_bytes


def check_idle_timeout(name: str, idle_timeout: float | None) -> float:
    """The idle timeout of an agent, or the usual one where it sets none."""
    if idle_timeout is None:
        return IDLE_SECONDS
    if not (math.isfinite(idle_timeout) and idle_timeout > 0):
        raise UsageError(f"The agent {name!r} can't have idle_timeout={idle_timeout!r}: give seconds above zero.")
    return float(idle_timeout)


def text_size(text: str) -> int:
    """Bytes of a text in UTF-8; a lone surrogate counts as three."""
    return len(text.encode("utf-8", "surrogatepass"))


def fits(text: str, cap: int) -> bool:
    """Whether a text is within the cap; a short one is not encoded to find out."""
    size = len(text)
    return size * 4 <= cap or (size <= cap and text_size(text) <= cap)


def cut_text(text: str, cap: int) -> str:
    """The beginning of a text that fits the cap, without half a character at its end."""
    if fits(text, cap):
        return text
    return text[:cap].encode("utf-8", "surrogatepass")[:cap].decode("utf-8", "ignore")


def cut_warning(what: str, cap: int) -> str:
    """The warning that a text was cut."""
    return f"{what} was cut at {cap} bytes; raise  max_bytes  to get more of it"


def reply_cut_warning(name: str, cap: int) -> str:
    """The warning that the reply of a member was cut."""
    return cut_warning(f"{_REPLY}{name!r}", cap)


def tells_of_cut_reply(warning: str) -> bool:
    """Whether a warning of a member tells that its reply was cut, and not the result of one of its tools."""
    return warning.startswith(_REPLY) and "max_bytes" in warning
