"""Divides many simulated runs over processes where that pays. What comes back is the same either way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import NamedTuple

import msgspec

from teamwright.errors import UsageError
from teamwright.lab.simulation.agents import Cast, Learnt
from teamwright.lab.simulation.topologies import in_topology
from teamwright.lab.simulation.trials import OWN, Play, SimulatedRun, declared_team
from teamwright.planning.topology.profiles import topology_named
from teamwright.values.limits.limits import Limits
from teamwright.values.models import Value
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.simulation import Simulation

WORTH_A_PROCESS = 1000
"""Runs that take longer than a process needs to start."""
PIECE = 100
"""Runs that are handed to a process at once."""
TELL_EVERY = 10

Progress = Callable[[int, int], None]
"""Told how many of how many runs are done."""


class Order(Value):
    """A play as data, so that another process can put it on."""

    source: Source
    shape: str
    task: str
    seed: int
    declared: dict[str, Simulation]
    learnt: Learnt
    limits: Limits | None = None

    def play(self) -> Play:
        """The play, made anew."""
        team = declared_team(self.source)
        if self.shape != OWN:
            team = in_topology(team, topology_named(self.shape))
        return Play(team, self.task, self.seed, Cast(self.declared, self.learnt), self.limits)


class Piece(NamedTuple):
    """Some runs of one shape."""

    shape: str
    numbers: range


def simulated_runs(
    plays: Sequence[Play], shapes: Sequence[str], runs: int, jobs: int | None, progress: Progress | None
) -> dict[str, list[SimulatedRun]]:
    """The runs of every shape, in order."""
    total = runs * len(plays)
    tell = progress or _nobody
    orders = _orders(plays, shapes)
    width = min(jobs or os.cpu_count() or 1, total // WORTH_A_PROCESS if jobs is None else total)
    if width <= 1 or orders is None:
        return _here(plays, shapes, runs, tell)
    try:
        return _side_by_side(orders, runs, width, tell)
    except BrokenProcessPool as error:
        raise UsageError(
            "A process of the simulation ended before its work was done: let one do it all (jobs=1, or --jobs 1); a "
            'script that asks for several needs its own statements below `if __name__ == "__main__":`.'
        ) from error


def _here(plays: Sequence[Play], shapes: Sequence[str], runs: int, tell: Progress) -> dict[str, list[SimulatedRun]]:
    found: dict[str, list[SimulatedRun]] = {shape: [] for shape in shapes}
    done, total = 0, runs * len(plays)
    for shape, play in zip(shapes, plays, strict=True):
        for one in play.runs(range(runs)):
            found[shape].append(one)
            done += 1
            if not done % TELL_EVERY or done == total:
                tell(done, total)
    return found


def _side_by_side(orders: dict[str, Order], runs: int, width: int, tell: Progress) -> dict[str, list[SimulatedRun]]:
    pieces = [
        Piece(shape, range(first, min(runs, first + PIECE))) for shape in orders for first in range(0, runs, PIECE)
    ]
    found: dict[Piece, list[SimulatedRun]] = {}
    done, total = 0, runs * len(orders)
    with ProcessPoolExecutor(width, mp_context=get_context("spawn")) as pool:
        texts = {shape: order.model_dump_json() for shape, order in orders.items()}
        started: dict[Future[bytes], Piece] = {
            pool.submit(_put_on, texts[piece.shape], piece.numbers.start, piece.numbers.stop): piece for piece in pieces
        }
        try:
            for future in as_completed(started):
                piece = started[future]
                found[piece] = msgspec.json.decode(future.result(), type=list[SimulatedRun])
                done += len(piece.numbers)
                tell(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {shape: list(_in_order(shape, pieces, found)) for shape in orders}


def _in_order(shape: str, pieces: Sequence[Piece], found: dict[Piece, list[SimulatedRun]]) -> Iterator[SimulatedRun]:
    for piece in pieces:
        if piece.shape == shape:
            yield from found[piece]


def _put_on(order: str, first: int, stop: int) -> bytes:
    """Simulate some runs in a process of their own."""
    play = Order.model_validate_json(order).play()
    return msgspec.json.encode(list(play.runs(range(first, stop))))


def _orders(plays: Sequence[Play], shapes: Sequence[str]) -> dict[str, Order] | None:
    """The plays as data; nothing where a team was made in Python, which no other process can make again."""
    orders: dict[str, Order] = {}
    for shape, play in zip(shapes, plays, strict=True):
        source = plays[0].team.declared
        if source is None:
            return None
        orders[shape] = Order(
            source=source,
            shape=shape,
            task=play.task,
            seed=play.seed,
            declared=dict(play.cast.declared),
            learnt=play.cast.learnt,
            limits=play.limits,
        )
    return orders


def _nobody(done: int, total: int) -> None:
    """Tell nobody."""
