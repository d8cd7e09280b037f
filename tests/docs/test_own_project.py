"""What the pages say to a user's own project holds there, without the settings and plugins of this repository."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import teamwright
from tests.docs.pages import ROOT, blocks


def test_the_test_of_the_page_on_scripts_passes_with_pytest_alone(tmp_path: Path) -> None:
    page = ROOT / "docs" / "teams" / "testing.md"
    (text,) = (one.text for one in blocks(page) if one.language == "python" and "def test_the_critic" in one.text)
    (tmp_path / "test_review.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:anyio", "-W", "error"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_page_on_python_lists_every_facade() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    names = [one.name for one in iter_modules(teamwright.__path__) if not one.name.startswith("_")]
    facades = [name for name in names if getattr(import_module(f"teamwright.{name}"), "__all__", None)]
    assert "experts" in facades
    assert [name for name in facades if f"| `teamwright.{name}` |" not in text] == []
