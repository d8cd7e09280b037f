"""Drawings become files and keep to their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import MissingExtra, UsageError
from teamwright.lab import compare, evaluate
from teamwright.lab.evaluation.plots import check_file, save, short, ticks


@pytest.mark.parametrize("name", ["plot.svg", "plot.png", "PLOT.PNG"])
def test_a_plot_is_written_as_its_name_says(tmp_path: Path, name: str) -> None:
    for found in (evaluate(), compare()):
        found.plot(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"<svg " if name.endswith("svg") else b"\x89PNG\r\n")
        assert len(content) > 2000


@pytest.mark.parametrize("name", ["plot", "plot.gif", "svg"])
def test_another_kind_of_file_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"use one that ends in \.svg or \.png"):
        check_file(name)


def test_a_png_without_its_extra_is_refused_and_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwright.lab.evaluation.plots.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"\[lab\]"):
        check_file("plot.png")
    assert check_file("plot.svg") == Path("plot.svg")


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(UsageError, match="can't be written"):
        save("<svg/>", tmp_path / "folder.svg")


@given(low=st.floats(0, 1e9), span=st.just(0.0) | st.floats(1e-6, 1e9), about=st.integers(2, 8))
def test_ticks_hold_both_ends_and_are_not_many(low: float, span: float, about: int) -> None:
    found = ticks(low, low + span, about)
    slack = 1e-6 * (low + span + 1)
    assert found[0] <= low + slack
    assert found[-1] >= low + span - slack
    assert len(found) <= about * 2 + 2
    assert len(found) >= 2
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.1511, "0.151"), (950, "950"), (1234, "1234"), (32186, "32.2k"), (1.2e6, "1.2M"), (3e9, "3G")],
)
def test_numbers_are_written_short(value: float, expected: str) -> None:
    assert short(value) == expected
