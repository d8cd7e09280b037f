"""Keys: the paths of the places of a run, such as `team/step-1#2/call-1`. The run itself has the empty key.

A key is a plain `str`, and these functions are the one way to take it apart. A subclass of `str` would read better, but
it doubles the time of a dictionary lookup and triples the time to build a key, and a replay does little else.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from urllib.parse import quote

SEPARATOR = "/"
PLAIN_PLACE = re.compile(r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*")
"""A place of which nothing has to be escaped."""
REQUEST, TOOL_CALL, REPEAT = "request-", "tool-", "again-"
"""What the places of a turn begin with: a model request, a tool call, and a call that is repeated with an answer."""
_ATTEMPT = re.compile(r"#\d+")


def escape_place(place: str) -> str:
    """Percent-escape each segment of a place for use in a key, so that `#` only marks attempts."""
    # Most places are such as `step-12`, which a regular expression takes ten times as long to see.
    if (place.isascii() and place.replace("-", "_").isidentifier()) or PLAIN_PLACE.fullmatch(place):
        return place
    return SEPARATOR.join(quote(segment, safe="", errors="surrogatepass") or "%" for segment in place.split(SEPARATOR))


def join_key(scope: str, place: str) -> str:
    """Return the key of an escaped place within a scope."""
    return f"{scope}{SEPARATOR}{place}" if scope and place else scope or place


def key_segments(key: str) -> list[str]:
    """Split a key into its segments, the outermost first."""
    return key.split(SEPARATOR)


def key_depth(key: str) -> int:
    """Count the separators of a key; a team at the top has none."""
    return key.count(SEPARATOR)


def root_key(key: str) -> str:
    """Return the outermost segment of a key."""
    return key.partition(SEPARATOR)[0]


def key_below_root(key: str) -> str:
    """Return a key without its outermost segment."""
    return key.partition(SEPARATOR)[2]


def relative_key(key: str, scope: str) -> str:
    """Return a key as seen from a scope; a key outside the scope stays as it is."""
    return key.removeprefix(scope + SEPARATOR) if scope else key


def parent_key(key: str) -> str:
    """Return the key of the place around a place; around the outermost place is the run."""
    return key.rpartition(SEPARATOR)[0]


def parent_keys(key: str) -> Iterator[str]:
    """Yield the keys of all places around a place, from the nearest one to the run."""
    while key:
        key = key.rpartition(SEPARATOR)[0]
        yield key


def key_and_parents(key: str) -> Iterator[str]:
    """Yield a key, then the keys of all places around it, from the nearest one to the run."""
    yield key
    while key:
        key = key.rpartition(SEPARATOR)[0]
        yield key


def nearest_key(key: str, known: Container[str]) -> str:
    """Return the innermost of a key and its parents that is known, or the run's key."""
    while key and key not in known:
        key = key.rpartition(SEPARATOR)[0]
    return key


def is_inside(key: str, scope: str) -> bool:
    """Return whether a key is that of a place inside a scope, and not the scope's own; all keys are inside the run."""
    return not scope or key.startswith(scope + SEPARATOR)


def in_scope(key: str, scope: str) -> bool:
    """Return whether a key is the scope's own or that of a place inside it."""
    return key == scope or not scope or key.startswith(scope + SEPARATOR)


def with_attempt(key: str, attempt: int) -> str:
    """Mark a key as that of a further attempt: the first has no mark, the second is `#2`."""
    return key if attempt == 1 else f"{key}#{attempt}"


def split_attempt(key: str) -> tuple[str, int]:
    """Return the key of the first attempt at a place, and which attempt this key is; the inverse of `with_attempt`."""
    first, mark, number = key.rpartition("#")
    return (first, int(number)) if mark and SEPARATOR not in number else (key, 1)


def next_attempt(key: str) -> str:
    """Return the key of the attempt after this one."""
    first, attempt = split_attempt(key)
    return with_attempt(first, attempt + 1)


def without_attempts(key: str) -> str:
    """Remove the marks of further attempts from every segment of a key."""
    return _ATTEMPT.sub("", key)


def request_place(number: int) -> str:
    """Return the place of a turn's model request."""
    return f"{REQUEST}{number}"


def is_request(place: str) -> bool:
    """Return whether a place is that of a model request."""
    return place.startswith(REQUEST)


def tool_place(call_id: str) -> str:
    """Return the place of a turn's tool call."""
    return f"{TOOL_CALL}{call_id}"


def is_tool_call(place: str) -> bool:
    """Return whether a place is that of a tool call."""
    return place.startswith(TOOL_CALL)


def repeat_key(call: str, number: int) -> str:
    """Return the key of a call that is made again once a person has answered its question."""
    return join_key(call, f"{REPEAT}{number}")


def is_call(key: str, call: str) -> bool:
    """Return whether a key is that of a call or of one of its repeats."""
    return key == call or key.startswith(join_key(call, REPEAT))
