"""Normalizes owned keys, so that two steps conflict exactly if they share a key."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from teamwright.values.owned_paths import WILD, Overlaps

UNTIDY = ("//", "./", "/\n")
"""Redundant parts of a path, in a text with one path per line."""


def conflict_keys(owns: Sequence[Collection[str]]) -> Sequence[Collection[str]]:
    """Return keys such that two steps share one exactly if keys that they own overlap."""
    known = set[str]().union(*owns)
    if _are_disjoint(known):
        return owns
    overlaps = Overlaps()
    for key in sorted(known):
        overlaps.overlapping(key)
    shared = {key: _pairwise_keys(key, overlaps) for key in known}
    return [set[str]().union(*[shared[key] for key in keys]) for keys in owns]


def _are_disjoint(keys: Set[str]) -> bool:
    """Whether the keys trivially do not overlap: no wildcards, and none is a path below another."""
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


def _pairwise_keys(key: str, overlaps: Overlaps) -> list[str]:
    """Return the key itself, and for each key that overlaps it one that only these two share."""
    return [key if other == key else "\0".join(sorted((key, other))) for other in overlaps.overlapping(key)]
