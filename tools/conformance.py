"""Runs the conformance suites that others wrote against our doors, and prints a table of each.

A suite is a module `tools/conformance_NAME.py` that `SUITES` names. It installs what it needs in an environment of its
own, runs it, and returns a row for each scenario. A failure is expected only with a reason, and a scenario that passes
though it is expected to fail fails the command too, so that no reason outlives its cause.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast, runtime_checkable

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing" / "conformance.md"
SUITES: tuple[str, ...] = ("mcp", "a2a", "agui", "phoenix", "responses", "acp", "bfcl", "dojo")
"""The suites, in the order of their sections on the page; `NAME` is the module `tools.conformance_NAME`."""
Outcome = Literal["passed", "failed", "skipped"]
DIFFERS = "is not what is measured; --write writes it"
NOT_HERE = 77
"""The exit code for a suite that can't be had here, as where a package can't be installed."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one scenario of a suite found; `part` is the table that it belongs to."""

    part: str
    scenario: str
    outcome: Outcome
    checks: str = ""
    """How many checks of it passed, as the suite counts them."""

    @property
    def name(self) -> str:
        """What the expected failures call it."""
        return f"{self.part}: {self.scenario}"


class Suite(Protocol):
    """A module `tools.conformance_NAME`."""

    EXPECTED: Mapping[str, str]
    """Why a scenario fails, or is skipped, by the name of its row."""

    def run(self, only: str) -> Iterable[Row]:
        """Run the scenarios whose name contains a text, and return a row for each; raises `Unavailable`."""
        ...


@runtime_checkable
class MeasuringSuite(Suite, Protocol):
    """A suite that always measures the same: its tables on the pages have to be what it measures."""

    OTHER_PAGE: Path
    """Where a summary is, besides its table."""

    def summary(self, rows: Sequence[Row]) -> str:
        """Return the summary of all rows, as Markdown."""
        ...


class Unavailable(Exception):
    """A suite can't be had here."""


def table(rows: Iterable[Row], expected: Mapping[str, str]) -> str:
    """Return the rows as Markdown, a table for each part."""
    lines: list[str] = []
    part = None
    for row in rows:
        if row.part != part:
            part = row.part
            lines += ["", f"{part}:", "", "| scenario | outcome | checks | why |", "|---|---|---|---|"]
        lines.append(f"| {row.scenario} | {row.outcome} | {row.checks} | {expected.get(row.name, '')} |")
    return "\n".join(lines).strip() + "\n"


def surprises(rows: Iterable[Row], expected: Mapping[str, str]) -> list[str]:
    """Return what differs from what is expected, a line for each."""
    found: list[str] = []
    for row in rows:
        if row.outcome == "passed" and row.name in expected:
            found.append(f"{row.name} passes; remove its reason from EXPECTED")
        elif row.outcome != "passed" and row.name not in expected:
            found.append(f"{row.name} {row.outcome}")
    return found


def write_section(page: str, name: str, text: str) -> str:
    """Return the page with the table of a suite in place of the one that it has."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"the page has no section between {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{text}{end}", page)


def run_suite(name: str, only: str, *, write: bool) -> list[str]:
    """Run a suite, print its table, and return what differs from what is expected."""
    suite = cast("Suite", importlib.import_module(f"tools.conformance_{name}"))
    rows = list(suite.run(only))
    text = table(rows, suite.EXPECTED)
    print(text, flush=True)
    found = surprises(rows, suite.EXPECTED)
    if only:
        return found
    sections = {PAGE: text}
    if isinstance(suite, MeasuringSuite):
        sections[suite.OTHER_PAGE] = suite.summary(rows)
        found += [] if write else [f"{page} {DIFFERS}" for page in outdated(name, sections)]
    if write:
        for page, section in sections.items():
            page.write_text(write_section(page.read_text(encoding="utf-8"), name, section), encoding="utf-8")
    return found


def outdated(name: str, sections: Mapping[Path, str]) -> list[Path]:
    """Return the pages whose section of a suite is another one."""
    pages = {page: page.read_text(encoding="utf-8") for page in sections}
    return [page for page, text in pages.items() if write_section(text, name, sections[page]) != text]


def main() -> int:
    """Run the suites that are named, by default all; returns 1 where one differs from what is expected."""
    parser = argparse.ArgumentParser(description="run conformance suites against our doors")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="by default all")
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains this")
    parser.add_argument("--write", action="store_true", help="write the tables to their pages")
    asked = parser.parse_args()
    wrong: list[str] = []
    absent: list[str] = []
    names = asked.suites or SUITES
    for name in names:
        try:
            wrong += run_suite(name, asked.only, write=asked.write)
        except Unavailable as error:
            print(f"{name}: {error}", file=sys.stderr)
            absent.append(name)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else NOT_HERE if asked.suites and absent else 0


if __name__ == "__main__":
    sys.exit(main())
