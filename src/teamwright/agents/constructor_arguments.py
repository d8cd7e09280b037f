"""Checks what Python code passes to a constructor against the declaration of the same thing in a manifest.

Both forms refuse the same values, in the same words, where they are written and not when a run starts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from types import MappingProxyType
from typing import ParamSpec, TypeVar, cast

from pydantic import ValidationError

from teamwright.errors import InvalidArguments, InvalidValue, UsageError, nearest
from teamwright.values.text.validation_messages import found_text, reasons_of
from teamwright.values.value import Value

T = TypeVar("T")
P = ParamSpec("P")
V = TypeVar("V", bound=Value)
NO_HINTS: Mapping[str, str] = MappingProxyType({})


class Mistakes:
    """Collects the mistakes of one constructor call, so that its caller gets all of them at once."""

    def __init__(self) -> None:
        self._found: list[UsageError] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, mistake: UsageError) -> None:
        self._found.append(mistake)

    def collect(self, check: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and return its result; if it raises `UsageError`, collect that and return `None`.

        The type promises a result, because an object with mistakes is never used: end with `raise_all`.
        """
        try:
            return check(*args, **kwargs)
        except UsageError as error:
            self._found.append(error)
            return cast("T", None)

    def raise_all(self) -> None:
        """Raise the one mistake, or a `UsageError` with all of them, one per line; nothing if there is none."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            apart = (one.reasons if type(one) is UsageError and one.reasons else (str(one),) for one in self._found)
            raise UsageError.several(text for texts in apart for text in texts)


def check_arguments(owner: str, declaration: type[Value], **given: object) -> None:
    """Raise `InvalidValue` with every argument that the declaration's field of the same name does not accept.

    Arguments at the default of their field are not looked at, so an agent without settings costs nothing.
    """
    fields = declaration.model_fields
    values = {
        name: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not fields[name].default
    }
    if not values:
        return
    try:
        declaration.model_validate(values, strict=True)
    except ValidationError as error:
        if wrong := [one for one in reasons_of(error, values, declaration) if re.split(r"[.:]", one)[0] in values]:
            raise InvalidValue(owner, wrong) from None


def check_instance(owner: str, name: str, value: object, *wanted: type) -> None:
    """Raise `InvalidValue` if an argument is given and is not of one of these types."""
    if value is not None and not isinstance(value, wanted):
        words = " or ".join(f"a {one.__name__}" for one in wanted)
        raise InvalidValue(owner, [f"{name}: expects {words}, found {found_text(value)}"])


def value_of(owner: str, name: str, given: V | Mapping[str, object] | None, wanted: type[V]) -> V | None:
    """Return an argument as a value of this type, of which a mapping has the fields; raises `InvalidValue`."""
    if isinstance(given, Mapping):
        try:
            return wanted.model_validate(dict(given), strict=True)
        except ValidationError as error:
            raise InvalidValue(owner, [f"{name}.{one}" for one in reasons_of(error, given, wanted)]) from None
    check_instance(owner, name, given, wanted)
    return given


def listed(owner: str, name: str, value: Iterable[T]) -> Iterable[T]:
    """Return an argument that is a list of things; raises `InvalidValue` for one thing, a text or a mapping."""
    given = cast("object", value)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return value
    hint = f"; write  {name}=[…]" if given is not None else f"; leave {name!r} out, or pass an empty list"
    raise InvalidValue(owner, [f"{name}: expects a list, found {found_text(cast('object', given))}{hint}"])


def check_number(owner: str, name: str, value: object) -> None:
    """Raise `UsageError` if a value is not a finite number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise UsageError(f"{owner}: {name} must be a number of at least 0, and is {value!r}.")


def checked_call(
    what: str,
    settings: Collection[str] = (),
    *,
    kind: str = "",
    fields: Collection[str] = (),
    hints: Mapping[str, str] = NO_HINTS,
    acts: bool = False,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that words calls with arguments that the function does not have, or without a needed one.

    `settings` are the names that its `**settings` accept. `fields` are those that other kinds of the same thing have,
    so that one is refused with the `kind` of this one, and `hints` say what to write for some others. The other
    mistakes of the call are reported with these, unless the function `acts`: then it is not called at all.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @cache
        def known() -> frozenset[str]:
            parameters = inspect.signature(function).parameters.values()
            return frozenset(settings).union(one.name for one in parameters if one.kind is not one.VAR_KEYWORD)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if unknown := [name for name in kwargs if name not in known()]:
                owner, mistakes = _owner(what, known(), args, kwargs), Mistakes()
                for name in unknown:
                    hint = hints.get(name) or nearest(name, known() - {"self"}, f"{what}s have no such setting")
                    text = f"is {kind}, which has no {name!r}." if name in fields else f"takes no {name!r}: {hint}"
                    mistakes.add(InvalidArguments(f"{owner} {text}"))
                if not acts:
                    rest = {name: value for name, value in kwargs.items() if name in known()}
                    mistakes.collect(cast("Callable[..., T]", call), *args, **rest)
                mistakes.raise_all()
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                    raise  # from within the function
                owner, flaw = _owner(what, known(), args, kwargs), _call_flaw(function, settings, args, kwargs)
                raise InvalidArguments(f"{owner} {flaw}.") from None

        return call

    return decorate


def _owner(what: str, known: Collection[str], args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """The name of what a call was to make, as far as the call says it."""
    named = (kwargs.get("name"), *args, kwargs.get("function"))
    given = next((one for one in named if isinstance(one, str) or inspect.isfunction(one)), None)
    name = getattr(given, "__name__", given)
    return f"The {what} {name!r}" if "name" in known and isinstance(name, str) else f"The {what}"


def _call_flaw(
    function: Callable[..., object], settings: Collection[str], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> str:
    """What is wrong with the arguments of a call that Python has refused."""
    parameters = inspect.signature(function).parameters.values()
    by_place = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = [*(one.name for one in parameters if one.kind is one.KEYWORD_ONLY), *sorted(settings)]
    if len(args) > len(by_place):
        return f"takes {by_name[0]!r} and the others by name: write  {by_name[0]}=…"
    given = by_place[: len(args)]
    if twice := [name for name in given if name in kwargs]:
        return f"got {twice[0]!r} twice"
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    missing = [repr(name) for name in needed if name not in given and name not in kwargs]
    return f"needs {' and '.join(missing)}"
