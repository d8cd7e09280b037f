"""The glossary defines each word once, in one line, and says what other systems call it."""

from __future__ import annotations

import re

from tests.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| **")
]
NEEDED = [
    "run", "ask", "effect", "key", "scope", "lane", "journal", "event", "fact", "fold", "replay", "resume", "fork",
    "supersede", "checkpoint", "driver", "fence", "strategy", "member", "helper", "turn", "envelope", "handoff",
    "reservation", "ledger", "degradation", "deadline", "pause", "approval", "intervention", "facade", "manifest",
    "plan", "step", "batch",
]  # fmt: skip


def words() -> list[str]:
    return [word for row in ROWS for word in re.findall(r"\*\*([^*]+)\*\*", row[0])]


def test_every_word_is_defined_once() -> None:
    assert len(words()) == len(set(words()))
    assert not set(NEEDED) - set(words())


def test_every_word_has_a_short_definition_and_its_word_elsewhere() -> None:
    assert not [row[0] for row in ROWS if len(row) != 3 or not all(row)]
    assert not [row[0] for row in ROWS if len(row[1]) > 200]
