"""The lab's package: what it offers, and that it costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from teamwright import lab


def imported_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running the code."""
    shown = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_name_that_is_promised_can_be_imported() -> None:
    for name in lab.__all__:
        assert getattr(lab, name).__name__ == name
    assert set(lab._HOMES) == set(lab.__all__)
    assert {"evaluate", "compare", "sweep"} <= set(lab.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = lab.Nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_importing_the_lab_imports_nothing_heavy() -> None:
    assert imported_by("import teamwright.lab").isdisjoint({"pydantic", "numpy", "resvg_py", "anyio", "typer", "rich"})


def test_an_evaluation_needs_neither_numpy_nor_the_engine() -> None:
    found = imported_by("from teamwright.lab import evaluate\nevaluate().svg()")
    assert found.isdisjoint({"numpy", "resvg_py", "anyio", "sqlite3", "pydantic_ai", "typer", "rich"})


def test_a_module_that_was_imported_first_does_not_hide_a_function() -> None:
    code = "import teamwright.lab.matrix, teamwright.lab.report\nfrom teamwright.lab import sweep, evaluate\nsweep()"
    imported_by(code)
