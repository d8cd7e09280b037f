"""The JSON Schema of page events, generated from their values."""

from __future__ import annotations

from typing import cast

import msgspec

from teamwright.server.page.page_events import PAGE_VERSION, PageDelta, PageEvent
from teamwright.values.models import JsonValue

TITLE = "Page events of a Teamwright run"


def page_schema() -> dict[str, JsonValue]:
    """Return the schema of one item of a run's feed: a page event or a delta. All fields are always present."""
    made = cast("dict[str, JsonValue]", msgspec.json.schema(PageEvent | PageDelta))
    kinds = cast("dict[str, JsonValue]", made.pop("$defs"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "version": PAGE_VERSION,
        **made,
        "$defs": {name: _complete(cast("dict[str, JsonValue]", one)) for name, one in sorted(kinds.items())},
    }


def _complete(kind: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Require all fields, which have no defaults for a reader, and allow those of newer versions."""
    fields = cast("dict[str, dict[str, JsonValue]]", kind["properties"])
    plain: dict[str, JsonValue] = {
        name: {key: value for key, value in one.items() if key != "default"} for name, one in fields.items()
    }
    text = " ".join(str(kind.get("description", "")).split())
    return {**kind, "description": text, "properties": plain, "required": list(plain), "additionalProperties": True}
