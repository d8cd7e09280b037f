"""Collects cases as tests of pytest: `pytest_plugins = ["teamwright.testing"]` in the topmost `conftest.py`.

A file is a case if its recording is beside it. A case fails with what differs, as `teamwright test` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from teamwright.testing.case_file import is_case
from teamwright.testing.case_replay import run_case


class CaseDiffers(Exception):
    """A case did not pass; its text says what differs."""


class CaseFile(pytest.File):
    """The file of a case."""

    @override
    def collect(self) -> Iterator[pytest.Item]:
        """Yield the one test of the file."""
        yield CaseTest.from_parent(self, name=self.path.stem)  # pyright: ignore[reportUnknownMemberType]


class CaseTest(pytest.Item):
    """The replay of a case."""

    @override
    def runtest(self) -> None:
        """Replay the case; raises `CaseDiffers` if it does not pass."""
        result = run_case(self.path)
        if not result.passes:
            raise CaseDiffers("\n".join(result.lines()))

    @override
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Return what differs, without the traceback of the replay.

        Another exception is a mistake in the replay itself, and keeps its traceback.
        """
        if isinstance(excinfo.value, CaseDiffers):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    @override
    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file, and the name of the test in reports."""
        return self.path, None, f"case {self.name}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Take the cases among the files that pytest collects."""
    if not is_case(file_path):
        return None
    return CaseFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
