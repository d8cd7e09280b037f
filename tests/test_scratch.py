"""The files of a test run are kept in memory where there is room, and on the disk otherwise."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import scratch

PLENTY = "MemTotal: 64000000 kB\nMemAvailable:   32000000 kB\n"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with room, on a machine with much memory."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1 << 30, f_frsize=4096, f_flag=0))
    (tmp_path / "meminfo").write_text(PLENTY, encoding="utf-8")
    return tmp_path


def chosen(memory: Path) -> str:
    return scratch.folder(memory, memory / "meminfo")


def test_files_are_kept_in_memory(memory: Path) -> None:
    assert chosen(memory) == str(memory)


def test_a_folder_that_the_user_names_is_used(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert chosen(memory) == tempfile.gettempdir()


def test_without_such_a_folder_files_are_on_the_disk(memory: Path) -> None:
    assert scratch.folder(memory / "absent", memory / "meminfo") == tempfile.gettempdir()


@pytest.mark.parametrize(("blocks", "flag"), [(1 << 10, 0), (1 << 30, os.ST_NOEXEC)])
def test_a_small_folder_or_one_without_programs_is_not_used(
    memory: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, flag: int
) -> None:
    """As in a container."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_flag=flag))
    assert chosen(memory) == tempfile.gettempdir()


@pytest.mark.parametrize("text", ["MemAvailable: 4000000 kB\n", ""])
def test_a_machine_with_little_memory_keeps_files_on_the_disk(memory: Path, text: str) -> None:
    (memory / "meminfo").write_text(text, encoding="utf-8")
    assert chosen(memory) == tempfile.gettempdir()
