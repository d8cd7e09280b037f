"""Which texts of a declaration are secrets: one rule by their names, for what is recorded, shown and made again."""

from __future__ import annotations

import re

HIDDEN = "[redacted]"
"""What stands in a record in place of a secret."""

HEADERS = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "api_key", "apikey"))
"""Keys of mappings whose text is a secret, whatever it looks like."""
NOTIFY = frozenset(("webhook", "secret"))
"""Fields of `notify` that are secrets; a run whose record hides them can still go on."""
OTHERS = frozenset(("headers", "env"))
"""Mappings whose names others choose."""
SECRET_NAME = re.compile(
    r"authorization|cookie|passw(?:or)?d|secret|credential|token(?!s|iz)|api[-_]?key|(?:access|private)[-_]?key$",
    re.IGNORECASE,
)
REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A name that a manifest reads from the environment, or the two signs that stand for its beginning."""


def is_secret(parent: str, name: str) -> bool:
    """Whether the text under a name is a secret, by that name and the one above it."""
    return (
        name.lower() in HEADERS
        or (parent in OTHERS and SECRET_NAME.search(name) is not None)
        or (name in NOTIFY and parent == "notify")
    )


def is_written_out(text: str) -> bool:
    """Whether a secret stands there itself, and not the name of one in the environment."""
    return bool(text.strip()) and not any(found[1] for found in REFERENCE.finditer(text))
