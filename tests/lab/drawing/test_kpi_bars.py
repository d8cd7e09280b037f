"""The figures of runs as bars: their lengths are in proportion, and what a run does not have is left out."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from teamwright.history.kpis import Kpis
from teamwright.lab.drawing.kpi_bars import PANEL, ROOM, TALK, WORK, kpi_plot

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
