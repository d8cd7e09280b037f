"""Runs the tests of the core on a copy of the repository without the optional package, as if it were not installed.

    python -m tests.core_alone [arguments of pytest]

Tests that need the package have the marker `experts`. Documentation and examples are those of the whole distribution.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from tests.paths import ROOT

PACKAGE = "teamwright.experts"
PARTS = (
    "src", "tests", "docs", "examples", "tools", "bench", "requirements", "web", ".ci",
    "pyproject.toml", "README.md", "Makefile", "AGENTS.md", "CHANGELOG.md",
)  # fmt: skip
OPTIONAL = ("src/teamwright/experts", "tests/experts")
OF_ALL = (
    "tests/docs", "tests/test_examples.py", "tests/test_facades.py", "tests/test_facade_signatures.py",
    "tests/test_mirror.py", "tests/test_core_alone.py", "tests/test_page_build.py", "tests/server/page/browser",
)  # fmt: skip
"""Tests of the whole distribution: its documentation, its examples, its facades, and its page in a browser."""


def copy_core(folder: Path) -> None:
    """Copy the repository to a folder, without the optional package and what registers it.

    The compiled modules come along, and are valid because a copy keeps the time of its source.
    """
    ignored = shutil.ignore_patterns(".hypothesis", "node_modules")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, folder / part)
    for part in OPTIONAL:
        shutil.rmtree(folder / part)
    _register_core(folder / "src")


def _register_core(source: Path) -> None:
    """Write the metadata of the distribution, which precede the installed ones, without the package's entry points."""
    installed = distribution("teamwright")
    folder = source / f"teamwright-{installed.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(installed.read_text("METADATA") or "", encoding="utf-8")
    lines = (installed.read_text("entry_points.txt") or "").splitlines()
    (folder / "entry_points.txt").write_text("\n".join(line for line in lines if PACKAGE not in line), encoding="utf-8")


def run_core_tests(arguments: Sequence[str]) -> int:
    """Run pytest on the copy, and return its exit code; without a path among the arguments, all tests of the core."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copy_core(folder)
        ignored = [f"--ignore={path}" for path in OF_ALL]
        command = [sys.executable, "-m", "pytest", "-m", "not experts", "-p", "no:cacheprovider", *ignored, *arguments]
        path = os.pathsep.join(filter(None, (str(folder / "src"), os.environ.get("PYTHONPATH", ""))))
        return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(run_core_tests(sys.argv[1:]))
