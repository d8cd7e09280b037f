"""Every test that docs/contributing/coverage.md names exists, and every requirement and law is listed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

COVERAGE = (ROOT / "docs" / "contributing" / "coverage.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", COVERAGE)
DEFINED = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)
COUNTS = {"R": 13, "P": 13, "M": 11, "S": 9, "D": 9}
REQUIRED = [f"{letter}-{number:02}" for letter, count in COUNTS.items() for number in range(1, count + 1)]


@cache
def names_of(file: Path) -> set[str]:
    """Return the names of all functions in a file, including methods."""
    return set(DEFINED.findall(file.read_text(encoding="utf-8")))


def test_every_named_test_exists() -> None:
    missing = [
        f"{file}::{name}" for file, name in NAMED if not (ROOT / file).is_file() or name not in names_of(ROOT / file)
    ]
    assert not missing, "docs/contributing/coverage.md names tests that are not there:\n" + "\n".join(missing)


def test_every_line_names_a_test() -> None:
    tables = re.findall(r"^\|[^\n]*\|\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", COVERAGE, flags=re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) >= len(REQUIRED) + 10
    assert not [row for row in rows if "::test_" not in row]


def test_every_requirement_and_every_law_is_there() -> None:
    first = {line.split("|")[1].strip() for line in COVERAGE.splitlines() if line.startswith("| ")}
    assert not {*REQUIRED, *map(str, range(1, 11))} - first
