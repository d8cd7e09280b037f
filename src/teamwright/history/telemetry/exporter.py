"""Sends the spans of live runs to a receiver, from a thread of its own: no run is slowed, held up or failed by it; and
counts metrics of a process that drives runs, in the text format of Prometheus.

What it can't keep or send it gives up, and says so once. Nothing is lost by that: the journal has every run, and
`teamwright runs export` sends it later, with the same ids.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import uniform
from threading import Event as Flag, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio

from teamwright.errors import JournalError, UsageError
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.telemetry.otlp import wants_content
from teamwright.history.telemetry.run_spans import SpanFold
from teamwright.history.telemetry.spans import Span, bodies_needed, with_content
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunEnded
from teamwright.values.text.display import error_text

if TYPE_CHECKING:
    from teamwright.history.telemetry.otlp import Receiver, ReceiverResponse
    from teamwright.journal.protocol import Journal


T = TypeVar("T")
LOG = logging.getLogger("teamwright")
MOST_EVENTS, MOST_SPANS = 50_000, 20_000
"""How many events wait to be folded, and spans to be sent; a run that would add more is not sent."""
BATCH = 512
LINGER_SECONDS = 1.0
"""How long the first event of a batch waits for more."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds until spans are sent again; each wait is twice the one before."""
FLUSH_SECONDS = 3.0
"""How long the end of a program may wait for what is left."""
READ_SECONDS = 10.0
LATER = "teamwright runs export RUN --out URL"
BEHIND = f"Telemetry can't keep up; runs that it leaves out can be sent later with  {LATER}"


class Exporter:
    """Exports the runs whose events it observes. `sent` and `lost` count spans."""

    def __init__(self, endpoint: str, journal: Journal) -> None:
        self._endpoint, self._journal = endpoint, journal
        self._loop = asyncio.get_running_loop()
        self._thread: Thread | None = None
        self._receiver: Receiver | None = None
        self._events: deque[Event] = deque()
        self._has_events, self._stopping = Flag(), Flag()
        self._stops_at = float("inf")
        self._given_up: set[str] = set()
        self._unreadable: set[str] = set()
        self._folds: dict[str, SpanFold] = {}
        self._spans: deque[Span] = deque()
        self._failures, self._next_try = 0, 0.0
        self._is_off, self._has_spoken = False, False
        self._has_content = wants_content()
        self.sent = self.lost = 0

    def observe(self, item: Event | AnyDelta) -> None:
        """Take an event; a listener of a bus. It only notes it."""
        if self._is_off or not isinstance(item, Event) or item.run_id in self._given_up:
            return
        if len(self._events) >= MOST_EVENTS:
            self._given_up.add(item.run_id)
            return
        self._events.append(item)
        if not self._has_events.is_set():
            self._has_events.set()
        if self._thread is None:
            self._start()

    async def close(self) -> None:
        """Send what is left, for a bounded time."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stops_at = monotonic() + FLUSH_SECONDS
        self._stopping.set()
        self._has_events.set()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, FLUSH_SECONDS + 0.5)
        if thread.is_alive():
            self._is_off = True
            self._say("does not answer in time")

    def _start(self) -> None:
        self._thread = Thread(target=self._work, name="teamwright-telemetry", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        """Fold and send until the exporter is closed."""
        try:
            from teamwright.history.telemetry.otlp import Receiver

            self._receiver = Receiver.at(self._endpoint)
            while not self._stopping.is_set():
                self._has_events.wait(None if not self._spans else LINGER_SECONDS)
                self._stopping.wait(LINGER_SECONDS)
                self._has_events.clear()
                self._fold_events()
                self._send()
            self._fold_events()
            self._flush()
        except UsageError as error:
            self._turn_off(str(error))
        except Exception as error:  # noqa: BLE001 - telemetry never fails a run, whatever is wrong with it
            self._turn_off(f"it failed: {error_text(error)}")

    def _turn_off(self, why: str) -> None:
        self._is_off = True
        self._events.clear()
        self._warn(f"No telemetry is sent. {why}")

    def _fold_events(self) -> None:
        while self._events:
            event = self._events.popleft()
            if event.run_id not in self._given_up and event.run_id not in self._unreadable:
                self._fold(event)
            if len(self._spans) >= BATCH and not self._stopping.is_set():
                self._send()
        if self._given_up:
            for run_id in [run_id for run_id in self._folds if run_id in self._given_up]:
                del self._folds[run_id]
            self._warn(BEHIND)

    def _fold(self, event: Event) -> None:
        """Fold an event, with those before it that were recorded by another driver."""
        fold = self._folds.get(event.run_id)
        if fold is None:
            fold = self._folds[event.run_id] = SpanFold()
        try:
            if event.number > fold.number + 1:
                self._catch_up(event.run_id, fold, event.number)
            if event.number > fold.number:
                fold.apply(event)
                self._keep(fold.take())
        except JournalError:  # it was deleted meanwhile, or can't be read; others can
            self._unreadable.add(event.run_id)
            del self._folds[event.run_id]
            return
        except (TimeoutError, RuntimeError):  # the loop is too busy, or closed
            self._given_up.add(event.run_id)
            return
        if event.kind in ("run.ended", "run.paused", "run.interrupted", "run.queued"):
            del self._folds[event.run_id]

    def _catch_up(self, run_id: str, fold: SpanFold, number: int) -> None:
        """Fold the recorded events up to a number; spans are left out that their driver had time to send."""
        is_new = fold.number == 0
        for event in self._call(self._journal.read(run_id, fold.number)):
            if event.number < number:
                fold.apply(event)
        if fold.number != number - 1:
            raise JournalError(f"The record of run {run_id!r} has no event {number - 1}.")
        spans = fold.take()
        self._keep(spans[fold.settled if is_new else 0 :])

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the event loop of the runs do some work, and return its result."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise
        return future.result(READ_SECONDS)

    def _keep(self, spans: list[Span]) -> None:
        """Add spans to those that are to be sent, with what was said if that is asked for."""
        if self._has_content and spans:
            bodies = self._call(self._journal.bodies(bodies_needed(spans)))
            spans = with_content(spans, RecordedBodies(bodies))
        self._spans.extend(spans)
        if (over := len(self._spans) - MOST_SPANS) > 0:
            for _ in range(over):
                self._spans.popleft()
            self._lose(over)
            self._warn(BEHIND)

    def _send(self, timeout: Callable[[], float] | None = None) -> ReceiverResponse | None:
        """Send batches until one is to be sent again; returns the response to that one."""
        from teamwright.history.telemetry.otlp import TIMEOUT, encode

        assert self._receiver is not None
        while self._spans and (timeout is not None or monotonic() >= self._next_try):
            batch = list(islice(self._spans, BATCH))
            response = self._receiver.send(encode(batch), TIMEOUT if timeout is None else timeout())
            if response.problem is not None:
                self._say(response.problem)
            if response.retry:
                wait = min(LONGEST_WAIT, FIRST_WAIT * 2**self._failures)
                self._failures = min(self._failures + 1, 10)
                self._next_try = monotonic() + max(min(response.retry_after, LONGEST_WAIT), wait * uniform(0.5, 1.0))
                return response
            self._failures = 0
            for _ in batch:
                self._spans.popleft()
            refused = len(batch) if response.problem and not response.rejected else response.rejected
            self.sent += len(batch) - refused
            self._lose(refused)
        return None

    def _flush(self) -> None:
        """Send what is left; a receiver that answers that it is busy is asked again as long as there is time."""
        while self._spans and (left := self._stops_at - monotonic()) > 0:
            response = self._send(lambda: max(0.1, self._stops_at - monotonic()))
            if response is None or not response.answered:
                break
            sleep(min(left, max(0.25, response.retry_after)))
        self._lose(len(self._spans))
        self._spans.clear()

    def _lose(self, spans: int) -> None:
        self.lost += spans

    def _say(self, problem: str) -> None:
        place = self._receiver.place if self._receiver is not None else self._endpoint
        self._warn(f"The receiver of telemetry at {place} {problem}; runs go on, and can be sent later with  {LATER}")

    def _warn(self, text: str) -> None:
        if not self._has_spoken:
            self._has_spoken = True
            LOG.warning(text)


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
