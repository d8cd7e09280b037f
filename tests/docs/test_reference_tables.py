"""The reference of keys, commands and events is that of the code, and nothing is missing from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from teamwright.cli.main import commands
from teamwright.values.events.event import Fact
from tests.docs.test_complete import command_paths
from tools.house import own_keys
from tools.reference_tables import FOLDER, PAGES, key_tables, with_reference

pytestmark = [pytest.mark.cluster, pytest.mark.experts, pytest.mark.lab, pytest.mark.server]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.name)
def test_a_page_of_the_reference_is_as_the_code_makes_it(page: Path) -> None:
    assert with_reference(page) == page.read_text(encoding="utf-8"), "write it again with  make tables"


def test_every_key_of_a_manifest_is_in_the_reference() -> None:
    listed = set(re.findall(r"`([\w-]+)`", (FOLDER / "manifest.md").read_text(encoding="utf-8")))
    assert sorted(own_keys().keys() - listed) == []


def test_every_key_of_a_manifest_says_what_it_is_for() -> None:
    rows = [row for row in "\n".join(key_tables()).splitlines() if row.startswith("| `")]
    assert len(rows) > 150
    assert [row for row in rows if not row.removesuffix("|").rpartition(" | ")[2].strip()] == []


def test_every_command_and_every_event_is_in_the_reference() -> None:
    page = (FOLDER / "commands.md").read_text(encoding="utf-8").partition("## Every option")[2]
    paths = command_paths(commands(), "teamwright")
    assert [one for one in paths if not re.search(rf"^\*\*`{one}[ `]", page, re.MULTILINE)] == []
    events = (FOLDER / "events.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)`(?: ◦)? \| ([^|]*) \|", events, re.MULTILINE))
    assert {fact.kind for fact in get_args(Fact)} <= rows.keys()
    assert [kind for kind, about in rows.items() if not about.strip()] == []
