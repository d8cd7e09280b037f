"""The import graph of the package has no cycle, counting imports for type checkers too, and no lazy import goes up."""

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.paths import ROOT

SOURCE = ROOT / "src"
PACKAGE = "teamwright"


class Import(NamedTuple):
    """One import of a module of the package: at load time, for type checkers, or inside a function."""

    importer: str
    imported: str
    lazy: bool


class Importer(ast.NodeVisitor):
    """Collects the imports of one module."""

    def __init__(self, module: str, modules: Mapping[str, Path]) -> None:
        self.found: list[Import] = []
        self._module, self._modules, self._depth = module, modules, 0

    def generic_visit(self, node: ast.AST) -> None:
        """Go through statements; no expression has an import."""
        if not isinstance(node, ast.expr):
            super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast.NodeVisitor looks for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.module is not None, "relative imports are banned"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            self._add(full if full in self._modules else node.module)

    def _add(self, imported: str) -> None:
        if imported in self._modules and imported != self._module:
            self.found.append(Import(self._module, imported, lazy=self._depth > 0))


def modules(source: Path) -> dict[str, Path]:
    """Every module under a folder, by its full name."""
    paths = sorted(source.rglob("*.py"))
    return {".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(source: Path) -> Iterator[Import]:
    """All imports between the modules under a folder."""
    known = modules(source)
    for module, path in known.items():
        importer = Importer(module, known)
        importer.visit(ast.parse(path.read_text(encoding="utf-8")))
        yield from importer.found


@cache
def own_imports() -> tuple[Import, ...]:
    """All imports between the modules of the package."""
    return tuple(imports(SOURCE))


def cycle(found: Iterable[Import]) -> list[str]:
    """A cycle of imports outside functions; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for one in found:
        if not one.lazy:
            graph.setdefault(one.importer, set()).add(one.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def layers() -> dict[str, int]:
    """The rank of each layer, as the contract of import-linter states it; a higher rank may import a lower one."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    listed = next(one["layers"] for one in contracts if one.get("containers") == [PACKAGE])
    names = ((rank, name.strip(" ()")) for rank, layer in enumerate(reversed(listed)) for name in layer.split("|"))
    return {name: rank for rank, name in names}


def layer_of(module: str) -> str:
    """The layer of a module; the root of the package has none."""
    return module.split(".")[1] if "." in module else ""


def test_no_modules_import_each_other() -> None:
    assert cycle(own_imports()) == []


def test_no_lazy_import_goes_up_a_layer() -> None:
    rank = layers()
    found = ((one, layer_of(one.importer), layer_of(one.imported)) for one in own_imports() if one.lazy)
    assert [one for one, above, below in found if above and below and rank[above] < rank[below]] == []


@pytest.mark.parametrize("guard", ["", "if TYPE_CHECKING:\n    "])
def test_a_cycle_is_found_also_where_only_a_type_checker_sees_it(tmp_path: Path, guard: str) -> None:
    (tmp_path / "one.py").write_text("from two import b\n")
    (tmp_path / "two.py").write_text(f"{guard}import one\n")
    assert sorted(set(cycle(imports(tmp_path)))) == ["one", "two"]


def test_an_import_inside_a_function_closes_no_cycle(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import two\n")
    (tmp_path / "two.py").write_text("async def work():\n    import one\n")
    assert cycle(imports(tmp_path)) == []
    assert [one for one in imports(tmp_path) if one.lazy] == [Import("two", "one", lazy=True)]
