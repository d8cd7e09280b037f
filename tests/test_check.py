"""`make check` runs its steps side by side, shows what each found, and fails if one has failed."""

from __future__ import annotations

import sys

import pytest

from tools.check import Step, run

SAYS_OK = (sys.executable, "-c", "print('all well')")
FAILS = (sys.executable, "-c", "import sys; print('two mistakes', file=sys.stderr); sys.exit(1)")


def test_a_failed_step_stops_no_other_and_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    failed = run([Step("types", FAILS, "run  make format"), Step("lint", SAYS_OK), Step("words", FAILS)])
    assert sorted(failed) == ["types", "words"]
    said = capsys.readouterr().out
    assert said.count("two mistakes") == 2
    assert "all well" in said
    assert "two mistakes\nrun  make format\n" in said


def test_the_check_passes_if_every_step_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([Step("types", SAYS_OK, "run  make format"), Step("lint", SAYS_OK)]) == []
    assert capsys.readouterr().out == "all well\nall well\n"
