from __future__ import annotations

import re

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.history.telemetry.exporter import Metric, RunMetrics, as_text
from teamwright.runtime.engine import Engine
from teamwright.values.turns.turn import Turn
from tests.kit.telemetry import OtlpReceiver


async def answer(turn: Turn) -> str:
    return "said"


async def test_runs_are_counted_by_their_ends_and_spans_by_theirs() -> None:
    metrics = RunMetrics()
    with OtlpReceiver() as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            with engine.bus.observing(metrics.count):
                await engine.run(FunctionAgent("a", answer), "task")
            exporter = engine.driver.exporter
    text = as_text((*metrics.of_runs(2), *metrics.of_process(exporter)))
    assert 'teamwright_runs_finished_total{status="completed"} 1' in text
    assert "teamwright_runs_driving 2" in text
    assert exporter is not None
    assert f'teamwright_telemetry_spans_total{{outcome="sent"}} {exporter.sent}' in text
    assert exporter.sent > 1
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+', line), line


def test_labels_are_escaped() -> None:
    text = as_text([Metric("m", "gauge", "Help.", [({"name": 'a"b\\c\nd'}, 1.5)])])
    assert text == '# HELP m Help.\n# TYPE m gauge\nm{name="a\\"b\\\\c\\nd"} 1.5\n'
