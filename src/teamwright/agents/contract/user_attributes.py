"""The attributes that a user's class defines beside a contract, and those of them that are misspelt.

No setting may be lost by a typo. An attribute counts as misspelt only if its name is nearly that of a contract
attribute and its value is one that the contract accepts there. A `limit` that is a number, or a `critic` that is an
agent, is fine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import cast

PACKAGE = "teamwright."
SIMILARITY = 0.88
"""Minimum similarity of two names by `difflib`: `limit` and `limts` are near `limits`."""
OTHER_FORMS = {"retries": "retry", "retry_policy": "retry", "policies": "policy", "fallbacks": "fallback"}
"""Forms of a name whose similarity `difflib` underrates."""

Accepts = Callable[[object], bool]
"""Whether a contract attribute accepts a value."""


def misspelt_attributes(thing: object, known: Mapping[str, Accepts]) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an object that look like one of `known`, each with the intended name."""
    from difflib import get_close_matches  # for agents of users alone

    names = user_attributes(thing)
    for name in sorted(names - known.keys()):
        close = get_close_matches(name, known, n=1, cutoff=SIMILARITY)
        meant = OTHER_FORMS.get(name) or (close[0] if close else None)
        if meant is None or meant not in known or (meant in names and static_value(thing, meant) is not None):
            continue
        if known[meant](static_value(thing, name)):
            yield name, meant


def user_attributes(thing: object) -> set[str]:
    """The public attributes of an object that classes outside this package define or that are set on the instance."""
    found: set[str] = set()
    for one in type(thing).__mro__:
        if one is not object and not is_package_class(one):
            found.update(vars(one))
    found.update(vars(thing) if hasattr(thing, "__dict__") else ())
    return {name for name in found if not name.startswith("_")}


def has_own_method(thing: object, name: str) -> bool:
    """Whether an object implements a method of a protocol, whose empty body it would otherwise inherit."""
    for one in type(thing).__mro__:
        if name in vars(one):
            return not getattr(one, "_is_protocol", False) or name in getattr(thing, "__dict__", ())
    return True


def is_package_class(cls: type) -> bool:
    """Whether a class is defined in this package or in `typing`."""
    return cls.__module__.startswith(PACKAGE) or cls.__module__ == "typing"


def static_value(thing: object, name: str) -> object:
    """Return the value of an attribute, and `None` for a property, which is not evaluated."""
    return None if is_computed(thing, name) else getattr(thing, name, None)


def is_computed(thing: object, name: str) -> bool:
    """Whether an attribute is a property, which no check may evaluate."""
    return isinstance(inspect.getattr_static(thing, name), property | cached_property)


def is_name_list(value: object) -> bool:
    """Whether a value is a collection of names; a single text is none."""
    return isinstance(value, tuple | list | set | frozenset) and all(
        isinstance(one, str) for one in cast("Collection[object]", value)
    )
