"""The metrics of a worker and its cluster, in the text format of Prometheus."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from teamwright.cluster.status import ClusterStatus
from teamwright.cluster.worker.log import WorkerLog
from teamwright.transports.protocol import Traffic
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import AnyDelta, Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]

    def lines(self) -> Iterator[str]:
        """The lines of the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{f'{{{shown}}}' if shown else ''} {value:.15g}"


class WorkerMetrics:
    """Counts what a worker spends; listen to the bus of its engine with `count`."""

    def __init__(self, log: WorkerLog) -> None:
        self._log = log
        self._started = time.time()
        self._tokens: Counter[str] = Counter()
        self._usd = 0.0
        self._calls: Counter[str] = Counter()

    def count(self, item: Event | AnyDelta) -> None:
        """Count the spending of a call that has ended."""
        fact = item.fact if isinstance(item, Event) else None
        if isinstance(fact, AgentReturned) and fact.tally is not None:
            return  # a child run, whose calls are counted where they are made
        if isinstance(fact, AgentReturned | AgentCallFailed):
            self._calls["returned" if isinstance(fact, AgentReturned) else "failed"] += 1
            self._tokens["input"] += fact.usage.input_tokens
            self._tokens["output"] += fact.usage.output_tokens
            self._usd += float(fact.usage.usd or 0)

    def render(self, status: ClusterStatus | None, traffic: Traffic | None, *, driving: int, at_once: int) -> str:
        """Return all metrics; without a status, the database can't be reached; without traffic, there is no Redis."""
        found = [
            *self._of_worker(driving, at_once),
            *(_of_transport(traffic) if traffic is not None else ()),
            Metric("teamwright_database_up", "gauge", "Whether the database answers.", [({}, status is not None)]),
            *(_of_cluster(status) if status is not None else ()),
        ]
        return "\n".join(line for metric in found for line in metric.lines()) + "\n"

    def _of_worker(self, driving: int, at_once: int) -> Iterator[Metric]:
        counts = self._log.counts
        finished = [({"status": detail}, number) for (what, detail), number in counts.items() if what == "finished"]
        happened = [({"event": what}, number) for (what, _), number in counts.items() if what != "finished"]
        yield Metric("teamwright_runs_driving", "gauge", "Runs that this worker drives.", [({}, driving)])
        yield Metric("teamwright_runs_at_once", "gauge", "The most runs that it drives at a time.", [({}, at_once)])
        yield Metric("teamwright_runs_finished_total", "counter", "Runs that ended here, by status.", finished)
        yield Metric("teamwright_worker_events_total", "counter", "What else happened here, by event.", happened)
        calls = [({"outcome": outcome}, self._calls[outcome]) for outcome in ("returned", "failed")]
        yield Metric("teamwright_calls_total", "counter", "Model requests and tool calls made here.", calls)
        tokens = [({"kind": kind}, self._tokens[kind]) for kind in ("input", "output")]
        yield Metric("teamwright_tokens_total", "counter", "Tokens used here.", tokens)
        yield Metric("teamwright_usd_total", "counter", "Money spent here, in dollars.", [({}, self._usd)])
        usage = resource.getrusage(resource.RUSAGE_SELF)
        seconds = usage.ru_utime + usage.ru_stime
        yield Metric("process_cpu_seconds_total", "counter", "Processor time of this process.", [({}, seconds)])
        yield Metric("process_start_time_seconds", "gauge", "When this process started.", [({}, self._started)])


def _of_transport(traffic: Traffic) -> Iterator[Metric]:
    counts = asdict(traffic)
    losses = counts.pop("losses")
    signals = [({"outcome": outcome}, number) for outcome, number in counts.items()]
    yield Metric("teamwright_live_signals_total", "counter", "Live signals over Redis, by outcome.", signals)
    yield Metric("teamwright_redis_losses_total", "counter", "How often Redis was lost or not found.", [({}, losses)])


def _of_cluster(status: ClusterStatus) -> Iterator[Metric]:
    states = Counter(one.state for one in status.workers)
    workers = [({"state": state}, states[state]) for state in ("ready", "draining", "lost")]
    yield Metric("teamwright_workers", "gauge", "Workers of the cluster, by state.", workers)
    queued = [({"queue": one.name}, one.queued) for one in status.queues]
    yield Metric("teamwright_queue_queued", "gauge", "Runs that wait in a queue.", queued)
    claimed = [({"queue": one.name}, one.claimed) for one in status.queues]
    yield Metric("teamwright_queue_claimed", "gauge", "Runs of a queue that workers drive.", claimed)
    oldest = [({"queue": one.name}, round(one.oldest or 0.0, 3)) for one in status.queues]
    yield Metric("teamwright_queue_oldest_seconds", "gauge", "The age of the run that waits longest.", oldest)
    parked = "Runs that wait for a person, or for a worker that has what they need."
    yield Metric("teamwright_runs_parked", "gauge", parked, [({}, status.parked)])
    flying = [({"model": one.name}, one.in_flight) for one in status.models]
    yield Metric("teamwright_model_in_flight", "gauge", "Calls of a model in flight, over all processes.", flying)
    waiting = [({"model": one.name}, one.waiting) for one in status.models]
    yield Metric("teamwright_model_waiting", "gauge", "Calls of a model that wait for its limits.", waiting)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
