"""Types are checked of every file at first, and then of those alone whose result may have changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import type_check

FOLDERS = ("src", "tests")
CHECKER = """
import os, sys
open('asked', 'a').write(' '.join(sys.argv[1:]) + '\\n')
sys.exit(any(file in sys.argv for file in open('wrong').read().split()))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package of two modules, a facade whose stub names one, and three tests."""
    for name, text in {
        "src/team/__init__.py": "",
        "src/team/__init__.pyi": "from team.low import Low as Low\n",
        "src/team/low.py": "class Low: ...\n",
        "src/team/high.py": "def f():\n    import team.low\n",
        "tests/test_low.py": "from team import Low\n",
        "tests/test_high.py": "from team.high import f\n",
        "tests/test_kit.py": "import kit\n",
        "tests/kit.py": "",
        "wrong": "",
        "pyproject.toml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def asked(tree: Path, expected: int = 0) -> list[str]:
    """Check the tree, and return the files that the checker was given."""
    (tree / "asked").unlink(missing_ok=True)
    assert type_check.check(tree, FOLDERS, (sys.executable, "-c", CHECKER)) == expected
    return (tree / "asked").read_text(encoding="utf-8").split() if (tree / "asked").exists() else []


def everything(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for folder in FOLDERS for path in (tree / folder).rglob("*.py*"))


def change(tree: Path, name: str, text: str) -> None:
    with (tree / name).open("a", encoding="utf-8") as file:
        file.write(text)


def test_every_file_is_checked_once_and_none_twice(tree: Path) -> None:
    assert asked(tree) == everything(tree)
    assert asked(tree) == []


def test_a_file_is_checked_again_with_all_that_depend_on_it(tree: Path) -> None:
    asked(tree)
    change(tree, "tests/test_high.py", "x = 1\n")
    assert asked(tree) == ["tests/test_high.py"]
    change(tree, "tests/kit.py", "x = 1\n")
    assert asked(tree) == ["tests/kit.py", "tests/test_kit.py"]
    change(tree, "src/team/low.py", "x = 1\n")
    lower = ["src/team/__init__.pyi", "src/team/high.py", "src/team/low.py", "tests/test_high.py", "tests/test_low.py"]
    assert asked(tree) == lower


def test_a_module_that_comes_or_goes_changes_those_that_import_its_name(tree: Path) -> None:
    asked(tree)
    (tree / "tests/kit.py").rename(tree / "tests/other.py")
    assert asked(tree) == ["tests/other.py", "tests/test_kit.py"]
    change(tree, "tests/kit.py", "")
    assert asked(tree) == ["tests/kit.py", "tests/test_kit.py"]


def test_what_failed_is_checked_until_it_passes(tree: Path) -> None:
    asked(tree)
    change(tree, "tests/test_high.py", "x: int = ''\n")
    (tree / "wrong").write_text("tests/test_high.py", encoding="utf-8")
    assert asked(tree, expected=1) == asked(tree, expected=1) == ["tests/test_high.py"]
    (tree / "wrong").write_text("", encoding="utf-8")
    assert asked(tree) == ["tests/test_high.py"]
    assert asked(tree) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "build/types.json"])
def test_other_settings_and_a_note_that_can_not_be_read_check_everything(tree: Path, name: str) -> None:
    asked(tree)
    change(tree, name, "# {")
    assert asked(tree) == everything(tree)


def test_many_files_are_divided_among_processes_and_those_of_a_part_that_passed_are_not_checked_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type_check, "FEWEST", 3)
    (tree / "wrong").write_text("tests/test_high.py", encoding="utf-8")
    assert type_check.check(tree, FOLDERS, (sys.executable, "-c", CHECKER), processes=4) == 1
    parts = [line.split() for line in (tree / "asked").read_text(encoding="utf-8").splitlines()]
    assert len(parts) == 2
    assert sorted(file for part in parts for file in part) == everything(tree)
    [failed] = [part for part in parts if "tests/test_high.py" in part]
    assert asked(tree, expected=1) == failed


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
def test_parts_have_about_the_same_length_and_keep_the_order(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_check, "FEWEST", 2)
    texts = {f"{number:02}": "x" * (number % 5 + 1) for number in range(40)}
    parts = type_check.divided(texts, list(texts), processes)
    assert [file for part in parts for file in part] == list(texts)
    lengths = [sum(len(texts[file]) for file in part) for part in parts]
    assert len(parts) == processes
    assert max(lengths) - min(lengths) <= 10
