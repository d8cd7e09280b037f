"""Splits the docstring of a tool into its description and the descriptions of its parameters.

Reads the styles of Google, NumPy and Sphinx. A docstring without a parameter section is returned unchanged: it is part
of prompts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

GOOGLE_HEADER = re.compile(r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*")
GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<names>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
NUMPY_HEADER = re.compile(r"(?:Other )?Parameters\s*")
NUMPY_RULE = re.compile(r"-{3,}\s*")
NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
SPHINX_ENTRY = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(?P<names>\w+)\s*:\s*(?P<text>.*)"
)
SPHINX_TYPE = re.compile(r":type\s+\w+\s*:.*")


@dataclass(slots=True)
class Docstring:
    """The description of a function without its parameter sections, and the description of each parameter."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def parse_docstring(text: str, parameters: Collection[str]) -> Docstring:
    """Parse the cleaned docstring of a function that has these parameters.

    A section that describes none of them is no parameter section and stays in the description.
    """
    lines, kept, found = text.splitlines(), list[str](), dict[str, str]()
    position = 0
    while position < len(lines):
        end, described = _section(lines, position)
        if described.keys().isdisjoint(parameters):
            kept.append(lines[position])
            position += 1
            continue
        found.update(described)
        position = end
    if not found:
        return Docstring(text)
    return Docstring(
        "\n".join(_without_double_gaps(kept)).strip(), {name: found[name] for name in parameters if name in found}
    )


def _section(lines: list[str], start: int) -> tuple[int, dict[str, str]]:
    """Return the end of the parameter section or field that starts here, and what it describes."""
    line = lines[start]
    following = lines[start + 1] if start + 1 < len(lines) else ""
    if GOOGLE_HEADER.fullmatch(line):
        end = _indented_until(lines, start + 1)
        return end, _google_entries(lines[start + 1 : end])
    if NUMPY_HEADER.fullmatch(line) and NUMPY_RULE.fullmatch(following):
        end = _numpy_until(lines, start + 2)
        return end, _numpy_entries(lines[start + 2 : end])
    if entry := SPHINX_ENTRY.fullmatch(line):
        end = _indented_until(lines, start + 1)
        described = {entry["names"]: _joined([entry["text"], *lines[start + 1 : end]])}
        if end < len(lines) and SPHINX_TYPE.fullmatch(lines[end]):
            end += 1
        return end, described
    return start + 1, {}


def _indented_until(lines: list[str], start: int) -> int:
    """Return where the indented lines end; blank lines after them do not belong to them."""
    end = start
    for number in range(start, len(lines)):
        if lines[number][:1].strip():
            break
        if lines[number].strip():
            end = number + 1
    return end


def _numpy_until(lines: list[str], start: int) -> int:
    """Return where the next section of a NumPy docstring starts."""
    for number in range(start, len(lines) - 1):
        if NUMPY_RULE.fullmatch(lines[number + 1]) and lines[number].strip():
            return number
    return len(lines)


def _google_entries(lines: list[str]) -> dict[str, str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return dict(_entries([line[depth:] for line in lines], GOOGLE_ENTRY))


def _numpy_entries(lines: list[str]) -> dict[str, str]:
    return dict(_entries(lines, NUMPY_ENTRY))


def _entries(lines: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of entries: each begins without an indent, and its indented lines belong to it."""
    position = 0
    while position < len(lines):
        entry = pattern.fullmatch(lines[position].rstrip())
        end = _indented_until(lines, position + 1)
        if entry is not None and lines[position][:1].strip():
            first = entry.groupdict().get("text") or ""
            text = _joined([first, *lines[position + 1 : end]])
            for name in entry["names"].split(","):
                yield name.strip().lstrip("*"), text
        position = end


def _joined(lines: list[str]) -> str:
    return " ".join(stripped for line in lines if (stripped := line.strip()))


def _without_double_gaps(lines: list[str]) -> Iterator[str]:
    """Yield the lines with at most one blank line in a row, where a section was taken out."""
    before = ""
    for line in lines:
        if line.strip() or before.strip():
            yield line
        before = line
