"""Takes secrets out of everything before it is recorded, shown or handed on, and mends what no journal can hold."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable

from pydantic import JsonValue

from teamwright.values.secrets import HEADERS, HIDDEN, is_secret, is_written_out

SHAPES = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAIza[0-9A-Za-z_-]{30,}|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,}"
    r"|(?<=[Aa]uthorization: )(?:Basic|Bearer|Token|ApiKey) [^\s\"',]{4,}|(?<=[Aa][Pp][Ii]-[Kk]ey: )[^\s\"',]{4,}"
)
SECRET_NAMES = re.compile(r"(?:(?:API|ACCESS|SECRET|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$")
SHORTEST = 6
UNFINISHED = re.compile(r"(?:authorization:[ ]*)?(?:(?:bearer|basic|token|apikey|api-key:)[ ]*)?[!-~]*$", re.IGNORECASE)
"""A last word that may go on, with the words before it that tell a secret. Secrets are plain ASCII, so other scripts,
of which many have no spaces, are shown as they come."""
LONGEST_WORD = 400
"""Characters after which a word is shown although it may go on."""


class Redactor:
    """Knows the secret values of one run, and the shapes that keys and tokens usually have."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {value for value in (*secrets, *environment_secrets()) if len(value) >= SHORTEST}
        longest_first = sorted(known, key=len, reverse=True)
        self._values = longest_first
        self._known = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        """The text without secrets."""
        if not text.isascii():
            text = whole_characters(text)
        for value in self._values:
            if value in text:  # which is far quicker than the pattern, and mostly false
                text = self._known.sub(HIDDEN, text)
                break
        return SHAPES.sub(HIDDEN, text) if _may_hold_a_key(text) else text

    def value(self, value: JsonValue, clean: Container[str] = ()) -> JsonValue:
        """The value without secrets in any of its strings, but for those that are known to be clean."""
        match value:
            case str():
                return value if value in clean else self.text(value)
            case list() | tuple() | set() | frozenset():  # pyright: ignore[reportUnnecessaryComparison] - lists when read
                return [self.value(item, clean) for item in value]
            case dict():
                return {
                    self.text(key): HIDDEN
                    if isinstance(item, str) and key.lower() in HEADERS
                    else self.value(item, clean)
                    for key, item in value.items()
                }
            case _:
                return value


class Pieces:
    """A text that comes in pieces, shown word by word: half of a secret is no secret that anybody could recognise."""

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._held = redactor, ""

    def take(self, piece: str) -> tuple[str, int]:
        """What can be shown now, without secrets, and how long that was; the word that may go on is held back."""
        text = self._held + piece
        found = UNFINISHED.search(text)
        whole = len(text) if found is None or len(text) - found.start() > LONGEST_WORD else found.start()
        self._held = text[whole:]
        return self._redactor.text(text[:whole]), whole

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return self._redactor.text(held)


def without_keys(declared: JsonValue, parent: str = "") -> JsonValue:
    """A declaration without secrets that are written in it; names that are read from the environment stay."""
    match declared:
        case list():
            return [without_keys(item) for item in declared]
        case dict():
            return {
                name: (HIDDEN if is_secret(parent, name) and is_written_out(item) else item)
                if isinstance(item, str)
                else (item and without_keys(item, name))
                for name, item in declared.items()
            }
        case _:
            return declared


def whole_characters(text: str) -> str:
    """The text as UTF-8 can carry it: half of a surrogate pair, which some programs let through, is replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _may_hold_a_key(text: str) -> bool:
    """Whether the text has what every shape contains: a single sign is looked for first, since that is far quicker."""
    return (
        ("-" in text and ("k-" in text or "xox" in text or "ey: " in text))
        or ("_" in text and any(sign in text for sign in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")))
        or ("A" in text and ("AKIA" in text or "AIza" in text))
        or (":" in text and "uthorization: " in text)
        or "earer " in text
    )


def environment_secrets() -> list[str]:
    """Values of environment variables that are secrets by their name."""
    return [value for name, value in os.environ.items() if SECRET_NAMES.search(name.upper())]
