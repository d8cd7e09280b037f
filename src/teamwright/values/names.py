"""Names and keys: what agents, teams, steps and runs may be called, and how a place in a run is spelt."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from teamwright.errors import InvalidName

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SEPARATOR = "/"
PLAIN_PLACE = re.compile(r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*")
"""A place of which nothing has to be escaped."""


def check_name(what: str, name: str) -> str:
    """Return `name` when it is one, or raise with a suggestion."""
    if NAME.fullmatch(name):
        return name
    raise InvalidName(what, name, suggest_name(name))


def suggest_name(name: str) -> str:
    """The nearest valid name, for an error message."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return cleaned or "my-name"


@lru_cache(maxsize=1024)  # most places of a run are the same few words
def escape_place(place: str) -> str:
    """A place as it stands in a key: each of its segments percent-escaped."""
    if PLAIN_PLACE.fullmatch(place):
        return place
    return SEPARATOR.join(quote(segment, safe="", errors="surrogatepass") or "%" for segment in place.split(SEPARATOR))


def join_key(scope: str, place: str) -> str:
    """The key of an escaped place within a scope."""
    return f"{scope}{SEPARATOR}{place}" if scope and place else scope or place


def with_attempt(key: str, attempt: int) -> str:
    """The key of a further attempt: the first has no mark, the second is `#2`."""
    return key if attempt == 1 else f"{key}#{attempt}"


def next_attempt(key: str) -> str:
    """The key of the attempt after this one."""
    before, mark, number = key.rpartition("#")
    return with_attempt(before, int(number) + 1) if mark and SEPARATOR not in number else with_attempt(key, 2)


SHORT_NAMES = {"lead": "lead_subagent", "star": "star_team", "mesh": "mesh_team"}
"""Topologies as people call them."""


def plain_strategy_name(name: str) -> str:
    """Strategy names are accepted with `-` or `_`, and those of topologies without what they end in."""
    plain = name.strip().replace("-", "_")
    return SHORT_NAMES.get(plain, plain)
