"""Tests are compiled as pytest does, so that the workers of a test run compile none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import compile_tests

TEST = "from kit import ONE\n\n\ndef test_one():\n    assert ONE == 2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "test_one.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "kit.py").write_text("ONE = 1\n", encoding="utf-8")
    return tmp_path


def compiled(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.pyc")}


def test_pytest_uses_what_was_compiled(folder: Path) -> None:
    compile_tests.main([str(folder)])
    before = compiled(folder)
    assert len(before) == 2
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "assert 1 == 2" in done.stdout, "the assertion was rewritten"
    assert compiled(folder) == before


def test_what_is_compiled_is_not_compiled_again_until_it_changes(folder: Path) -> None:
    compile_tests.main([str(folder)])
    before = compiled(folder)
    compile_tests.main([str(folder)])
    assert compiled(folder) == before
    (folder / "test_one.py").write_text(TEST.replace("2", "3"), encoding="utf-8")
    compile_tests.main([str(folder)])
    [changed] = [name for name, when in compiled(folder).items() if when != before[name]]
    assert changed.startswith("test_one")


def test_a_file_that_has_no_valid_syntax_is_left_to_pytest(folder: Path) -> None:
    (folder / "test_two.py").write_text("def (", encoding="utf-8")
    compile_tests.main([str(folder)])
    assert len(compiled(folder)) == 2
