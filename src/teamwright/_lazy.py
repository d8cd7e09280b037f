"""Facades: packages whose public names load on first use, so importing a package is cheap."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FrameType, ModuleType


def lazy_names(
    facade: str,
    homes: Mapping[str, str],
    moved: Mapping[str, str] | None = None,
    renamed: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a facade.

    `homes` maps the module that defines names to those names, separated by blanks. `moved` maps a name that was public
    here in an earlier version to its full name in another facade: it still works, with a DeprecationWarning. So does a
    name in `renamed`, which maps it to its new name in the same facade.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    former = {old: f"{facade}.{new}" for old, new in (renamed or {}).items()} | dict(moved or {})

    def load(name: str) -> object:
        if name in former:
            from inspect import currentframe  # slow to import

            home, _, new = former[name].rpartition(".")
            if not _is_import_machinery(currentframe()):
                told = f"has moved: import it from {home}" if new == name else f"is now {home}.{new}"
                warnings.warn(f"{facade}.{name} {told}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(home), new)
        if name not in modules:
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value: object = getattr(import_uncollected(modules[name]), name)
        setattr(sys.modules[facade], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *modules})

    return load, names


def import_uncollected(name: str) -> ModuleType:
    """Import a module without collecting garbage, which takes a tenth of the time: what an import creates stays.

    Afterwards all of it counts as old, else the next collection, of what is young, would look through it once more.
    """
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():  # else the program has frozen what it forks with
            gc.freeze()
            gc.unfreeze()  # what was frozen is now in the oldest generation
        gc.enable()


def _is_import_machinery(frame: FrameType | None) -> bool:
    """Whether the caller of `frame` only checks that a name exists.

    An import statement does so first, then gets the value from the frame of the user.
    """
    caller = frame and frame.f_back
    return caller is not None and caller.f_code.co_filename.startswith("<frozen importlib")
