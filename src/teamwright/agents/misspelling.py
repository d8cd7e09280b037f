"""Finds attributes that were meant for a contract and are spelt otherwise, so that no setting is lost by a typo.

The rule leaves ordinary attributes of a class alone: a name must be nearly the same as one of the contract, and the
value must be one that the contract takes there. A `limit` that is a number, or a `critic` that is an agent, is fine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property

PACKAGE = "teamwright."
ALIKE = 0.88
"""How alike two names must be, by `difflib`: `limit` and `limts` are to `limits`, `prescription` is not to another."""
OTHER_FORMS = {"retries": "retry", "retry_policy": "retry", "policies": "policy", "fallbacks": "fallback"}
"""Forms of a name that `difflib` finds less alike than they are."""

Takes = Callable[[object], bool]
"""Whether an attribute of a contract takes a value."""


def misspelt(thing: object, known: Mapping[str, Takes]) -> Iterator[tuple[str, str]]:
    """The attributes of a thing that look like one of `known`, each with the name that was meant."""
    names = names_outside(thing)
    for name in sorted(names - known.keys()):
        close = get_close_matches(name, known, n=1, cutoff=ALIKE)
        meant = OTHER_FORMS.get(name) or (close[0] if close else None)
        if meant is None or meant not in known or (meant in names and value_of(thing, meant) is not None):
            continue
        if known[meant](value_of(thing, name)):
            yield name, meant


def names_outside(thing: object) -> set[str]:
    """The public attributes that a thing has from classes outside this package, or that were set on itself."""
    found: set[str] = set()
    for one in type(thing).__mro__:
        if one is not object and not is_ours(one):
            found.update(vars(one))
    found.update(vars(thing) if hasattr(thing, "__dict__") else ())
    return {name for name in found if not name.startswith("_")}


def is_ours(cls: type) -> bool:
    """Whether a class is of this package, or of the machinery of protocols."""
    return cls.__module__.startswith(PACKAGE) or cls.__module__ == "typing"


def value_of(thing: object, name: str) -> object:
    """The value of an attribute; one that has to be computed is not, and counts as nothing."""
    static = inspect.getattr_static(thing, name)
    if isinstance(static, property | cached_property):
        return None
    return getattr(thing, name, None)
