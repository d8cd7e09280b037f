"""Compiles the tests as pytest does, on all cores, and everything that they import; computes what Hypothesis keeps.

Otherwise each worker of a test run would do all of it, at the same time as the others.
"""

import compileall
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _pytest.assertion import rewrite

REWRITTEN = re.compile(r"(^|/)(test_[^/]*|conftest)\.py$")
"""The files whose assertions pytest rewrites."""
SILENT: Any = SimpleNamespace(trace=str)
"""In place of the state of pytest, which would trace that a file can't be written."""


def compile_test(path: Path) -> None:
    """Write the code of a test file to where pytest looks for it, unless it is there."""
    compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, compiled) is None:  # pyright: ignore[reportPrivateUsage]
        without_hooks: Any = None
        digest, code = rewrite._rewrite_test(path, without_hooks)  # pyright: ignore[reportPrivateUsage]
        compiled.parent.mkdir(exist_ok=True)
        rewrite._write_pyc(SILENT, code, digest, compiled)  # pyright: ignore[reportPrivateUsage]


def compute_characters() -> None:
    """Compute the tables of characters that Hypothesis draws from, unless `.hypothesis` has them."""
    from hypothesis.internal import charmap

    charmap.charmap()
    charmap.intervals_from_codec("utf-8")


def main(folders: Sequence[str]) -> None:
    """Compile these folders; a file that can't be compiled is left to pytest, which says why."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        tests = (
            path.resolve() for folder in folders for path in Path(folder).rglob("*.py") if REWRITTEN.search(str(path))
        )
        done = [pool.submit(compute_characters), *(pool.submit(compile_test, path) for path in tests)]
        for folder in folders:
            compileall.compile_dir(folder, quiet=2, rx=REWRITTEN, workers=1)
        for one in done:
            one.exception()


if __name__ == "__main__":
    main(sys.argv[1:])
