"""The form of names: of references to variables, `${NAME}`, and of addresses of servers and webhooks, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from teamwright.errors import InvalidName, UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LONGEST_TOOL_NAME = 64
"""The longest name of a tool that all providers take."""
REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable in a manifest, or its escape."""
_NO_TEXT = frozenset({bool, int, float, type(None)})
FieldPath = tuple[str | int, ...]
"""The path to a place within a value: fields and indices."""


def check_name(what: str, name: str) -> str:
    """Return `name` if it is valid; raise `InvalidName` with a suggestion otherwise."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without a type checker
        raise UsageError(f"The name of the {what} must be a text, and is {name!r}.")
    if NAME.fullmatch(name):
        return name
    raise InvalidName(what, name, suggest_name(name))


def check_run_id(run_id: str) -> str:
    """Return the id of a run; raise `UsageError` if it is no text, as where a result is passed instead."""
    if not isinstance(run_id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without a type checker
        kind = type(run_id).__name__
        raise UsageError(f"A run is given by its id, a text, not by a value of type {kind!r}; pass its run_id.")
    return run_id


def suggest_name(name: str) -> str:
    """Return a similar valid name, for an error message."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return cleaned or "my-name"


SHORT_NAMES = {"lead": "lead_subagent", "star": "star_team", "mesh": "mesh_team"}
"""Short names of topologies."""


def plain_strategy_name(name: str) -> str:
    """Normalise the name of a strategy: `-` becomes `_`, and short names of topologies are expanded.

    The import path of a class, `module:Class`, stays as it is.
    """
    if ":" in name:
        return name.strip()
    plain = name.strip().replace("-", "_")
    return SHORT_NAMES.get(plain, plain)


def as_tool_name(name: str) -> str:
    """Return the name of an agent as one that every provider takes for a tool."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_TOOL_NAME]


def transfer_tool_name(member: str) -> str:
    """Return the name of the tool that hands the turn to this member."""
    return as_tool_name(f"transfer_to_{member}")


WEB_ADDRESS = re.compile(r"https?://\S+")


def is_web_address(text: str) -> bool:
    """Whether a text is an http address; one with a reference to a variable can't be checked and passes."""
    if "${" in text:
        return True
    if WEB_ADDRESS.fullmatch(text) is None or not text.isprintable():
        return False
    try:
        address = urlsplit(text)
        return bool(address.hostname) and address.port != 0
    except ValueError:  # of a bracket that is not closed, or of an invalid port
        return False


def may_refer(declared: JsonValue) -> bool:
    """Whether a part of a declaration may contain a reference; most of a long list are names or numbers."""
    return "${" in declared if isinstance(declared, str) else type(declared) not in _NO_TEXT


def escape_references(declared: JsonValue) -> JsonValue:
    """Escape what a reader of a declaration would take for a reference or an escape, so that it reads the same text."""
    match declared:
        case str():
            return REFERENCE.sub(r"$\g<0>", declared) if "${" in declared else declared
        case list():
            return [escape_references(item) if may_refer(item) else item for item in declared]
        case dict():
            return {name: item and escape_references(item) for name, item in declared.items()}
        case _:
            return declared


def variables_of(text: str) -> list[str]:
    """Return the names of the variables that a text refers to, each once."""
    return list(dict.fromkeys(found[1] for found in REFERENCE.finditer(text) if found[1])) if "${" in text else []


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with the values of its variables; a variable that is not set is empty."""
    return REFERENCE.sub(lambda found: environment.get(found[1], "") if found[1] else "${", text)
