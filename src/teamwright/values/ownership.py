"""Keys that steps own: paths or names, with wildcards; which of them could mean one thing, and who may write where.

`*`, `?` and `[…]` match within one part of a path and `**` any number of parts. A key whose last part has no wildcard
stands for a path and for all that lies below it. In doubt two keys meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

DEEP = "**"
MOST_PARTS = 64
LONGEST_KEY = 1000
MOST_PAIRS = 100_000
"""How many pairs of keys are compared at most, to see whether they overlap."""
USUAL_WORK = 100
"""The work of comparing two keys that still counts as one pair: the product of their weights."""
CHARACTERS_PER_PART = 16
"""How many characters of a key weigh as much as one of its parts."""
WILD = frozenset("*?[")
MOST_SHOWN = 8

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owned:
    """What may be written within a scope: what every owning scope around it owns; where none does, everything."""

    levels: tuple[tuple[str, ...], ...] = ()

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of the nearest owning scope; None where there is none."""
        return self.levels[-1] if self.levels else None

    def may_write(self, path: str) -> bool:
        """Whether a path lies within these keys."""
        return all(any(covers(key, path) for key in keys) for keys in self.levels)

    def refusal(self, path: str) -> str:
        """Why a path may not be written, in words that whoever wanted to can act on."""
        keys = self.keys or ()
        shown = ", ".join(map(repr, keys[:MOST_SHOWN])) + (" …" if len(keys) > MOST_SHOWN else "")
        own = f"this step owns {shown}: write there, or" if keys else "this step owns no path:"
        return f"{path!r} is not this step's to write; {own} say in your answer what {path!r} needs."

    def narrowed(self, keys: tuple[str, ...]) -> Owned:
        """What is owned within a scope that owns these keys; one that owned none stands in nobody's way."""
        return Owned((*(level for level in self.levels if level), keys))

    def beyond(self, keys: Sequence[str]) -> list[str]:
        """Those of the keys that do not lie within what is owned here."""
        levels = [level for level in self.levels if level]
        return [key for key in keys if not all(any(within(key, outer) for outer in level) for level in levels)]


def covers(key: str, path: str) -> bool:
    """Whether a key stands for this path, which has no wildcards."""
    return _holds(_pattern(key), _parts(path), _matches)


def within(inner: str, outer: str) -> bool:
    """Whether everything that one key stands for is covered by another; in doubt it is not."""
    return _holds(_pattern(outer), _parts(inner), _takes_in)


def overlap(one: str, other: str) -> bool:
    """Whether two keys could mean one thing."""
    return one == other or _meet(_pattern(one), _pattern(other))


class Overlaps:
    """Which of the keys seen so far overlap, found by the parts before their first wildcard."""

    __slots__ = ("_near", "_root")

    def __init__(self) -> None:
        self._root = _Place()
        self._near: dict[str, list[str]] = {}

    def of(self, key: str) -> Sequence[str]:
        """The key itself, and all others seen so far that overlap it."""
        return self._near[key] if key in self._near else self.add(key)

    def add(self, key: str) -> Sequence[str]:
        """See a key for the first time."""
        place = self._root
        near = list[str]()
        for part in _literal(_pattern(key)):
            near += place.keys
            place = place.inner.setdefault(part, _Place())
        near += place.below()
        near = [other for other in near if overlap(key, other)]
        for other in near:
            self._near[other].append(key)
        place.keys.append(key)
        self._near[key] = [key, *near]
        return self._near[key]


def key_problem(key: str) -> str | None:
    """What is wrong with a key that a step owns, in words that follow its name."""
    if not key:
        return "without a name; take it away"
    if len(key) > LONGEST_KEY:
        return f"of {len(key)} characters, and at most {LONGEST_KEY} are possible"
    if len(_parts(key)) > MOST_PARTS:
        return f"of {len(_parts(key))} parts, and at most {MOST_PARTS} are possible"
    return None


def count_pairs(keys: Iterable[str]) -> int:
    """Count the pairs of these keys that `Overlaps` would compare, without comparing any.

    Comparing two keys takes time in proportion to the product of their lengths, so pairs of long keys count as several.
    """
    pairs, work, root = 0, 0, _KeyCount()
    for key in dict.fromkeys(keys):
        pattern = _pattern(key)
        weight = len(pattern) + len(key) // CHARACTERS_PER_PART
        here, path = root, [root]
        for part in _literal(pattern):
            pairs += here.keys
            work += weight * here.weight
            here = here.inner.setdefault(part, _KeyCount())
            path.append(here)
        pairs += here.below
        work += weight * here.weight_below
        here.keys += 1
        here.weight += weight
        for one in path:
            one.below += 1
            one.weight_below += weight
    return max(pairs, work // USUAL_WORK)


@dataclass(slots=True)
class _KeyCount:
    """How many keys end at a place, how many there or below it, and what each of these groups weighs."""

    keys: int = 0
    below: int = 0
    weight: int = 0
    weight_below: int = 0
    inner: dict[str, _KeyCount] = field(default_factory=dict[str, "_KeyCount"])


@dataclass(slots=True)
class _Place:
    """A folder of keys: those that end here, or go on from here with a wildcard."""

    keys: list[str] = field(default_factory=list[str])
    inner: dict[str, _Place] = field(default_factory=dict[str, "_Place"])

    def below(self) -> Iterator[str]:
        """All keys from here on."""
        left: list[_Place] = [self]
        while left:
            place = left.pop()
            yield from place.keys
            left.extend(place.inner.values())


def _parts(key: str) -> Parts:
    return tuple(part for part in key.split("/") if part not in ("", "."))


@lru_cache(maxsize=20_000)
def _pattern(key: str) -> Parts:
    """The parts of a key, with all that lies below it where it names something outright."""
    parts = _parts(key)
    return (*parts, DEEP) if parts and not _is_wild(parts[-1]) else parts


def _is_wild(part: str) -> bool:
    return not WILD.isdisjoint(part)


def _literal(pattern: Parts) -> Iterator[str]:
    for part in pattern:
        if _is_wild(part):
            return
        yield part


def _holds(outer: Parts, inner: Parts, fits: Callable[[str, str], bool]) -> bool:
    """Whether a pattern takes in all of another, part by part from the end."""
    row = [False] * len(inner) + [True]
    for part in reversed(outer):
        if part == DEEP:
            for place in range(len(inner) - 1, -1, -1):
                row[place] = row[place] or row[place + 1]
        else:
            row = [fits(part, one) and row[place + 1] for place, one in enumerate(inner)] + [False]
    return row[0]


def _matches(part: str, name: str) -> bool:
    return part == name or fnmatchcase(name, part)


def _takes_in(part: str, inner: str) -> bool:
    return part == inner or (inner != DEEP and (part == "*" or (not _is_wild(inner) and fnmatchcase(inner, part))))


def _meet(one: Parts, other: Parts) -> bool:
    """Whether some path fits both patterns, part by part from the end."""
    row = [True] * (len(other) + 1)
    for place in range(len(other) - 1, -1, -1):
        row[place] = other[place] == DEEP and row[place + 1]
    for part in reversed(one):
        before, row = row, [part == DEEP and row[-1]] * (len(other) + 1)
        for place in range(len(other) - 1, -1, -1):
            if part == DEEP or other[place] == DEEP:
                row[place] = before[place] or row[place + 1]
            else:
                row[place] = before[place + 1] and _parts_meet(part, other[place])
    return row[0]


def _parts_meet(one: str, other: str) -> bool:
    """Whether some name fits both; of two with wildcards only their beginnings and ends are compared."""
    if one == other:
        return True
    if not _is_wild(one) or not _is_wild(other):
        return fnmatchcase(one, other) or fnmatchcase(other, one)
    (head, tail), (other_head, other_tail) = _ends(one), _ends(other)
    heads_meet = head.startswith(other_head) or other_head.startswith(head)
    return heads_meet and (tail.endswith(other_tail) or other_tail.endswith(tail))


@lru_cache(maxsize=20_000)
def _ends(part: str) -> tuple[str, str]:
    """What stands before the first wildcard of a part, and after the last."""
    first = min(part.find(sign) for sign in WILD if sign in part)
    return part[:first], part[max(part.rfind(sign) for sign in "*?]") + 1 :]
