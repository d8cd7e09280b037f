"""Drawing in SVG: documents, labels, lines, ticks of an axis, and saving as SVG or PNG.

The SVG is written with the standard library alone; resvg (the extra `lab`) converts it to PNG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from teamwright.errors import MissingExtra, UsageError

FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"


INK, FAINT, LINE, PAPER = "#0f172a", "#64748b", "#e2e8f0", "#ffffff"


FORMATS = (".svg", ".png")
PNG_ZOOM = 2.0
CHARACTER = 0.58
"""The average width of a character as a share of the font size."""


def document(width: float, height: float, parts: Iterable[str], defs: str = "") -> str:
    """A complete SVG document."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="{FONT}">'
    return "\n".join([opening, *([defs] if defs else []), f'<rect {size} fill="{PAPER}"/>', *parts, "</svg>\n"])


def label(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 11,
    weight: int = 400,
    fill: str = INK,
    anchor: str = "start",
    halo: bool = False,
) -> str:
    """A line of text; a halo keeps it readable across lines."""
    style = f'font-size="{size:g}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    around = f' paint-order="stroke" stroke="{PAPER}" stroke-width="4" stroke-linejoin="round"' if halo else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{around}>{escape(content)}</text>'


def vertical_label(x: float, y: float, content: str, *, size: float = 11, fill: str = FAINT) -> str:
    """A centred line of text that runs upwards."""
    return (
        f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" font-size="{size:g}" fill="{fill}" '
        f'text-anchor="middle">{escape(content)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = LINE, width: float = 1, dashes: str = "") -> str:
    """A straight line."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"{dashed}/>'


def text_width(content: str, size: float) -> float:
    """The approximate width of a line of text."""
    return len(content) * size * CHARACTER


def ticks(low: float, high: float, about: int) -> list[float]:
    """About so many round numbers, at least two, that enclose the range from `low` to `high`."""
    rough = max((high - low) or abs(high), 1e-6) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 10) for place in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """A number in few characters: 950, 32k, 1.2M, 0.15."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 0.9995 and (unit != "k" or abs(value) >= 9999.5):
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def save(svg: str, file: str | Path) -> None:
    """Write a drawing to a file, as SVG or PNG by its extension."""
    path = check_file(file)
    content = svg.encode() if path.suffix.lower() == ".svg" else png(svg)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be written: {error.strerror}; name another file.") from error


def check_file(file: str | Path) -> Path:
    """Return the path of a drawing; reject an unknown format or one whose extra is missing."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{str(path)!r} is not a valid name for a plot; use one that ends in {' or '.join(FORMATS)}.")
    if path.suffix.lower() == ".png" and find_spec("resvg_py") is None:
        raise MissingExtra("lab", f"A plot as PNG ({path.name!r}; SVG needs nothing)")
    return path


def png(svg: str) -> bytes:
    """Convert a drawing to PNG, at twice its size in pixels."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=PNG_ZOOM))
