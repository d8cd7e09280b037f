"""The first screen of a page says what it is for in a few words and shows an example; scripts are folded away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tools.house import user_pages

LINES, WORDS = 32, 140
LISTS = ("README.md", "glossary.md")
"""Pages that are lists, and need no example."""
FOLDED = re.compile(r"<details>\n.*?</details>\n", re.DOTALL)
PAGES = [page for page in sorted(user_pages()) if page.name not in LISTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_first_screen_has_an_example_after_a_few_words(page: Path) -> None:
    screen = FOLDED.sub("", page.read_text(encoding="utf-8")).splitlines()[:LINES]
    example = next((number for number, line in enumerate(screen) if line.startswith(("```", "!["))), None)
    assert example is not None, f"no example in the first {LINES} lines"
    words = [word for line in screen[:example] if not line.startswith("|") for word in line.split()]
    assert 10 <= len(words) <= WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_are_folded_away_where_they_are_not_the_subject(page: Path) -> None:
    if page.name == "testing.md":
        return
    folded = "".join(FOLDED.findall(page.read_text(encoding="utf-8")))
    scripts = [block for block in blocks(page) if block.mark == "file" and block.text.startswith(("rules:", "strict:"))]
    assert [block.name for block in scripts if block.text not in folded] == []
