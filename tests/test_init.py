"""The root of the package: what it offers, and that it costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import teamwright
from tools import tree

HEAVY = ("pydantic", "pydantic_ai", "yaml", "sqlite3", "typer", "rich", "anyio", "jsonschema")


def imported_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running the code."""
    shown = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_name_that_is_promised_can_be_imported() -> None:
    for name in teamwright.__all__:
        assert getattr(teamwright, name).__name__ == name or name in {"Event", "Members", "Task"}


def test_the_names_are_sorted_few_and_have_one_home_each() -> None:
    assert teamwright.__all__ == sorted(teamwright.__all__)
    assert len(teamwright.__all__) <= tree.MAX_ROOT_NAMES == 25
    assert set(teamwright._HOMES) == set(teamwright.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = teamwright.Nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import teamwright").isdisjoint(HEAVY)


def test_using_the_engine_imports_no_model_library_terminal_or_yaml() -> None:
    found = imported_by("from teamwright import Engine, Team, FunctionAgent, ModelAgent, ScriptedAgent, load_team")
    assert found.isdisjoint({"pydantic_ai", "yaml", "typer", "rich", "jsonschema", "mcp", "xllamacpp"})
