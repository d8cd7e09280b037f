"""Counts archaic words in docstrings, comments and docs. Allowed counts, in `tools/words.toml`, may only fall.

`make check` runs it. After prose was rewritten, `python tools/words.py --lower` writes the lower counts down.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "words.toml"
WORDS = {
    r"set down": "pause, stop or record",
    r"taken up": "resumed or acquired",
    r"anew": "again",
    r"whoever": "name the subject",
    r"(?:some|any|every|no)body": "name the subject",
    r"came to|come to": "name the event",
    r"(?:is|are|was|were|be|been|being) told": "receives or sees",
    r"made up of|made out of": "consists of",
    r"nought": "zero",
    r"weighty": "important",
    r"mends?|mended": "fix",
    r"aught|hereby|there(?:of|by)|where(?:in|by)": "name the thing",
    r"in (?:its|his|her|their) stead": "instead, or replaces",
    r"lies? behind|(?:comes?|came) of it|of late|in no time|stands? still": "say what happens",
}
"""Words of no trade, as regular expressions, with what to write in their place."""
PATTERN = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
IN_LOWER_CASE = re.compile(PATTERN.pattern)
"""The same words, found three times as fast in a text of lower case."""
FOLDERS = ("src", "tests", "bench", "tools", "examples")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and comments if one has an archaic word, of a Python file, with their lines."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(content))):
                yield node.lineno, content
            case _:
                continue
    if not any(PATTERN.search(" ".join(line.partition("#")[2].split())) for line in text.splitlines() if "#" in line):
        return  # no comment has such a word, and finding comments takes longer than all the rest
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def page_prose(text: str) -> Iterator[tuple[int, str]]:
    """A page without its fenced blocks, line by line."""
    plain = FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), text)
    yield from enumerate(plain.splitlines(), 1)


def findings(path: Path) -> list[tuple[int, str]]:
    """The archaic words of a file, with their lines."""
    text = path.read_text(encoding="utf-8")
    if IN_LOWER_CASE.search(" ".join(text.lower().split())) is None:
        return []  # parsing takes ten times as long
    prose = python_prose(text) if path.suffix == ".py" else page_prose(text)
    return [(line, found.group()) for line, content in prose for found in PATTERN.finditer(" ".join(content.split()))]


def folder_of(path: Path, root: Path = ROOT) -> str:
    """The row of the table that a file counts for: a package, a folder of docs, or the file itself."""
    parts = path.relative_to(root).parts
    if parts[0] == "src":
        return "/".join(parts[:3]) if len(parts) > 3 else "src/teamwright"
    return "/".join(parts[:-1]) or parts[0]


def files(root: Path = ROOT) -> list[Path]:
    """Everything that is checked."""
    pages = [root / "README.md", root / "AGENTS.md", *sorted((root / "docs").rglob("*.md"))]
    return [*pages, *(path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py")))]


def counts(root: Path = ROOT) -> Counter[str]:
    """How many archaic words each folder has."""
    found: Counter[str] = Counter()
    for path in files(root):
        found[folder_of(path, root)] += len(findings(path))
    return found


def allowed(table: Path = TABLE) -> dict[str, int]:
    """The counts that each folder may have; a folder that is not listed may have none."""
    return tomllib.loads(table.read_text(encoding="utf-8"))["allowed"]


def problems(found: Counter[str], limits: dict[str, int]) -> list[str]:
    """One line for each folder with more archaic words than it may have."""
    return [
        f"{folder}: {count} archaic words, at most {limits.get(folder, 0)}; see  python tools/words.py {folder}"
        for folder, count in sorted(found.items())
        if count > limits.get(folder, 0)
    ]


def lowered(found: Counter[str], limits: dict[str, int]) -> dict[str, int]:
    """The table with every count that has fallen; counts that have risen stay."""
    lower = {folder: min(limit, found[folder]) for folder, limit in limits.items()}
    return {folder: limit for folder, limit in sorted(lower.items()) if limit}


def write(limits: dict[str, int], table: Path = TABLE) -> None:
    """Write the table of allowed counts."""
    head = "# Archaic words that each folder may still have (tools/words.py). Counts only fall:\n"
    rows = "".join(f'"{folder}" = {limit}\n' for folder, limit in limits.items())
    table.write_text(f"{head}# lower them with  python tools/words.py --lower\n[allowed]\n{rows}", encoding="utf-8")


def show(folder: str) -> None:
    """Print every archaic word of a folder with its place."""
    for path in files():
        if folder_of(path) == folder:
            for line, word in sorted(findings(path)):
                print(f"{path.relative_to(ROOT)}:{line}: {word}")


def main(arguments: list[str]) -> int:
    """Check the counts, list the words of folders, or lower the table."""
    if arguments and arguments != ["--lower"]:
        for folder in arguments:
            show(folder.rstrip("/"))
        return 0
    found, limits = counts(), allowed()
    lower = lowered(found, limits)
    if arguments:
        write(lower)
    elif lower != limits:
        print("fewer archaic words than allowed: lower the table with  python tools/words.py --lower")
    lines = problems(found, limits)
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
