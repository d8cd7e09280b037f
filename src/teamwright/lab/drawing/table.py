"""Tables of results, as text for a terminal and as HTML for a notebook. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows of cells; the columns with an index in `left` are left-aligned, all others right-aligned."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)

    def text(self) -> str:
        """The table as text with aligned columns."""
        lines = [self.heads, *self.rows]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join("  ".join(self._aligned(line, widths)).rstrip() for line in lines)

    def html(self) -> str:
        """The table as HTML."""
        heads = "".join(self._cell("th", place, head) for place, head in enumerate(self.heads))
        rows = ("".join(self._cell("td", place, cell) for place, cell in enumerate(row)) for row in self.rows)
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        pairs = enumerate(zip(line, widths, strict=True))
        return [cell.ljust(width) if place in self.left else cell.rjust(width) for place, (cell, width) in pairs]

    def _cell(self, kind: str, place: int, text: str) -> str:
        side = "left" if place in self.left else "right"
        return f'<{kind} style="text-align: {side}">{escape(text)}</{kind}>'


def list_text(names: Sequence[str]) -> str:
    """A list in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
