"""The tables on the page about expert teams are those of the code."""

from __future__ import annotations

import pytest

from tools.plan_tables import PAGE, presets, tables, with_tables

pytestmark = pytest.mark.experts


def test_the_page_has_the_tables_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "write them again with  make tables"


def test_every_preset_is_in_the_table_and_every_setting_has_words() -> None:
    made = tables()
    head = made["presets"].splitlines()[0]
    assert all(f"`{name}`" in head for name in presets())
    assert "| None |" not in "".join(made.values())
