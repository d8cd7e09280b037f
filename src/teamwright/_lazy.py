"""Facades: packages whose public names load on first use, so importing a package is cheap."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

IMPORT = re.compile(r"^from (\S+) import (\([^)]*\)|.*)", re.MULTILINE)


def lazy_names(facade: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__all__`, `__getattr__` and `__dir__` of a facade.

    Its names and their homes are in the stub beside its file, where type checkers look too: the extension `.pyi`.
    """
    with open(file.rpartition(".")[0] + ".pyi", encoding="utf-8") as stub:  # noqa: PTH123 - without pathlib, for speed
        imports = IMPORT.findall(stub.read())
    modules = {name: home for home, names in imports for name in re.findall(r"(\w+) as ", names)}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value: object = getattr(import_uncollected(modules[name]), name)
        setattr(sys.modules[facade], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *modules})

    return sorted(modules), load, names


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
