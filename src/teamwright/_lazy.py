"""Facades: packages whose public names load on first use, so importing a package is cheap."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    facade: str,
    homes: Mapping[str, str],
    moved: Mapping[str, str] | None = None,
    renamed: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a facade.

    `homes` maps the module that defines names to those names, separated by blanks. `moved` maps a name that was public
    here in an earlier version to the facade that has it now: it still works, with a DeprecationWarning. So does a name
    in `renamed`, which maps it to its new name in the same facade.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if moved is not None and name in moved:
            instead = moved[name]
            warnings.warn(f"{facade}.{name} has moved: import it from {instead}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(instead), name)
        if renamed is not None and name in renamed:
            instead = renamed[name]
            warnings.warn(f"{facade}.{name} is now {facade}.{instead}", DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[facade], instead)
        if name not in modules:
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[facade], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *modules})

    return load, names
