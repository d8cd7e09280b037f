"""Leaves out tests that need a wing whose folder was removed.

A file needs the wings that it imports when it is loaded, itself or through other files of the tests and tools. A test
that needs a wing in another way, through a command or a manifest, has a marker with the name of the wing.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.paths import ROOT

PACKAGE = "teamwright"
FOLDERS = ("tests", "tools", "bench")
WINGS = frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["teamwright.wings"])
ABSENT = frozenset(wing for wing in WINGS if not (ROOT / "src" / PACKAGE / wing).is_dir())


def needs_absent(path: Path) -> bool:
    """Whether a test file, or the `conftest.py` of a folder, needs a wing that is not there."""
    if not ABSENT:
        return False
    file = path / "conftest.py" if path.is_dir() else path
    return file.suffix == ".py" and file.exists() and not ABSENT.isdisjoint(needed_wings(file))


@cache
def needed_wings(file: Path) -> frozenset[str]:
    """Return the wings without which a file can't be loaded."""
    seen, pending, needed = {file}, [file], set[str]()
    while pending:
        for module in _imported(pending.pop()):
            top, _, rest = module.partition(".")
            if top in (PACKAGE, "tests"):
                needed.update(WINGS.intersection(rest.split(".")[:1]))
            if top in FOLDERS and (path := ROOT / f"{module.replace('.', '/')}.py") not in seen and path.exists():
                seen.add(path)
                pending.append(path)
    return frozenset(needed)


@cache
def _imported(file: Path) -> tuple[str, ...]:
    return tuple(_modules(ast.parse(file.read_bytes())))


def _modules(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that are imported at the top of a file; a name may be a module of the package before it."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield module
                yield from (f"{module}.{one.name}" for one in names)
            case _:
                pass
