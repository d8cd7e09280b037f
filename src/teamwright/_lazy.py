"""Facades: packages whose public names load on first use, so importing a package is cheap."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

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
        from teamwright.collector_pauses import import_uncollected  # importing a package stays cheap

        value: object = getattr(import_uncollected(modules[name]), name)
        setattr(sys.modules[facade], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *modules})

    return sorted(modules), load, names
