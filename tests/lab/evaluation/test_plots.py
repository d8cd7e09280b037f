"""Drawings become files and keep to their bounds, and the lengths of bars are in proportion."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import MissingExtra, UsageError
from teamwright.history.kpis import Kpis
from teamwright.lab import compare, evaluate
from teamwright.lab.evaluation.plots import PANEL, ROOM, TALK, WORK, kpi_plot
from teamwright.lab.evaluation.svg import check_file, save, short, ticks


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
    monkeypatch.setattr("teamwright.lab.evaluation.svg.find_spec", lambda name: None)
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


USUAL = Kpis(
    run_id="r", team="t", status="completed", stop_reason="done", seconds=2.0, steps=4, passed=3, failed=1,
    stopped=0, open=0, skipped=0, asks=5, throughput=1.0, pass_rate=0.75, defect_escape=0.25, total_tokens=400,
    work_tokens=300, coordination_tokens=100, judge_tokens=0, coordination_ratio=0.25, p95_latency_s=0.5, usd=None,
)  # fmt: skip


def widths(svg: str, colour: str) -> list[float]:
    found = re.findall(rf'width="([\d.]+)" height="18" fill="{colour}"', svg)
    return [float(one) for one in found]


def test_bars_are_in_proportion_and_the_longest_leaves_room_for_its_number() -> None:  # Z-12
    half = USUAL.changed(run_id="half", work_tokens=150, coordination_tokens=50)
    svg = kpi_plot([USUAL, half])
    full = PANEL - ROOM
    assert widths(svg, WORK) == [round(full * 0.75, 1), round(full * 0.375, 1)]
    assert widths(svg, TALK) == [round(full * 0.25, 1), round(full * 0.125, 1)]


def test_a_figure_that_no_run_has_is_no_panel_and_one_that_some_lack_has_a_dash() -> None:
    assert "messages" not in kpi_plot([USUAL])
    both = kpi_plot([USUAL, USUAL.changed(messages=7)])
    assert ">messages</text>" in both
    assert ">–</text>" in both


def test_it_is_sound_xml_whatever_a_run_is_called() -> None:
    svg = kpi_plot([USUAL.changed(run_id="a<b&c" * 20)])
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "…" in svg
