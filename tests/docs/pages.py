"""The pages of the documentation, split into blocks that can be run.

A comment directly above a fence sets how its block is handled:

    <!-- file: team.yaml -->     written to the page's folder, not run
    <!-- skip: why -->           not run: it needs something that a test does not have
    <!-- shell -->               run in a shell, for commands that are killed or use pipes
    <!-- side: crewai -->        the program of another framework, or ours beside it; `test_migration` runs both
    <!-- environment -->         `export` and `unset`, for the rest of the page; Postgres is that of the tests
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>file|skip|shell|side|environment)(?:: (?P<about>[^\n]*?))? -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `shown` is the text block directly after a Python block: its expected output."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    about: str = ""
    shown: str | None = None

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """One line after a `$`, and its expected output."""

    line: str
    shown: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    for index, fence in enumerate(found):
        follower = found[index + 1] if index + 1 < len(found) else None
        shown = None
        if follower and follower["language"] == "text" and not text[fence.end() : follower.start()].strip():
            shown = follower["text"]
        line = text.count("\n", 0, fence.start("language")) + 1
        mark, about = fence["mark"] or "", fence["about"] or ""
        yield Block(page, line, fence["language"], fence["text"], mark, about, shown)


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block; a line that ends in a backslash continues on the next."""
    found: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).lstrip("> ")
            found.append(Command(command, ""))
        elif found:
            found[-1] = Command(found[-1].line, found[-1].shown + line + "\n")
        else:
            raise ValueError(f"{block.name}: a console block begins with a command, after '$ '")
    return found
