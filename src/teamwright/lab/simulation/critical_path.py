"""What held a run up: the chain of turns, each begun when the one before it had ended, that leads to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from teamwright.history.kpis import TurnFigures
from teamwright.values.key import SEPARATOR, key_segments, without_attempts
from teamwright.values.models import Record

SAME_INSTANT = 1e-6
INSIDE = frozenset(("work", "step"))
"""Names that a place ends with and that say nothing beside the place's own."""


class PathStep(Record, frozen=True):
    """A place on the way, and how long the run was held up there."""

    step: str
    member: str
    seconds: float


class Bottleneck(Record, frozen=True):
    """The place that holds runs up the longest: on average, as a share of their time, and in what share of them."""

    step: str
    member: str
    seconds: float
    share_of_time: float
    share_of_runs: float


class CommonPath(Record, frozen=True):
    """The critical path that most runs have; its times are their average, and `share` is how many take it."""

    steps: tuple[PathStep, ...]
    share: float


def critical_path(turns: Iterable[TurnFigures]) -> tuple[PathStep, ...]:
    """From the turn that ended last back to the first, always over the one that the next had to wait for."""
    ended = [turn for turn in turns if turn.ended is not None]
    ended.sort(key=lambda turn: (-(turn.ended or 0.0), turn.began))
    path: list[PathStep] = []
    until = float("inf")
    for turn in ended:
        if turn.ended is not None and turn.ended <= until + SAME_INSTANT:
            path.append(PathStep(step=place_of(turn.key), member=turn.member, seconds=turn.ended - turn.began))
            until = turn.began
    return tuple(reversed(path))


def place_of(key: str) -> str:
    """Where in a team a turn was taken, in words: without the team, further attempts and what says nothing."""
    parts = [unquote(part) for part in key_segments(without_attempts(key))[1:]]
    while len(parts) > 1 and parts[-1] in INSIDE:
        parts.pop()
    return SEPARATOR.join(parts) or key


def common_path(paths: Sequence[Sequence[PathStep]]) -> CommonPath:
    """The path that most runs have; of equally common ones the first."""
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
    """The place with the most time on critical paths; `seconds` is what all runs took together."""
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
