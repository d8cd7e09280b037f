"""Keys that steps own: paths or names with wildcards; whether two keys overlap, and which paths a step may write.

`*`, `?` and `[…]` match within one part of a path, and `**` any number of parts. A key whose last part has no wildcard
means a path and everything below it. In doubt, two keys overlap.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

LONGEST_LIST = 1000


class SortedTexts:
    """A sorted collection of strings with search by prefix.

    It consists of short lists, so that an insertion moves few elements, however many there are.
    """

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]

    def add(self, text: str) -> None:
        """Insert a string."""
        place = self._place(text)
        texts = self._lists[place]
        insort(texts, text)
        if len(texts) > LONGEST_LIST:
            half = len(texts) // 2
            self._lists[place : place + 1] = [texts[:half], texts[half:]]

    def beginning_with(self, start: str) -> Iterator[str]:
        """Yield the strings with this prefix, in order."""
        first = self._place(start)
        for place in range(first, len(self._lists)):
            texts = self._lists[place]
            for index in range(bisect_left(texts, start) if place == first else 0, len(texts)):
                if not texts[index].startswith(start):
                    return
                yield texts[index]

    def _place(self, text: str) -> int:
        """The index of the last list that begins before a string, or the first list."""
        return max(bisect_left(self._lists, text, key=lambda texts: texts[0] if texts else "") - 1, 0)


DEEP = "**"
MOST_PARTS = 64
LONGEST_KEY = 1000
MOST_PAIRS = 100_000
"""The most pairs of keys that are compared for overlaps, in a plan and in all teams of a run."""
USUAL_WORK = 100
"""The most work (the product of two weights) that counts as one pair."""
CHARACTERS_PER_PART = 16
"""The characters of a key that weigh as much as one part."""
WILD = frozenset("*?[")
MOST_SHOWN = 8

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owned:
    """The paths that may be written in a scope: those that every owning scope around it owns, else all."""

    levels: tuple[tuple[str, ...], ...] = ()
    _index: tuple[_Level, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self._index) < len(self.levels):
            object.__setattr__(self, "_index", tuple(map(_Level, self.levels)))

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of the innermost owning scope; None where there is none."""
        return self.levels[-1] if self.levels else None

    def may_write(self, path: str) -> bool:
        parts = _parts(path)
        return all(level.covers(parts, _matches) for level in self._index)

    def refusal(self, path: str) -> str:
        """The error message for a path that may not be written."""
        keys = self.keys or ()
        own = f"this step owns {keys_text(keys)}: write there, or" if keys else "this step owns no path:"
        return f"{path!r} is not this step's to write; {own} say in your answer what {path!r} needs."

    def narrowed(self, keys: tuple[str, ...]) -> Owned:
        """Return the ownership within a scope that owns these keys; enclosing scopes without keys do not count."""
        owning = [level for level in self._index if level.keys]
        return Owned((*(level.keys for level in owning), keys), (*owning, _Level(keys)))

    def find_unowned(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are not within what is owned here."""
        owning = [level for level in self._index if level.keys]
        return [key for key in keys if not all(level.covers(_parts(key), _takes_in) for level in owning)]


UNOWNED = Owned()
"""What may be written outside all owning scopes: everything."""


class _Level:
    """The keys of one scope, indexed by prefix; nested scopes share the index."""

    __slots__ = ("_lengths", "_starts", "keys")

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._starts: dict[str, list[Parts]] | None = None
        self._lengths: tuple[int, ...] = ()

    def covers(self, parts: Parts, fits: Callable[[str, str], bool]) -> bool:
        """Whether one of the keys covers all of a path or of another key."""
        if self._starts is None:
            self._starts = {}
            for pattern in dict.fromkeys(map(_pattern, self.keys)):
                self._starts.setdefault(_start(pattern), []).append(pattern)
            self._lengths = tuple(dict.fromkeys(map(len, self._starts)))
        text = "".join([f"{part}/" for part in parts])
        near = (self._starts.get(text[:length], ()) for length in self._lengths)
        return any(_holds(pattern, parts, fits) for patterns in near for pattern in patterns)


def covers(key: str, path: str) -> bool:
    """Whether a key covers this path, which has no wildcards."""
    return _holds(_pattern(key), _parts(path), _matches)


def within(inner: str, outer: str) -> bool:
    """Whether the outer key covers all paths of the inner one; in doubt, False."""
    return _holds(_pattern(outer), _parts(inner), _takes_in)


def overlap(one: str, other: str) -> bool:
    """Whether some path may match both keys."""
    return one == other or _meet(_pattern(one), _pattern(other))


class Overlaps:
    """The overlaps among the keys added so far, found by prefix."""

    __slots__ = ("_keys", "_lengths", "_near", "_starts")

    def __init__(self) -> None:
        self._keys: dict[str, list[str]] = {}
        self._lengths: dict[int, None] = {}
        self._starts = SortedTexts()
        self._near: dict[str, list[str]] = {}

    def overlapping(self, key: str) -> Sequence[str]:
        """Return the key and all others that overlap it; add it first if it is new."""
        return self._near[key] if key in self._near else self.add(key)

    def add(self, key: str) -> Sequence[str]:
        """Add a new key and return it with all others that overlap it."""
        start = _start(_pattern(key))
        near = [other for other in self._candidates(start) if overlap(key, other)]
        for other in near:
            self._near[other].append(key)
        if start not in self._keys:
            self._starts.add(start)
            self._lengths[len(start)] = None
        self._keys.setdefault(start, []).append(key)
        self._near[key] = [key, *near]
        return self._near[key]

    def _candidates(self, start: str) -> Iterator[str]:
        """Yield the keys whose prefix extends this one, or is extended by it."""
        for length in self._lengths:
            if length < len(start):
                yield from self._keys.get(start[:length], ())
        for longer in self._starts.beginning_with(start):
            yield from self._keys[longer]


def key_problem(key: str) -> str | None:
    """Return why a key is invalid, to follow its name in a message; None where it is valid."""
    if not key:
        return "without a name; take it away"
    if len(key) > LONGEST_KEY:
        return f"of {len(key)} characters, and at most {LONGEST_KEY} are possible"
    if len(_parts(key)) > MOST_PARTS:
        return f"of {len(_parts(key))} parts, and at most {MOST_PARTS} are possible"
    return None


def keys_text(keys: Sequence[str]) -> str:
    """Format the first keys for a message."""
    return ", ".join(map(repr, keys[:MOST_SHOWN])) + (" …" if len(keys) > MOST_SHOWN else "")


def wildcards_problem(keys: Sequence[str]) -> str | None:
    """Return a message if wildcards come so early that too many pairs would be compared; None otherwise."""
    if WILD.isdisjoint("".join(keys)) or (pairs := count_pairs(keys)) <= MOST_PAIRS:
        return None
    return (
        f"own {len(keys)} keys with wildcards so early that {pairs} pairs would have to be compared, and {MOST_PAIRS}"
        " are possible (a pair of long keys counts as several); write the folder before the wildcard, as 'src/api/**'"
    )


def count_pairs(keys: Iterable[str]) -> int:
    """Count the pairs of these keys that `Overlaps` would compare, without comparing any.

    Comparing two keys takes time in proportion to the product of their lengths, so pairs of long keys count as several.
    """
    pairs = work = weight_around = 0
    around: list[tuple[str, int]] = []
    for start, weight in sorted(map(_start_and_weight, dict.fromkeys(keys))):
        while around and not start.startswith(around[-1][0]):
            weight_around -= around.pop()[1]
        pairs += len(around)
        work += weight * weight_around
        around.append((start, weight))
        weight_around += weight
    return max(pairs, work // USUAL_WORK)


def _start_and_weight(key: str) -> tuple[str, int]:
    pattern = _pattern(key)
    return _start(pattern), len(pattern) + len(key) // CHARACTERS_PER_PART


def _parts(key: str) -> Parts:
    return tuple(part for part in key.split("/") if part not in ("", "."))


@lru_cache(maxsize=20_000)
def _pattern(key: str) -> Parts:
    """The parts of a key, followed by `**` where its last part has no wildcard."""
    parts = _parts(key)
    return (*parts, DEEP) if parts and not _is_wild(parts[-1]) else parts


def _is_wild(part: str) -> bool:
    return not WILD.isdisjoint(part)


def _start(pattern: Parts) -> str:
    """The common prefix of all paths that match a pattern, with a slash after each part.

    Two keys overlap only where the prefix of one begins with that of the other.
    """
    start = ""
    for part in pattern:
        if _is_wild(part):
            return start + _ends(part)[0]
        start += part + "/"
    return start


def _holds(outer: Parts, inner: Parts, fits: Callable[[str, str], bool]) -> bool:
    """Whether a pattern covers all of another, part by part from the end."""
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
    """Whether some path matches both patterns, part by part from the end."""
    if one and other and DEEP not in (one[0], other[0]) and not _parts_meet(one[0], other[0]):
        return False  # fast path for most pairs
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
    """Whether some name may match both parts; of two with wildcards only prefixes and suffixes are compared."""
    if one == other:
        return True
    if not _is_wild(one) or not _is_wild(other):
        return fnmatchcase(one, other) or fnmatchcase(other, one)
    (head, tail), (other_head, other_tail) = _ends(one), _ends(other)
    heads_meet = head.startswith(other_head) or other_head.startswith(head)
    return heads_meet and (tail.endswith(other_tail) or other_tail.endswith(tail))


@lru_cache(maxsize=20_000)
def _ends(part: str) -> tuple[str, str]:
    """The prefix before the first wildcard of a part, and the suffix after the last."""
    first = min(part.find(sign) for sign in WILD if sign in part)
    return part[:first], part[max(part.rfind(sign) for sign in "*?]") + 1 :]
