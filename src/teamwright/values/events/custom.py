"""The open kind of fact, for third parties."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.models import JsonValue, Record


class Custom(Record, frozen=True):
    """A fact of a third party, with its own domain, name and data."""

    kind: ClassVar = "custom"
    domain: str
    name: str
    data: JsonValue = None
