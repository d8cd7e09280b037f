"""Keys that overlap without being the same, made equal: for those who only ask whether two steps share a key."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from teamwright.values.owned_paths import WILD, Overlaps

UNTIDY = ("//", "./", "/\n")
"""What a path may be spelt with that changes nothing about it, where each stands in a line of its own."""


def contended(owns: Sequence[Collection[str]]) -> Sequence[Collection[str]]:
    """Keys such that two steps share one exactly where keys that they own overlap."""
    known = set[str]().union(*owns)
    if _stand_apart(known):
        return owns
    overlaps = Overlaps()
    for key in sorted(known):
        overlaps.overlapping(key)
    shared = {key: _shared(key, overlaps) for key in known}
    return [set[str]().union(*[shared[key] for key in keys]) for keys in owns]


def _stand_apart(keys: Set[str]) -> bool:
    """Whether it can be seen at a glance that no two of the keys overlap: no wildcards, and none lies below another."""
    text = "\n".join((*keys, ""))
    if any(sign in text for sign in (*WILD, *UNTIDY)):
        return False
    for key in keys:
        end = key.rfind("/")
        while end >= 0:
            if key[:end] in keys:
                return False
            end = key.rfind("/", 0, end)
    return True


def _shared(key: str, overlaps: Overlaps) -> list[str]:
    """The key itself, and for each that overlaps it one that only these two have."""
    return [key if other == key else "\0".join(sorted((key, other))) for other in overlaps.overlapping(key)]
