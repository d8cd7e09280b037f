"""JSON for clients, with everything masked that looks like a secret, and what they send back of it.

A client was shown masked texts to edit, and must not save the masks. A text that is unchanged is restored by its place,
another one line by line. A mask that stands for no single secret is refused, because saving it would lose the secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from teamwright.errors import UsageError
from teamwright.values.text.secrets import HIDDEN, mask_value, secret_spans

M = TypeVar("M", bound=BaseModel)


def masked(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with secrets masked in its texts."""
    return cast("dict[str, JsonValue]", mask_value(value))


def masked_model(value: M) -> M:
    """Return a model with secrets masked in its texts."""
    return type(value).model_validate(masked(value.model_dump()))


def contains_mask(value: JsonValue) -> bool:
    """Whether any text of a value contains the mask of a secret."""
    match value:
        case str():
            return HIDDEN in value
        case list():
            return any(map(contains_mask, value))
        case dict():
            return any(HIDDEN in key or contains_mask(item) for key, item in value.items())
        case _:
            return False


def unmasked(sent: JsonValue, original: JsonValue, shown: JsonValue = None) -> JsonValue:
    """Return what a client sent, with the secrets of the original in place of their masks; raises `UsageError`.

    `shown` is what the client was shown, by default the masked original.
    """
    shown = mask_value(original) if shown is None else shown
    return _restored(sent, shown, original, _known_lines(original))


def _restored(sent: JsonValue, shown: JsonValue, original: JsonValue, lines: dict[str, set[str]]) -> JsonValue:
    if sent == shown:
        return original
    match sent:
        case str():
            return "\n".join(_line(one, lines) for one in sent.split("\n")) if HIDDEN in sent else sent
        case list():
            pairs = _items(shown, original)
            return [_restored(item, *_partner(item, index, pairs), lines) for index, item in enumerate(sent)]
        case dict():
            entries = _entries(shown, original)
            restored: dict[str, JsonValue] = {}
            for key, item in sent.items():
                name, seen, before = entries.get(key) or (_line(key, lines), None, None)
                restored[name] = _restored(item, seen, before, lines)
            return restored
        case _:
            return sent


def _items(shown: JsonValue, original: JsonValue) -> list[tuple[JsonValue, JsonValue]]:
    if not (isinstance(shown, list) and isinstance(original, list)):
        return []
    return list(zip(shown, original, strict=False))


def _partner(item: JsonValue, index: int, pairs: list[tuple[JsonValue, JsonValue]]) -> tuple[JsonValue, JsonValue]:
    """Return what was shown as this item, also at another place, or else what was shown at its place."""
    if index < len(pairs) and pairs[index][0] == item:
        return pairs[index]
    same = next((pair for pair in pairs if pair[0] == item), None)
    return same or (pairs[index] if index < len(pairs) else (None, None))


def _entries(shown: JsonValue, original: JsonValue) -> dict[str, tuple[str, JsonValue, JsonValue]]:
    """Return the entries of an object by the name that was shown: the original name, and both values."""
    if not (isinstance(shown, dict) and isinstance(original, dict)) or len(shown) != len(original):
        return {}  # two names have the same mask
    return {seen: (name, shown[seen], item) for seen, (name, item) in zip(shown, original.items(), strict=True)}


def _line(line: str, lines: dict[str, set[str]]) -> str:
    if HIDDEN not in line:
        return line
    found = lines.get(line, set())
    if len(found) != 1:
        raise UsageError(
            f"What was sent has {HIDDEN!r}, the mask of a secret: leave its line as it was shown, or write it anew."
        )
    return next(iter(found))


def _known_lines(original: JsonValue) -> dict[str, set[str]]:
    """Return the lines of all texts by their masked form; a secret may span lines, its mask does not."""
    found: dict[str, set[str]] = {}
    for text in _texts(original):
        seen = line = ""
        at = 0
        for start, end in (*secret_spans(text), (len(text), len(text))):
            *whole, rest = text[at:start].split("\n")
            for part in whole:
                found.setdefault(seen + part, set()).add(line + part)
                seen = line = ""
            secret, at = text[start:end], end
            seen, line = seen + rest + (HIDDEN if secret else ""), line + rest + secret
        found.setdefault(seen, set()).add(line)
    return found


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from _texts(item)
        case _:
            return
