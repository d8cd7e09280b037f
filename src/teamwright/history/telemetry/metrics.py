"""Metrics of a process that drives runs, in the text format of Prometheus: counted from events, as they happen."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunEnded

if TYPE_CHECKING:
    from teamwright.history.telemetry.exporter import Exporter

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{f'{{{shown}}}' if shown else ''} {value:.15g}"


def as_text(metrics: Iterable[Metric]) -> str:
    """Return metrics as a page that Prometheus reads."""
    return "\n".join(line for metric in metrics for line in metric.lines()) + "\n"


class RunMetrics:
    """Counts what the runs of a process spend and how they end; listen to the bus of their engine with `count`."""

    def __init__(self) -> None:
        self._started = time.time()
        self._tokens: Counter[str] = Counter()
        self._usd = 0.0
        self._calls: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()

    def count(self, item: Event | AnyDelta) -> None:
        """Count the spending of a call that has ended, and the end of a run."""
        fact = item.fact if isinstance(item, Event) else None
        if isinstance(fact, AgentReturned) and fact.tally is not None:
            return  # a child run, whose calls are counted where they are made
        if isinstance(fact, AgentReturned | AgentCallFailed):
            self._calls["returned" if isinstance(fact, AgentReturned) else "failed"] += 1
            self._tokens["input"] += fact.usage.input_tokens
            self._tokens["output"] += fact.usage.output_tokens
            self._usd += float(fact.usage.usd or 0)
        elif isinstance(fact, RunEnded):
            self.finished[fact.status] += 1

    def of_runs(self, driving: int, finished: Mapping[str, int] | None = None) -> Iterator[Metric]:
        """What is driven here, and how it ended; `finished` replaces what was counted."""
        ended = self.finished if finished is None else finished
        by_status = [({"status": status}, number) for status, number in ended.items()]
        yield Metric("teamwright_runs_driving", "gauge", "Runs that are driven here.", [({}, driving)])
        yield Metric("teamwright_runs_finished_total", "counter", "Runs that ended here, by status.", by_status)
        calls = [({"outcome": outcome}, self._calls[outcome]) for outcome in ("returned", "failed")]
        yield Metric("teamwright_calls_total", "counter", "Model requests and tool calls made here.", calls)
        tokens = [({"kind": kind}, self._tokens[kind]) for kind in ("input", "output")]
        yield Metric("teamwright_tokens_total", "counter", "Tokens used here.", tokens)
        yield Metric("teamwright_usd_total", "counter", "Money spent here, in dollars.", [({}, self._usd)])

    def of_process(self, exporter: Exporter | None) -> Iterator[Metric]:
        """What the process took, and what telemetry it has sent."""
        if exporter is not None:
            spans = [({"outcome": "sent"}, exporter.sent), ({"outcome": "lost"}, exporter.lost)]
            yield Metric("teamwright_telemetry_spans_total", "counter", "Spans for the receiver of traces.", spans)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        seconds = usage.ru_utime + usage.ru_stime
        yield Metric("process_cpu_seconds_total", "counter", "Processor time of this process.", [({}, seconds)])
        yield Metric("process_start_time_seconds", "gauge", "When this process started.", [({}, self._started)])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
