"""The layers of the package, drawn from the contract that import-linter checks."""

import re
import tomllib
from pathlib import Path

from tools.pictures.svg import BLUE, MARGIN, MUTED, SLATE, TEAL, TITLE_HEIGHT, arrow, box, document, text

CONTRACT = "Each layer imports only what is below it"
PURPOSE = {
    "cluster": "workers",
    "experts": "roles, skills",
    "lab": "simulations",
    "server": "HTTP, page",
    "cli": "commands, and events on the terminal",
    "testing": "conformance suites, model server",
    "engine": "engine and runs, for users",
    "runtime": "engine, run, context, replay, budget enforcement",
    "history": "read recorded runs: replay index, KPIs, diff, checkpoints",
    "teams": "a team, which is itself an agent; built in Python or from a manifest",
    "strategies": "how members work together",
    "guests": "agents of other frameworks",
    "agents": "models, functions, scripts, tools",
    "journal": "the record of a run",
    "documents": "YAML with positions",
    "events": "what a run records",
    "people": "questions and answers",
    "values": "what crosses a boundary: pure values, no I/O",
    "wings": "finds the optional packages, which nothing below them imports or names",
    "errors": "the exception tree",
    "_lazy": "names that load on first use",
    "collector_pauses": "pauses of Python's collector",
    "install_command": "how to install an extra",
}
WIDTH, BAND, GAP = 900.0, 34.0, 9.0
FACADES = {"engine", "plans", "events", "people"}
DURABLE = {"runtime", "history", "journal"}


def read_layers(pyproject: Path) -> list[list[str]]:
    """The layers from top to bottom, each with its packages."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == CONTRACT)
    return [re.findall(r"\w+", layer) for layer in layers]


def draw(root: Path) -> str:
    """One band for each layer, with what its packages are for."""
    parts: list[str] = []
    layers = read_layers(root / "pyproject.toml")
    left, right = MARGIN + 34, WIDTH - MARGIN
    for row, packages in enumerate(layers):
        y = TITLE_HEIGHT + row * (BAND + GAP)
        width = (right - left - GAP * (len(packages) - 1)) / len(packages)
        for column, package in enumerate(packages):
            parts += _package(left + column * (width + GAP), y, width, package)
    bottom = TITLE_HEIGHT + len(layers) * (BAND + GAP) - GAP
    parts.append(arrow(MARGIN + 10, TITLE_HEIGHT, MARGIN + 10, bottom, stroke=MUTED))
    subtitle = "A package imports only from layers below it, never from above or beside. Wings, at the top, are extras."
    parts += _legend(left, bottom + 18)
    return document(WIDTH, bottom + 34 + MARGIN, "Layers of the package", subtitle, parts)


def _legend(x: float, y: float) -> list[str]:
    entries = ((TEAL, "makes a run durable"), (SLATE, "facade: names for users, no code"), (BLUE, "everything else"))
    parts: list[str] = []
    for place, (colour, label) in enumerate(entries):
        at = x + place * 290
        parts += [box(at, y, 22, 16, colour=colour, radius=3), text(at + 30, y + 13, label, size=13)]
    return parts


def _package(x: float, y: float, width: float, name: str) -> list[str]:
    if name not in PURPOSE:
        raise LookupError(f"Say what the package {name!r} is for in PURPOSE of tools/pictures/layers.py")
    colour = SLATE if name in FACADES else TEAL if name in DURABLE else BLUE
    return [
        box(x, y, width, BAND, colour=colour),
        text(x + 12, y + 22, name, size=13.5, weight=700, fill=colour, mono=True),
        text(x + max(106, 22 + len(name) * 8.5), y + 22, PURPOSE[name], size=13, fill=MUTED),
    ]
