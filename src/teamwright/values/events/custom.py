"""The one open kind of fact."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.models import JsonValue, Record


class Custom(Record, frozen=True):
    """The one open kind, for third parties."""

    kind: ClassVar = "custom"
    domain: str
    name: str
    data: JsonValue = None
