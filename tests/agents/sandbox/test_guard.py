"""The guard removes what a command has left, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teamwright.agents.sandbox.guard import remove_folder


def test_a_folder_is_removed_with_deep_unreadable_and_linked_ones(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "kept").touch()
    for name in ("one", "two", "closed"):
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "file").touch()
    (folder / "link").symlink_to(outside)
    (folder / "closed").chmod(0o500)
    (folder / "two").chmod(0)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # deeper than Python's own function goes, and than a path may be long
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_folder(str(folder))
    assert [one.name for one in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").exists()


def test_a_folder_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="link"):
        remove_folder(str(tmp_path / "link"))
    assert (tmp_path / "kept").exists()
