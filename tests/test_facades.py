"""The facades: each name that users import has one home, loads on first use and costs nothing before."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from teamwright.collector_pauses import import_uncollected
from tools import tree

PACKAGE = tree.ROOT / "src" / "teamwright"
FACADES = tuple(
    ".".join(("teamwright", *stub.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for stub in sorted(PACKAGE.rglob("*.pyi"))
)
HEAVY = {"anyio", "jsonschema", "pydantic", "pydantic_ai", "rich", "sqlite3", "typer", "yaml"}
NOT_AT_FIRST = {
    "anyio.to_process", "asyncio", "difflib", "genai_prices", "importlib.metadata", "jinja2", "jsonschema",
    "pydantic_ai", "pydantic.plugin._loader", "pydantic.type_adapter", "regex", "rich", "sqlite3", "typer", "yaml",
    "teamwright.agents.functions.agent", "teamwright.agents.functions.imports", "teamwright.agents.model.agent",
    "teamwright.agents.scripted",
    "teamwright.agents.tools.toolbox", "teamwright.documents", "teamwright.history", "teamwright.journal.sqlite",
    "teamwright.teams.manifests", "teamwright.strategies.plan.schedule", "teamwright.lab.topology",
    "teamwright.runtime.context", "teamwright.runtime.run", "teamwright.runtime.webhooks",
    "teamwright.strategies.envelopes", "teamwright.strategies.expressions", "teamwright.strategies.plan",
    "teamwright.teams.builder",
}  # fmt: skip
"""What `from teamwright import Engine, Team` must not load: each has its first use."""


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has after running the code."""
    shown = f"{code}\nimport sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def imported_by(code: str) -> set[str]:
    """The same, only the top-level modules."""
    return {name.partition(".")[0] for name in modules_after(code)}


def declared(facade: ModuleType) -> dict[str, str]:
    """The names in the stub of a facade, and their homes, as a type checker reads them."""
    assert facade.__file__ is not None
    nodes = ast.parse(Path(facade.__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    found: dict[str, str] = {}
    for node in nodes:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.name == alias.asname, "a stub offers only what it imports by its own name"
            assert alias.name not in found, "each name is there once"
            found[alias.name] = str(node.module)
    return found


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_offers_what_its_stub_declares(name: str) -> None:
    facade = import_module(name)
    homes = declared(facade)
    assert sorted(homes) == facade.__all__
    for one, home in homes.items():
        assert getattr(facade, one) is getattr(import_module(home), one)
        assert one in dir(facade)


@pytest.mark.parametrize("name", FACADES)
def test_importing_a_facade_imports_nothing_heavy(name: str) -> None:
    assert imported_by(f"import {name}").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", FACADES)
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Nonsense'"):
        _ = import_module(name).Nonsense


def test_the_root_has_few_names() -> None:
    assert len(import_module("teamwright").__all__) <= tree.MAX_ROOT_NAMES == 25


def test_names_of_the_root_come_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = import_module("teamwright")
        for name in root.__all__:
            getattr(root, name)


def test_using_the_engine_imports_no_model_library_terminal_or_yaml() -> None:
    found = imported_by("from teamwright import Engine, Team, FunctionAgent, ModelAgent, ScriptedAgent, load_team")
    assert found.isdisjoint({"pydantic_ai", "yaml", "typer", "rich", "jsonschema", "mcp", "xllamacpp"})


def test_the_engine_and_a_team_load_only_what_every_program_needs() -> None:
    found = modules_after("from teamwright import Engine, Team")
    assert found.isdisjoint(NOT_AT_FIRST)


def test_importing_builds_no_declaration() -> None:
    code = """
from teamwright import Engine, FunctionAgent, Limits, ModelAgent, RetryPolicy, ScriptedAgent, Team, load_team
from teamwright.values.value import Value

def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)

print(*(one.__name__ for one in below(Value) if one.__pydantic_complete__))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_evaluation_needs_no_engine() -> None:
    found = imported_by("from teamwright.lab import evaluate\nstr(evaluate())")
    assert found.isdisjoint({"anyio", "sqlite3", "pydantic_ai", "typer", "rich"})


def test_no_module_hides_a_name_of_its_facade() -> None:
    for name in FACADES:
        facade = import_module(name)
        assert facade.__file__ is not None
        beside = (
            {path.stem for path in Path(facade.__file__).parent.iterdir()} if hasattr(facade, "__path__") else set()
        )
        assert beside.isdisjoint(facade.__all__), name


@pytest.fixture
def late_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that nothing has imported; it notes whether garbage is collected while it loads."""
    (tmp_path / "late_module.py").write_text("import gc\nCOLLECTS = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_a_name_loads_without_collecting_garbage(late_module: str) -> None:
    assert not import_uncollected(late_module).COLLECTS
    assert gc.isenabled()


def test_what_a_program_has_frozen_stays_frozen(late_module: str) -> None:
    before = gc.get_freeze_count()
    gc.freeze()
    try:
        import_uncollected(late_module)
        assert gc.get_freeze_count()
    finally:
        if not before:
            gc.unfreeze()


def test_a_collector_that_is_off_stays_off(late_module: str) -> None:
    gc.disable()
    try:
        import_uncollected(late_module)
        assert not gc.isenabled()
    finally:
        gc.enable()
