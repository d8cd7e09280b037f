"""What many workers make of one Postgres server, simulated from measured costs: `python -m bench.scale`.

Each machine has one worker that drives many runs. A turn is: wait for the model, work in the process of the worker,
commit. A process has one commit in flight; turns that end meanwhile form the next one. A commit takes a core of the
server for a while, then the next flush of the log, which takes along all commits that have come until it begins. The
costs are those that `python -m bench.cluster commits` prints; the rest are assumptions, which are options here.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

ALONE, GROUPED, GROUP = 280.0, 83.0, 5.1
"""Measured: the CPU time of Postgres for a turn, in µs, in a commit of its own, and in groups of this size."""
PROCESS = 246.0
"""Measured: the CPU time of the worker for a turn, in µs."""
RUN = 4400.0
"""Measured: the CPU time of Postgres for a run of one turn from the queue, in µs, with all that surrounds the turn."""
POLL = 3500.0
"""Measured: the CPU time of Postgres for one look of a worker at its queue, in µs; idle, it looks twice a second."""
POLL_SECONDS, GATHER_SECONDS = 0.5, 0.03
"""How long after a look a worker looks again by itself, and how long after the end of a run."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Times are in seconds."""

    machines: int
    at_once: int
    latency: float
    turns: int
    cores: int
    flush: float
    round_trip: float
    seconds: float

    @property
    def ideal(self) -> float:
        """Turns per second if commits took no time."""
        return self.machines * self.at_once / self.latency


@dataclass(slots=True)
class Outcome:
    """What was simulated."""

    turns: int = 0
    commits: int = 0
    busy: float = 0.0
    waits: list[float] = field(default_factory=list[float])

    def wait(self, share: float) -> float:
        """The time from the end of a turn until it is durable, which this share of the turns does not exceed."""
        ordered = sorted(self.waits)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def commit_seconds(turns: int) -> float:
    """The CPU time of Postgres for a commit of so many turns: a part for the commit, and one for each turn."""
    each = (GROUPED * GROUP - ALONE) / (GROUP - 1)
    return (ALONE - each + each * turns) / 1e6


class Simulation:
    """A simulation by events, in the order of time."""

    def __init__(self, assumed: Assumptions) -> None:
        self._assumed, self._random, self.outcome = assumed, random.Random(SEED), Outcome()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._cores = [0.0] * assumed.cores
        self._flush_ends = 0.0
        self._free = [0.0] * assumed.machines
        self._pending: list[list[float]] = [[] for _ in range(assumed.machines)]
        self._in_flight = [False] * assumed.machines
        self._next_look = [float("inf")] * assumed.machines
        self._flushing: deque[tuple[float, float]] = deque()

    def run(self) -> Outcome:
        """Simulate; the first half of the time is not counted."""
        for machine in range(self._assumed.machines):
            self._look_at(self._random.uniform(0, POLL_SECONDS), machine)
            for _ in range(self._assumed.at_once):
                self._think(0.0, machine)
        while self._events and self._events[0][0] < self._assumed.seconds:
            time, _, happen = heapq.heappop(self._events)
            happen(time)
        return self.outcome

    def _at(self, time: float, happen: Callable[[float], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, happen))

    def _think(self, time: float, machine: int) -> None:
        """Wait for the model, for an exponential time."""
        self._at(time + self._random.expovariate(1 / self._assumed.latency), lambda now: self._answer(now, machine))

    def _answer(self, time: float, machine: int) -> None:
        """The one thread of the worker takes the answer."""
        self._free[machine] = done = max(time, self._free[machine]) + PROCESS / 1e6
        self._at(done, lambda now: self._append(now, time, machine))

    def _append(self, time: float, ended: float, machine: int) -> None:
        self._pending[machine].append(ended)
        if not self._in_flight[machine]:
            self._send(time, machine)

    def _send(self, time: float, machine: int) -> None:
        group, self._pending[machine] = self._pending[machine], []
        self._in_flight[machine] = True
        self._at(time + self._assumed.round_trip / 2, lambda now: self._execute(now, machine, group))

    def _execute(self, time: float, machine: int, group: list[float]) -> None:
        """The first free core executes the statement."""
        done = self._occupy(time, commit_seconds(len(group)))
        self.outcome.commits += time > self._assumed.seconds / 2
        self._at(done, lambda now: self._flush(now, machine, group))

    def _occupy(self, time: float, cost: float) -> float:
        """Take the first free core for so long, and return until when."""
        done = max(time, self._cores[0]) + cost
        heapq.heapreplace(self._cores, done)
        if time > self._assumed.seconds / 2:
            self.outcome.busy += cost
        return done

    def _look_at(self, time: float, machine: int) -> None:
        """Let a worker look for runs then, unless it looks before."""
        if time < self._next_look[machine]:
            self._next_look[machine] = time
            self._at(time, lambda now: self._look(now, machine))

    def _look(self, time: float, machine: int) -> None:
        if time == self._next_look[machine]:  # it has not looked earlier
            self._next_look[machine] = float("inf")
            self._look_at(self._occupy(time, POLL / 1e6) + POLL_SECONDS, machine)

    def _flush(self, time: float, machine: int, group: list[float]) -> None:
        """The log is flushed once for all commits that wait for it."""
        if not self._flushing or self._flushing[-1][0] < time:
            begin = max(time, self._flush_ends)
            self._flush_ends = begin + self._assumed.flush
            self._flushing.append((begin, self._flush_ends))
        durable = self._flushing[-1][1]
        while self._flushing[0][1] < time:
            self._flushing.popleft()
        self._at(durable + self._assumed.round_trip / 2, lambda now: self._done(now, machine, group))

    def _done(self, time: float, machine: int, group: list[float]) -> None:
        self._in_flight[machine] = False
        for ended in group:
            if time > self._assumed.seconds / 2:
                self.outcome.turns += 1
                self.outcome.waits.append(time - ended)
            if self._random.random() < 1 / self._assumed.turns:
                self._occupy(time, RUN / 1e6)
                self._look_at(time + GATHER_SECONDS, machine)
            self._think(time, machine)
        if self._pending[machine]:
            self._send(time, machine)


def row(assumed: Assumptions) -> str:
    """Simulate, and return a row of the table."""
    found, counted = Simulation(assumed).run(), assumed.seconds / 2
    busy = found.busy / counted / assumed.cores
    return (
        f"| {assumed.machines} | {assumed.machines * assumed.at_once:,} | {found.turns / counted:,.0f}"
        f" | {found.turns / counted / assumed.ideal:.0%} | {found.turns / max(found.commits, 1):.1f} | {busy:.0%}"
        f" | {found.wait(0.5) * 1e3:.1f} / {found.wait(0.99) * 1e3:.1f} |"
    )


def main() -> None:
    """Simulate more and more machines, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--machines", type=int, nargs="+", default=[1, 10, 30, 100, 300])
    add("--at-once", type=int, nargs="+", default=[50], help="runs that each worker drives at a time")
    add("--latency", type=float, default=5.0, help="mean seconds of a turn until the model has answered")
    add("--turns", type=int, default=10, help="mean turns of a run")
    add("--cores", type=int, default=8, help="cores of the database server")
    add("--flush-ms", type=float, default=1.0, help="time to flush the log to the disk")
    add("--round-trip-ms", type=float, default=0.5, help="network between worker and database")
    add("--seconds", type=float, default=40.0, help="simulated time")
    chosen = parser.parse_args()
    print(f"Postgres: {commit_seconds(1) * 1e6:.0f} µs of CPU for a commit of one turn, "
          f"{commit_seconds(20) * 1e6:,.0f} for one of 20, {RUN:,.0f} for a run, {POLL:,.0f} for a poll;"
          f" a worker: {PROCESS:.0f} µs a turn")  # fmt: skip
    print(f"{chosen.cores} cores, flush {chosen.flush_ms:g} ms, round trip {chosen.round_trip_ms:g} ms; runs of"
          f" {chosen.turns} turns of {chosen.latency:g} s\n")  # fmt: skip
    print("| machines | runs at once | turns/s | share of the ideal | turns per commit | Postgres CPU"
          " | durable after, p50 / p99 ms |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for at_once in chosen.at_once:
        for machines in chosen.machines:
            assumed = Assumptions(
                machines, at_once, chosen.latency, chosen.turns, chosen.cores, chosen.flush_ms / 1e3,
                chosen.round_trip_ms / 1e3, chosen.seconds,
            )  # fmt: skip
            print(row(assumed), flush=True)


if __name__ == "__main__":
    main()
