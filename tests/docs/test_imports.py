"""README, docs, examples and sample extensions import only from facades, so that every other module can move."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks
from tests.test_facades import FACADES

PUBLIC = {*FACADES, "teamwright.cluster", "teamwright.errors", "teamwright.experts", "teamwright.server"}
DOTTED = re.compile(r"\bteamwright(?:\.[a-z_]+)+\b")


def programs() -> Iterator[tuple[str, str]]:
    """Yield every Python program that users read, and every sample extension: its place and its text."""
    for page in PAGES:
        for block in blocks(page):
            if block.language in {"python", "py"}:
                yield block.name, block.text
    for file in sorted([*(ROOT / "examples").rglob("*.py"), *(ROOT / "tests/extending").rglob("*.py")]):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def inner_imports(text: str) -> list[str]:
    """Return the private modules of the package that a program imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str(module)):
                found += [module]
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case _:
                continue
    return [one for one in found if one.partition(".")[0] == "teamwright" and one not in PUBLIC]


@pytest.mark.parametrize(("place", "text"), [pytest.param(*one, id=one[0]) for one in programs()])
def test_a_program_that_users_read_imports_from_facades_alone(place: str, text: str) -> None:
    assert inner_imports(text) == [], place


EVERY = [*PAGES, *sorted((ROOT / "examples").rglob("*.yaml"))]


@pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_private_module(page: Path) -> None:
    if "decisions" in page.parts or page.name == "coverage.md":  # written for contributors
        return
    named = set(DOTTED.findall(page.read_text(encoding="utf-8")))
    assert {one for one in named if (ROOT / "src" / one.replace(".", "/")).with_suffix(".py").exists()} <= PUBLIC


def test_an_inner_import_is_found() -> None:
    text = "import teamwright.values.names\nfrom teamwright.cli.main import main\nfrom teamwright.agents import Rule\n"
    assert inner_imports(text) == ["teamwright.values.names", "teamwright.cli.main"]
