from pathlib import Path

import pytest

from teamwright.cluster import run_requirements as code_folder
from teamwright.cluster.run_requirements import CodeFolder
from teamwright.errors import UsageError


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_the_same_code_has_the_same_digest_in_any_folder(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one", tools="x = 1\n"), make(tmp_path / "two", tools="x = 1\n")
    (two / "__pycache__").mkdir()
    (two / "__pycache__" / "tools.cpython-311.pyc").write_bytes(b"compiled")
    (two / ".git").mkdir()
    (two / ".git" / "HEAD").write_text("ref")
    assert CodeFolder(one).digest == CodeFolder(two).digest


def test_a_changed_renamed_or_added_file_changes_the_digest(tmp_path: Path) -> None:
    made = [
        make(tmp_path / "a", tools="x = 1\n"),
        make(tmp_path / "b", tools="x = 2\n"),
        make(tmp_path / "c", other="x = 1\n"),
        make(tmp_path / "d", tools="x = 1\n", other=""),
    ]
    assert len({CodeFolder(one).digest for one in made}) == len(made)


def test_code_behind_a_link_counts_and_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    shared = make(tmp_path / "shared", tools="x = 1\n")
    code = make(tmp_path / "code", own="")
    (code / "shared").symlink_to(shared)
    (code / "circle").symlink_to(code)
    made = CodeFolder(code)
    make(shared, tools="x = 2\n")
    assert not made.is_unchanged()
    assert CodeFolder(code).digest != made.digest


def test_a_folder_that_was_changed_is_noticed_and_one_that_was_only_touched_is_not(tmp_path: Path) -> None:
    code = CodeFolder(make(tmp_path / "code", tools="x = 1\n"))
    (tmp_path / "code" / "tools.py").touch()
    assert code.is_unchanged()
    make(tmp_path / "code", tools="x = 2\n")
    assert not code.is_unchanged()


def test_a_folder_that_is_missing_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        CodeFolder(tmp_path / "none")
    monkeypatch.setattr(code_folder, "MOST_FILES", 1)
    with pytest.raises(UsageError, match="too many"):
        CodeFolder(make(tmp_path / "code", a="", b=""))
