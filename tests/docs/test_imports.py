"""README, docs, examples and sample extensions import only from facades, so that every other module can move."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, blocks
from tests.test_facades import FACADES

PUBLIC = {
    *FACADES,
    "teamwright.cluster",
    "teamwright.errors",
    "teamwright.experts",
    "teamwright.server",
    "teamwright.wings",
}
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


def test_a_program_that_users_read_imports_from_facades_alone() -> None:
    found = {place: inner_imports(text) for place, text in programs()}
    assert len(found) > 100
    assert {place: names for place, names in found.items() if names} == {}


def private_names(page: Path) -> set[str]:
    """Return the private modules of the package that a page names."""
    named = set(DOTTED.findall(page.read_text(encoding="utf-8")))
    return {one for one in named if (ROOT / "src" / one.replace(".", "/")).with_suffix(".py").exists()} - PUBLIC


def test_no_page_names_a_private_module() -> None:
    pages = [*PAGES, *(ROOT / "examples").rglob("*.yaml")]
    # Pages on decisions and on coverage are written for contributors.
    found = {
        page: private_names(page) for page in pages if "decisions" not in page.parts and page.name != "coverage.md"
    }
    assert len(found) > 50
    assert {page: names for page, names in found.items() if names} == {}


def test_an_inner_import_is_found() -> None:
    text = "import teamwright.values.names\nfrom teamwright.cli.main import main\nfrom teamwright.agents import Rule\n"
    assert inner_imports(text) == ["teamwright.values.names", "teamwright.cli.main"]
