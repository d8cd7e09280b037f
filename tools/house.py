"""Counts how large the package is for a reader and for a user: files, names, commands, keys, and the road of one turn.

    python -m tools.house [--json | --keys]

`--keys` lists the keys of manifests that are our own, each with the blocks that have it. Nothing fails here;
`tools/tree.py` checks the sizes that are rules.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "teamwright"
PROVIDERS = "ModelSettings"
"""The block of a manifest's schema with the settings that providers' libraries declare."""


def count() -> dict[str, object]:
    """Return every figure, by its name."""
    files = sorted(PACKAGE.rglob("*.py"))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    total = sum(lines.values())
    methods, size = _largest_class(trees.values())
    names = _public_names()
    commands, options = _commands()
    return {
        "lines": total,
        "files": len(files),
        "folders": len({file.parent for file in files}),
        "files under 60 lines": sum(number < 60 for file, number in lines.items() if file.name != "__init__.py"),
        "share of import lines": f"{_import_lines(trees) / total:.1%}",
        "folders at the root": sum((one / "__init__.py").exists() for one in PACKAGE.iterdir()),
        "public names": sum(len(found) for found in names.values()),
        "public names at the root": len(names["teamwright"]),
        "strategies": len(_strategies()),
        "commands": commands,
        "distinct options": options,
        "own keys of manifests": len(own_keys()),
        "settings of providers": len(_settings_of_providers()),
        "user pages": len(user_pages()),
        "methods of the largest class": methods,
        "lines of the longest class": size,
        "files that a model turn walks": _files_of_a_turn(),
        "files that POST /api/runs walks": _files_of_a_start(),
    }


def user_pages() -> list[Path]:
    """The pages of the documentation that are not for contributors."""
    own = ("contributing", "decisions")
    return [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in own]


def _import_lines(trees: Mapping[Path, ast.Module]) -> int:
    """The lines of import statements, wherever they are."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    found = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)


def _largest_class(trees: Iterable[ast.Module]) -> tuple[str, str]:
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {
        node.name: sum(isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) for one in node.body) for node in classes
    }
    sizes = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in classes}
    most, longest = max(methods, key=lambda name: methods[name]), max(sizes, key=lambda name: sizes[name])
    return f"{methods[most]} ({most})", f"{sizes[longest]} ({longest})"


def _public_names() -> dict[str, list[str]]:
    """The names of each facade: of a package or module with a stub."""
    found: dict[str, list[str]] = {}
    for file in (*PACKAGE.glob("*.py"), *PACKAGE.glob("**/__init__.py")):
        name = ".".join(("teamwright", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if file.with_suffix(".pyi").exists():
            found[name] = list(getattr(import_module(name), "__all__", ()))
    return found


def _strategies() -> list[str]:
    from teamwright.strategies.registry import strategy_names

    return strategy_names()


def _commands() -> tuple[int, int]:

    from teamwright.cli.main import commands

    ends: list[Any] = list(_ends(commands()))
    options = {name for end in ends for one in end.params for name in one.opts if name.startswith("--")}
    return len(ends), len(options - {"--help"})


def _ends(command: Any) -> Iterator[Any]:
    below = getattr(command, "commands", None)
    if below is None:
        yield command
        return
    for one in below.values():
        yield from _ends(one)


def own_keys() -> dict[str, list[str]]:
    """The keys of native manifests, with the blocks that have each.

    Not counted are the names of strategies, which name their blocks, the settings that are passed on to a provider
    as its library declares them, and the keys of ARK's documents, which ARK declares.
    """
    from teamwright.teams.manifests.schema import manifest_schema

    schema = manifest_schema()
    blocks = cast("dict[str, object]", schema.pop("$defs"))
    del blocks[PROVIDERS]
    found: dict[str, list[str]] = {}
    for block, content in {"manifest": schema, **blocks}.items():
        for key in set(_properties(content)):
            found.setdefault(key, []).append(block)
    return {key: sorted(found[key]) for key in sorted(set(found) - set(_strategies()))}


def _settings_of_providers() -> set[str]:
    from teamwright.teams.manifests.schema import manifest_schema

    blocks: Any = manifest_schema()["$defs"]
    return set(_properties(blocks[PROVIDERS]))


def _properties(node: object) -> Iterator[str]:
    """The names of properties in a schema, at any depth."""
    if isinstance(node, dict):
        parts = cast("dict[str, object]", node)
        yield from cast("dict[str, object]", parts.get("properties", {}))
        for one in parts.values():
            yield from _properties(one)
    elif isinstance(node, list):
        for one in cast("list[object]", node):
            yield from _properties(one)


def _files_of_a_turn() -> int:
    """The files of the package with a function that one turn of a model calls; the model answers on loopback."""
    from teamwright import ModelAgent, Team, run_sync
    from teamwright.agents import ServerModel
    from teamwright.testing import ModelServer

    with ModelServer() as server:
        team = Team("one", members=[ModelAgent("a", model=ServerModel(url=server.url, name="tiny"))])

        def turn() -> None:
            run_sync(team, "Say yes.", journal="memory")

        turn()  # imports what it needs
        return len(files_called(turn))


def _files_of_a_start() -> int:
    """The files of the package with a function that is called while a server starts a run, the second of its team."""
    import asyncio
    from tempfile import TemporaryDirectory

    import httpx2

    from teamwright import Engine
    from teamwright.server import make_app, open_state

    async def start(folder: Path) -> set[str]:
        (folder / "solo").mkdir()
        (folder / "solo" / "team.yaml").write_text(
            "agents: {a: {model: scripted:replies.yaml}}\nteams: {t: {members: [a]}}\n"
        )
        (folder / "solo" / "replies.yaml").write_text("rules: [{agent: a, delay: 9, reply: one}]\n")
        async with Engine(folder / "journal.db") as engine, open_state(engine, [folder], folder) as state:
            shown = {"Authorization": f"Bearer {state.tokens.create('x', 'run')}"}
            transport = httpx2.ASGITransport(make_app(state))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=shown) as client:
                for _ in range(2):  # the first one imports what it needs
                    found.clear()
                    (await client.post("/api/runs", json={"team": "solo", "task": "Go"})).raise_for_status()
                return set(found)

    found: set[str] = set()
    with TemporaryDirectory() as folder, noting_files(found, threads=True):
        return len(_of_package(asyncio.run(start(Path(folder)))))


def files_called(work: Callable[[], object]) -> set[str]:
    """Return the files of the package with a function that is called during the work."""
    found: set[str] = set()
    with noting_files(found):
        work()
    return _of_package(found)


@contextmanager
def noting_files(found: set[str], *, threads: bool = False) -> Generator[None]:
    """Add the files of functions that are called within this block; with `threads`, also in those that begin in it."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    threading.setprofile(note if threads else None)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def _of_package(files: set[str]) -> set[str]:
    return {one for one in files if one.startswith(str(PACKAGE))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keys", action="store_true")
    given = parser.parse_args()
    figures = {key: ", ".join(blocks) for key, blocks in own_keys().items()} if given.keys else count()
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:32}{value}" for name, value in figures.items()))
