"""Distributes simulated runs over worker processes if that is faster. The results are the same either way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import NamedTuple

import msgspec

from teamwright.errors import UsageError
from teamwright.lab.simulation.agents import Learnt, Simulator
from teamwright.lab.simulation.topologies import in_topology
from teamwright.lab.simulation.trials import OWN, SimulatedRun, Trial, declared_team
from teamwright.lab.topology.profiles import topology_named
from teamwright.values.limits.limits import Limits
from teamwright.values.models import Value
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.simulation import Simulation

WORTH_A_PROCESS = 1000
"""So many runs take longer than the start of a process."""
CHUNK = 100
"""Runs per task of the pool."""
REPORT_EVERY = 10

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the total."""


class TrialSpec(Value):
    """A trial as data, so that it can be sent to a worker process."""

    source: Source
    shape: str
    task: str
    seed: int
    declared: dict[str, Simulation]
    learnt: Learnt
    limits: Limits | None = None

    def build(self) -> Trial:
        """Build the trial in this process."""
        team = declared_team(self.source)
        if self.shape != OWN:
            team = in_topology(team, topology_named(self.shape))
        return Trial(team, self.task, self.seed, Simulator(self.declared, self.learnt), self.limits)


class Chunk(NamedTuple):
    """A range of runs of one topology."""

    shape: str
    numbers: range


def simulated_runs(
    trials: Sequence[Trial], shapes: Sequence[str], runs: int, jobs: int | None, progress: Progress | None
) -> dict[str, list[SimulatedRun]]:
    """Simulate the runs of every trial, and return them in order by the name of its topology."""
    total = runs * len(trials)
    report = progress or _ignore
    specs = _specs(trials, shapes)
    width = min(jobs or os.cpu_count() or 1, total // WORTH_A_PROCESS if jobs is None else total)
    if width <= 1 or specs is None:
        return _run_here(trials, shapes, runs, report)
    try:
        return _run_in_pool(specs, runs, width, report)
    except BrokenProcessPool as error:
        raise UsageError(
            "A worker process of the simulation ended early: use a single process (jobs=1, or --jobs 1); a script that"
            ' uses several needs its own statements below `if __name__ == "__main__":`.'
        ) from error


def _run_here(
    trials: Sequence[Trial], shapes: Sequence[str], runs: int, report: Progress
) -> dict[str, list[SimulatedRun]]:
    found: dict[str, list[SimulatedRun]] = {shape: [] for shape in shapes}
    done, total = 0, runs * len(trials)
    for shape, trial in zip(shapes, trials, strict=True):
        for one in trial.runs(range(runs)):
            found[shape].append(one)
            done += 1
            if not done % REPORT_EVERY or done == total:
                report(done, total)
    return found


def _run_in_pool(specs: dict[str, TrialSpec], runs: int, width: int, report: Progress) -> dict[str, list[SimulatedRun]]:
    chunks = [
        Chunk(shape, range(first, min(runs, first + CHUNK))) for shape in specs for first in range(0, runs, CHUNK)
    ]
    found: dict[Chunk, list[SimulatedRun]] = {}
    done, total = 0, runs * len(specs)
    with ProcessPoolExecutor(width, mp_context=get_context("spawn")) as pool:
        texts = {shape: spec.model_dump_json() for shape, spec in specs.items()}
        started: dict[Future[bytes], Chunk] = {
            pool.submit(_run_chunk, texts[chunk.shape], chunk.numbers.start, chunk.numbers.stop): chunk
            for chunk in chunks
        }
        try:
            for future in as_completed(started):
                chunk = started[future]
                found[chunk] = msgspec.json.decode(future.result(), type=list[SimulatedRun])
                done += len(chunk.numbers)
                report(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {shape: list(_in_order(shape, chunks, found)) for shape in specs}


def _in_order(shape: str, chunks: Sequence[Chunk], found: dict[Chunk, list[SimulatedRun]]) -> Iterator[SimulatedRun]:
    for chunk in chunks:
        if chunk.shape == shape:
            yield from found[chunk]


def _run_chunk(spec: str, first: int, stop: int) -> bytes:
    """Simulate a range of runs in a worker process."""
    trial = TrialSpec.model_validate_json(spec).build()
    return msgspec.json.encode(list(trial.runs(range(first, stop))))


def _specs(trials: Sequence[Trial], shapes: Sequence[str]) -> dict[str, TrialSpec] | None:
    """The trials as data; None for a team made in Python, which a worker process could not build."""
    specs: dict[str, TrialSpec] = {}
    for shape, trial in zip(shapes, trials, strict=True):
        source = trials[0].team.declared
        if source is None:
            return None
        specs[shape] = TrialSpec(
            source=source,
            shape=shape,
            task=trial.task,
            seed=trial.seed,
            declared=dict(trial.simulator.declared),
            learnt=trial.simulator.learnt,
            limits=trial.limits,
        )
    return specs


def _ignore(done: int, total: int) -> None:
    """Report nothing."""
