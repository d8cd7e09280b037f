"""The shapes of the pictures, as plain SVG text without a library.

Every picture paints its own background, so that it reads the same on a light and on a dark page.
"""

from collections.abc import Iterable
from xml.sax.saxutils import escape

SANS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, Liberation Mono, DejaVu Sans Mono, monospace"
INK, MUTED, RULE, PAPER = "#0f172a", "#475569", "#cbd5e1", "#ffffff"
BLUE, TEAL, AMBER, RED, SLATE = "#1d4ed8", "#0f766e", "#b45309", "#b91c1c", "#475569"
TINTS = {BLUE: "#dbeafe", TEAL: "#ccfbf1", AMBER: "#fef3c7", RED: "#fee2e2", SLATE: "#f1f5f9"}
MARGIN = 32.0
TITLE_HEIGHT = 84.0


def document(width: float, height: float, title: str, subtitle: str, parts: Iterable[str]) -> str:
    """A whole picture with its title, subtitle, background and border."""
    view = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    frame = f'x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="10"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{SANS}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect {frame} fill="{PAPER}" stroke="{RULE}"/>',
            text(MARGIN, 40, title, size=19, weight=700),
            text(MARGIN, 63, subtitle, size=13.5, fill=MUTED),
            *parts,
            "</svg>\n",
        ]
    )


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 13.5,
    weight: int = 400,
    fill: str = INK,
    anchor: str = "start",
    mono: bool = False,
) -> str:
    """One line of text, at its baseline."""
    font = f' font-family="{MONO}"' if mono else ""
    style = f'font-size="{size:g}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{font} xml:space="preserve">{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, *, colour: str, dashed: bool = False, radius: int = 6) -> str:
    """A rectangle with a tinted inside; dashed and empty for replayed calls."""
    fill, dashes = (PAPER, ' stroke-dasharray="5 4"') if dashed else (TINTS[colour], "")
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}"'
    return f'<rect {at} fill="{fill}" stroke="{colour}" stroke-width="1.3"{dashes}/>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = RULE, width: float = 1, dashes: str = "") -> str:
    """A straight line."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"{dashed}/>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, stroke: str = INK) -> str:
    """A horizontal or vertical line with a head at its end."""
    back = 7.0
    if y1 == y2:
        step = back if x2 > x1 else -back
        head = f"{x2:.1f},{y2:.1f} {x2 - step:.1f},{y2 - 4:.1f} {x2 - step:.1f},{y2 + 4:.1f}"
    else:
        step = back if y2 > y1 else -back
        head = f"{x2:.1f},{y2:.1f} {x2 - 4:.1f},{y2 - step:.1f} {x2 + 4:.1f},{y2 - step:.1f}"
    return line(x1, y1, x2, y2, stroke=stroke, width=1.6) + f'<polygon points="{head}" fill="{stroke}"/>'


def badge(x: float, y: float, content: str, *, colour: str, hollow: bool = False) -> str:
    """A number in a circle; hollow if it is only read."""
    fill, ink = (PAPER, colour) if hollow else (colour, PAPER)
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
    return circle + text(x, y + 4.3, content, size=12, weight=700, fill=ink, anchor="middle")
