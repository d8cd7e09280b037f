"""References to environment variables in a manifest: `${NAME}`, and `$${`, which means `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue


REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable in a manifest, or its escape."""
_NO_TEXT = frozenset({bool, int, float, type(None)})


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
