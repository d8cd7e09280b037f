"""A new kind of fact or a new field raises the version of the schema, so that older programs say that a row is
newer than they are, and damage is never taken for something new.  # D-08

`python -m tests.values.test_event_schema` writes the present fields down. Do so once per release, with a new version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast, get_args

from teamwright.values.events.event import SCHEMA_VERSION, Fact

FILE = Path(__file__).parent / "event_schema.json"


def present() -> dict[str, list[str]]:
    kinds = cast("tuple[type[Fact], ...]", get_args(Fact))
    return {one.kind: sorted(one.__struct_fields__) for one in sorted(kinds, key=lambda one: one.kind)}


def test_what_is_added_to_events_raises_the_version_of_the_schema() -> None:  # D-08
    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written["version"] <= SCHEMA_VERSION
    if written["version"] == SCHEMA_VERSION:
        assert present() == written["kinds"], "raise SCHEMA_VERSION, or write the fields of an unreleased version anew"


def test_kinds_and_fields_of_recorded_events_never_go_away() -> None:  # D-08
    written: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))["kinds"]
    now = present()
    assert {kind: set(fields) - set(now.get(kind, ())) for kind, fields in written.items()} == {
        kind: set[str]() for kind in written
    }


if __name__ == "__main__":
    text = json.dumps({"version": SCHEMA_VERSION, "kinds": present()}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")
