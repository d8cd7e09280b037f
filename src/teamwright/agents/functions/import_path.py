"""Import paths, `module:function`: the path of a function, and the function at a path."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from teamwright.agents.functions.import_guard import UnloadedFunction, can_load_code
from teamwright.agents.functions.own_modules import import_own, plain_name
from teamwright.errors import UsageError, nearest

Function = Callable[..., Any]


def import_path(function: Function) -> str | None:
    """Return the path that leads to this very function; `None` for a closure, a lambda or a method of an object."""
    if isinstance(function, UnloadedFunction):
        return function.path
    path = defined_path(function)
    if path is None:
        return None
    found: object = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return path if found == function and not _is_bound(function) else None


def defined_path(function: Function) -> str | None:
    """Return the module and name of a function's definition, which other functions may share."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        return None
    return f"{plain_name(module)}:{name}"


def _is_bound(function: Function) -> bool:
    """Whether a function is a method of an object, which its name does not identify."""
    owner = getattr(function, "__self__", None)
    return owner is not None and not isinstance(owner, type | types.ModuleType)


def load_function(path: str, what: str, form: str = "module:function") -> Function:
    """Import `module:function`; raises `UsageError` if that fails. Returns a placeholder if code must not be loaded."""
    module_name, colon, names = path.partition(":")
    if not colon or not module_name or not names:
        raise UsageError(f"{path!r} is no path of {what}; write it as {form}.")
    if not can_load_code():
        return UnloadedFunction(path)
    try:
        found: object = import_own(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        kind = "" if isinstance(error, ImportError | UsageError) else f"{type(error).__name__}: "
        reason = plain_name(f"{kind}{error}").removesuffix(".")
        named = f"{what}, {path!r}," if what.endswith("'") else f"{what} {path!r}"
        raise UsageError(f"The module of {named} can't be imported: {reason}.") from error
    for name in names.split("."):
        known = [one for one in dir(found) if not one.startswith("_")]
        if (found := getattr(found, name, None)) is None:
            raise UsageError(f"There is no {name!r} in {path!r}; {nearest(name, known)}")
        # Who allows a module allows neither all that it imports, nor the loader that Python gives it.
        if isinstance(found, types.ModuleType):
            raise UsageError(f"{name!r} in {path!r} is a module; write  {found.__name__}:…")
        if name.startswith("__"):
            raise UsageError(f"{path!r} is not a function of its module: {name!r} is a name of Python's own.")
    if not callable(found):
        raise UsageError(f"{path!r} is not a function.")
    return found
