"""JSON for clients, with everything masked that looks like a secret."""

from __future__ import annotations

from typing import cast

from pydantic import JsonValue

from teamwright.values.secrets.patterns import mask_value


def masked(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with secrets masked in its texts."""
    return cast("dict[str, JsonValue]", mask_value(value))
