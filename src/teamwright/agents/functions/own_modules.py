"""The Python modules beside a manifest, found before installed ones, as `python script.py` finds those of its folder.

Only the manifest's own code finds them: `sys.path` is never changed. Two manifests may have modules of the same name;
each gets its own, and a module that the process uses by that name stays what it was.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from teamwright.errors import UsageError

RESERVED = sys.stdlib_module_names | {"teamwright"}
"""Modules that those beside a manifest never replace: everything else in the process depends on them."""


@dataclass(slots=True)
class OwnModules:
    """The modules of one folder. Those in `hidden` are imported, but their names in `sys.modules` belong to others."""

    folder: Path
    hidden: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])

    def names(self) -> set[str]:
        """The top-level modules and packages of the folder."""
        return {one.name for one in iter_modules([str(self.folder)])} - RESERVED

    def has(self, module: ModuleType) -> bool:
        """Whether a top-level module was imported from this folder."""
        origin = module.__spec__.origin if module.__spec__ else getattr(module, "__file__", None)
        return origin is not None and self.is_origin(origin)

    def is_origin(self, origin: str) -> bool:
        """Whether a file is that of a top-level module or package of this folder."""
        file = Path(origin).resolve()
        return self.folder == (file.parent.parent if file.stem == "__init__" else file.parent)

    def is_imported(self, module: str) -> bool:
        """Whether a module of this name was imported from this folder."""
        top = sys.modules.get(module.partition(".")[0])
        return module in self.hidden or (top is not None and self.has(top))

    @contextmanager
    def in_front(self) -> Generator[None]:
        """Within this block, `sys.modules` has the folder's modules in place of others of the same names."""
        invalidate_caches()  # a file may have been written since the folder was last read
        names = self.names()
        others = {
            name: module
            for name, module in sys.modules.items()
            if (top := name.partition(".")[0]) in names and not self.has(sys.modules.get(top, module))
        }
        for name in others:
            del sys.modules[name]
        sys.modules.update(self.hidden)
        try:
            yield
        finally:
            taken = {name for name in names if name in others or self._is_elsewhere(name)}
            self.hidden = {name: one for name, one in sys.modules.items() if name.partition(".")[0] in taken}
            for name in self.hidden:
                del sys.modules[name]
            sys.modules.update(others)

    def _is_elsewhere(self, name: str) -> bool:
        """Whether the process would find another module of this name."""
        spec = PathFinder.find_spec(name, sys.path)
        return spec is not None and spec.origin is not None and not self.is_origin(spec.origin)


_LOCK = threading.RLock()
_FOLDERS: dict[Path, OwnModules] = {}
_CURRENT: ContextVar[OwnModules | None] = ContextVar("teamwright_own_modules", default=None)
_IMPORTING: ContextVar[bool] = ContextVar("teamwright_imports_own_modules", default=False)


@contextmanager
def modules_of(folder: Path | str) -> Generator[None]:
    """Within this block, code finds the modules of this folder; `import_own` finds them before all others.

    An `import` statement that is executed here, such as one inside a function, finds them after all others.
    """
    if not folder:
        yield
        return
    path = Path(folder).resolve()
    with _LOCK:
        _install_finders()
        own = _FOLDERS.setdefault(path, OwnModules(path))
    token = _CURRENT.set(own)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def import_own(name: str) -> ModuleType:
    """Import a module of the current folder, or else an installed one."""
    own, top = _CURRENT.get(), name.partition(".")[0]
    if own is None:
        return import_module(name)
    if top in RESERVED and any(one.name == top for one in iter_modules([str(own.folder)])):
        raise UsageError(
            f"The module {top!r} in {str(own.folder)!r} has the name of a module that Python or Teamwright needs;"
            " rename the file."
        )
    with _LOCK:
        token = _IMPORTING.set(True)
        try:
            if top not in own.names():
                return import_module(name)
            with own.in_front():
                return import_module(name)
        finally:
            _IMPORTING.reset(token)


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function of a module beside a manifest, in a form that another process can load and call."""

    folder: str
    module: str
    name: str

    def __call__(self, *arguments: Any) -> Any:
        """Import the function and call it."""
        with modules_of(self.folder):
            found: Any = import_own(self.module)
            for part in self.name.split("."):
                found = getattr(found, part)
            return found(*arguments)


def portable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a form that another process can unpickle, even if its module is beside a manifest."""
    own = _CURRENT.get()
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "<")
    if own is None or not own.is_imported(module) or "<" in name:
        return function
    return OwnFunction(str(own.folder), module, name)


class _OwnFirst:
    """Finds modules of the current folder before all others while its code is imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a top-level module."""
        return _find(name, path) if _IMPORTING.get() else None


class _OwnLast:
    """Finds modules of the current folder that nothing else has found, while its code runs."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a top-level module."""
        return _find(name, path)


def _find(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    own = _CURRENT.get()
    if own is None or path is not None or name in RESERVED:
        return None
    spec = PathFinder.find_spec(name, [str(own.folder)])
    if spec is not None and spec.loader is None:  # a folder without __init__.py: any regular module comes first
        return PathFinder.find_spec(name, [str(own.folder), *sys.path])
    return spec


def _install_finders() -> None:
    if _OwnLast not in sys.meta_path:
        sys.meta_path.insert(0, _OwnFirst)
        sys.meta_path.append(_OwnLast)
