"""Names: what agents, teams, steps, runs and strategies may be called."""

from __future__ import annotations

import re

from teamwright.errors import InvalidName

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FieldPath = tuple[str | int, ...]
"""The way to a place within a value: fields and indices."""


def check_name(what: str, name: str) -> str:
    """Return `name` when it is one, or raise with a suggestion."""
    if NAME.fullmatch(name):
        return name
    raise InvalidName(what, name, suggest_name(name))


def suggest_name(name: str) -> str:
    """The nearest valid name, for an error message."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return cleaned or "my-name"


SHORT_NAMES = {"lead": "lead_subagent", "star": "star_team", "mesh": "mesh_team"}
"""Topologies as people call them."""


def plain_strategy_name(name: str) -> str:
    """Strategy names are accepted with `-` or `_`, and those of topologies without what they end in."""
    plain = name.strip().replace("-", "_")
    return SHORT_NAMES.get(plain, plain)
