"""The check finds archaic words in prose, and lets their count only fall."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools import words


@pytest.mark.parametrize(
    "text",
    [
        "It is asked anew.",
        "The member is told so.",
        "Nobody knows.",
        "It was set down.",
        "Whoever asks first.",
        "B in its stead.",
    ],
)
def test_an_archaic_word_is_found(text: str, tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text(f"# Title\n\n{text}\n", encoding="utf-8")
    module.write_text(f'"""{text}"""\nx = 1  # {text}\n', encoding="utf-8")
    assert [line for line, _ in words.findings(page)] == [3]
    assert [line for line, _ in words.findings(module)] == [1, 2]


def test_code_and_ordinary_words_are_not_counted(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("Amended.\n\n```text\nasked anew\n```\n", encoding="utf-8")
    module.write_text('nobody = "asked anew"\n', encoding="utf-8")
    assert words.findings(page) == words.findings(module) == []


def test_a_word_that_goes_over_the_end_of_a_line_in_a_docstring_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""It was set\n    down."""\n', encoding="utf-8")
    assert len(words.findings(module)) == 1


def test_a_count_that_rises_is_a_problem_and_one_that_falls_lowers_the_table() -> None:
    limits = {"docs": 3, "src/teamwright/cli": 2, "src/teamwright/lab": 1}
    found = Counter({"docs": 4, "src/teamwright/cli": 1, "src/teamwright/new": 1})
    assert [line.partition(":")[0] for line in words.problems(found, limits)] == ["docs", "src/teamwright/new"]
    assert words.lowered(found, limits) == {"docs": 3, "src/teamwright/cli": 1}


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = tmp_path / "words.toml"
    words.write({"docs": 3}, table)
    assert words.allowed(table) == {"docs": 3}
