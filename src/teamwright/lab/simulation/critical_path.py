"""The critical path of a run: the chain of turns, each started after the one before it, that ends with the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from teamwright.history.kpis import TurnFigures
from teamwright.values.key import SEPARATOR, key_segments, without_attempts
from teamwright.values.models import Record

SAME_INSTANT = 1e-6
INSIDE = frozenset(("work", "step"))
"""Last parts of a key that add nothing to the part before them."""


class PathStep(Record, frozen=True):
    """A step on the critical path, and how long it took."""

    step: str
    member: str
    seconds: float


class Bottleneck(Record, frozen=True):
    """The step with the most time on critical paths: its average, its share of all time, and its share of runs."""

    step: str
    member: str
    seconds: float
    share_of_time: float
    share_of_runs: float


class CommonPath(Record, frozen=True):
    """The most common critical path, with average times; `share` is the share of runs that have it."""

    steps: tuple[PathStep, ...]
    share: float


def critical_path(turns: Iterable[TurnFigures]) -> tuple[PathStep, ...]:
    """Walk back from the turn that ended last, each time to the latest turn that ended before that one began."""
    ended = [turn for turn in turns if turn.ended is not None]
    ended.sort(key=lambda turn: (-(turn.ended or 0.0), turn.began))
    path: list[PathStep] = []
    until = float("inf")
    for turn in ended:
        if turn.ended is not None and turn.ended <= until + SAME_INSTANT:
            path.append(PathStep(step=step_name(turn.key), member=turn.member, seconds=turn.ended - turn.began))
            until = turn.began
    return tuple(reversed(path))


def step_name(key: str) -> str:
    """The name of the step that a turn belongs to: its key without the team, attempts and redundant parts."""
    parts = [unquote(part) for part in key_segments(without_attempts(key))[1:]]
    while len(parts) > 1 and parts[-1] in INSIDE:
        parts.pop()
    return SEPARATOR.join(parts) or key


def common_path(paths: Sequence[Sequence[PathStep]]) -> CommonPath:
    """The path that most runs have; the first of equally common ones."""
    names = Counter(tuple((one.step, one.member) for one in path) for path in paths)
    if not names:
        return CommonPath(steps=(), share=0.0)
    most, many = names.most_common(1)[0]
    same = [path for path in paths if tuple((one.step, one.member) for one in path) == most]
    steps = [
        PathStep(step=step, member=member, seconds=round(sum(path[place].seconds for path in same) / many, 2))
        for place, (step, member) in enumerate(most)
    ]
    return CommonPath(steps=tuple(steps), share=round(many / len(paths), 4))


def bottleneck(paths: Sequence[Sequence[PathStep]], seconds: float) -> Bottleneck | None:
    """The step with the most time on critical paths; `seconds` is the total time of all runs."""
    held: Counter[tuple[str, str]] = Counter()
    found_in: Counter[tuple[str, str]] = Counter()
    for path in paths:
        for one in path:
            held[one.step, one.member] += one.seconds  # pyright: ignore[reportArgumentType] - a counter of seconds
        found_in.update({(one.step, one.member) for one in path})
    if not held:
        return None
    place = max(held, key=lambda one: held[one])
    return Bottleneck(
        step=place[0],
        member=place[1],
        seconds=round(held[place] / found_in[place], 2),
        share_of_time=round(held[place] / seconds, 4) if seconds else 0.0,
        share_of_runs=round(found_in[place] / len(paths), 4),
    )
