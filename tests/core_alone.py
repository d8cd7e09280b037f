"""Runs the tests of what remains on copies of the repository: without each wing in turn, and without all of them.

    python -m tests.core_alone [--without lab,server] [arguments of pytest]

The metadata of the distribution stay as they are, so a copy is what a user has who removed the folder of a wing.
Documentation, examples and the page are those of the whole distribution, and so are their tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tests.absent_wings import WINGS
from tests.paths import ROOT

PARTS = (
    "src", "tests", "docs", "examples", "tools", "bench", "deploy", "requirements", "web", ".ci",
    "pyproject.toml", "README.md", "Makefile", "AGENTS.md", "CHANGELOG.md",
)  # fmt: skip
OF_ALL = (
    "tests/docs", "tests/test_examples.py", "tests/test_facades.py", "tests/test_facade_signatures.py",
    "tests/test_mirror.py", "tests/test_core_alone.py", "tests/test_page_build.py", "tests/test_wings.py",
    "tests/server/page/browser",
)  # fmt: skip
"""Tests of the whole distribution: its documentation, its examples, its facades, and its page in a browser."""
CHOICES = (*((wing,) for wing in sorted(WINGS)), tuple(sorted(WINGS)))
"""The wings that are removed from each copy."""


def copy_without(wings: Collection[str], folder: Path, parts: Iterable[str] = PARTS) -> dict[str, str]:
    """Copy the repository to a folder, without the folders of these wings; return the environment of its programs.

    The compiled modules come along, and are valid because a copy keeps the time of its source.
    """
    ignored = shutil.ignore_patterns(".hypothesis", "node_modules")
    for part in parts:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, folder / part)
    for wing in wings:
        shutil.rmtree(folder / "src/teamwright" / wing)
        shutil.rmtree(folder / "tests" / wing, ignore_errors=True)
    path = os.pathsep.join(filter(None, (str(folder / "src"), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


def run_tests_without(wings: Collection[str], arguments: Sequence[str]) -> int:
    """Run pytest on a copy, and return its exit code; without a path among the arguments, all tests that remain."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        environment = copy_without(wings, folder)
        ignored = [f"--ignore={path}" for path in OF_ALL]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *ignored, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Run the tests without the wings that the arguments name, or without each in turn and all; 1 if one fails."""
    parser = ArgumentParser(prog="python -m tests.core_alone", description=__doc__, add_help=False)
    parser.add_argument("--without", metavar="WING,…")
    chosen, rest = parser.parse_known_args(arguments)
    choices = CHOICES if chosen.without is None else (tuple(chosen.without.split(",")),)
    if unknown := {wing for wings in choices for wing in wings} - WINGS:
        parser.error(f"there is no wing {', '.join(sorted(unknown))}; the wings are {', '.join(sorted(WINGS))}")
    codes: list[int] = []
    for wings in choices:
        print(f"without {', '.join(wings)}", flush=True)
        codes.append(run_tests_without(wings, rest))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
