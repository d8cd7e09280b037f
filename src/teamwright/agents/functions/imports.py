"""Imports of the code that a manifest names: whether it may run, where its modules are found, and paths to functions.

The folder of a manifest is a package with a private name, and `helpers.py` in it is `_manifest_3f0c….helpers`. Its
modules get an `__import__` of their own, so that `import helpers` means a sibling whenever and in whichever thread
they say it. Neither `sys.path` nor a plain name in `sys.modules` changes: nothing else in the process finds them.
Commands that only read a manifest must not run its code: every import of such code checks the guard.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, cast

from teamwright.errors import UsageError, nearest

_LOADS: ContextVar[bool] = ContextVar("teamwright_loads_code", default=True)


def can_load_code() -> bool:
    """Whether functions, tools and strategies from outside the package may be imported here."""
    return _LOADS.get()


@contextmanager
def code_not_loaded() -> Generator[None]:
    """Within this block, use placeholders for the code that a manifest names instead of importing it."""
    before = _LOADS.set(False)
    try:
        yield
    finally:
        _LOADS.reset(before)


class UnloadedFunction:
    """A placeholder for a function that was not imported; calling it raises `UsageError`."""

    def __init__(self, path: str) -> None:
        self.path = path
        module, _, name = path.partition(":")
        self.__module__, self.__name__, self.__qualname__ = module, name.rpartition(".")[2], name

    def __call__(self, turn: object) -> object:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"{self.path!r} was not loaded, so it can't be called.")


RESERVED = sys.stdlib_module_names | {"teamwright"}
"""Modules that those beside a manifest never replace: code beside it depends on them, too."""

PREFIX = "_manifest_"
PRIVATE = re.compile(rf"\b{PREFIX}[0-9a-f]{{12}}(\.?)")


@dataclass(frozen=True, slots=True)
class OwnModules:
    """The modules of one folder: submodules of a package that is named after a digest of the folder's path.

    The same folder has the same name in each process, so that what is pickled in one is found in another.
    """

    folder: str
    package: str
    builtins: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """The builtins of these modules, with their `__import__`; empty until the first one is imported."""

    @classmethod
    def of(cls, folder: str) -> OwnModules:
        """Return the modules of a folder that is given by its resolved path."""
        return cls(folder, PREFIX + blake2b(folder.encode(errors="surrogateescape"), digest_size=6).hexdigest())

    def new_module(self, name: str) -> ModuleType:
        """Create a module of the folder, with the builtins of its modules."""
        if not self.builtins:
            self.builtins.update({**vars(builtins), "__import__": self.import_statement})
        module = ModuleType(name)
        vars(module)["__builtins__"] = self.builtins
        return module

    def full_name(self, name: str) -> str:
        """Return the name under which these modules know another: its private name if it is beside the manifest."""
        top = name.partition(".")[0]
        private = f"{self.package}.{top}"
        if private in sys.modules or (top not in RESERVED and self._is_beside(top) and not self._is_shared(top)):
            return f"{self.package}.{name}"
        return name

    def spec_beside(self, top: str) -> ModuleSpec | None:
        return PathFinder.find_spec(f"{self.package}.{top}", [self.folder])

    def _is_beside(self, top: str) -> bool:
        """Whether a name means a module of the folder: one without `__init__.py` yields to an installed package."""
        spec = self.spec_beside(top)
        if spec is None or spec.loader is not None:
            return spec is not None
        try:
            elsewhere = PathFinder.find_spec(top)
        except (ImportError, ValueError):
            elsewhere = None
        if elsewhere is None or elsewhere.loader is not None:
            return elsewhere is None
        return any(True for _ in iter_modules([os.path.join(self.folder, top)]))  # noqa: PTH118 - on each import

    def _is_shared(self, top: str) -> bool:
        """Whether the program itself has imported this module of the folder: then both use the same one."""
        module = sys.modules.get(top)
        places = getattr(module, "__path__", None) or [getattr(module, "__file__", None)]
        return any(isinstance(one, str) and self.folder == str(Path(one).parent.resolve()) for one in places)

    def import_statement(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import what an `import` statement in one of these modules names."""
        found = name if level else self.full_name(name)
        if found == name:
            return builtins.__import__(name, globals, locals, fromlist, level)
        with plain_import_errors():
            if fromlist:
                return builtins.__import__(found, globals, locals, fromlist)
            import_module(found)
        return sys.modules[self.full_name(name.partition(".")[0])]


_LOCK = threading.Lock()
_PACKAGES: dict[str, OwnModules] = {}
_CURRENT: ContextVar[OwnModules | None] = ContextVar("teamwright_own_modules", default=None)


def register_folder(folder: Path | str) -> OwnModules:
    """Make the modules of a folder importable under their private names."""
    own = OwnModules.of(str(Path(folder).resolve()))
    with _LOCK:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        return _PACKAGES.setdefault(own.package, own)


@contextmanager
def modules_of(folder: Path | str) -> Generator[None]:
    """Within this block, `import_own` finds the modules of this folder before all others."""
    if not folder:
        yield
        return
    token = _CURRENT.set(register_folder(folder))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def own_folder() -> str | None:
    """Return the folder whose modules are found now: that of the manifest of a run, while it is driven."""
    own = _CURRENT.get()
    return own.folder if own is not None else None


def import_own(name: str) -> ModuleType:
    """Import a module of the current folder, or else an installed one."""
    own, top = _CURRENT.get(), name.partition(".")[0]
    if own is None:
        return import_module(name)
    _forget_listing(own.folder)
    if top in RESERVED and (spec := own.spec_beside(top)) is not None and spec.loader is not None:
        raise UsageError(
            f"The module {top!r} in {own.folder!r} has the name of a module that Python or Teamwright needs;"
            " rename the file."
        )
    try:
        with plain_import_errors():
            return import_module(own.full_name(name))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not missing or missing in RESERVED or own.spec_beside(missing) is None:
            raise
        if name == f"{missing}.py":
            hint = f"write its name without the ending:  {missing}:FUNCTION"
        else:
            hint = f"it is beside the manifest: write  import {missing}  or  import_module('.{missing}', __package__)"
        raise ModuleNotFoundError(f"{error}; {hint}", name=error.name) from error


def is_importable(name: str) -> bool:
    """Whether `import_own` would find a module; the packages that contain it are imported."""
    own = _CURRENT.get()
    if own is not None:
        _forget_listing(own.folder)
    try:
        return find_spec(name if own is None else own.full_name(name)) is not None
    except (ImportError, ValueError):
        return False


def plain_name(text: str) -> str:
    """Return the name of a module, or a text with such names, without the private names of folders."""
    return PRIVATE.sub(lambda found: "" if found[1] else ".", text)


@contextmanager
def plain_import_errors() -> Generator[None]:
    """Raise the error of a module that was not found under its plain name, as code may look at it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(PREFIX):
            raise
        raise ModuleNotFoundError(plain_name(str(error)), name=plain_name(error.name or ""), path=error.path) from None


@dataclass(frozen=True, slots=True)
class OwnWork:
    """A function with the folders of the modules that it needs, in a form that another process can load and call."""

    function: Callable[..., Any]
    folders: tuple[str, ...]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Name the folders before the function: it is looked up while it is unpickled."""
        return _restore_work, (*map(_Folder, self.folders), self.function)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder whose modules become importable when this is unpickled."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return register_folder, (self.path,)


def _restore_work(*given: Any) -> OwnWork:
    return OwnWork(given[-1], tuple(own.folder for own in given[:-1]))


def portable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a form that another process can unpickle, even if its module is beside a manifest."""
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    found = {own.folder for own in (_CURRENT.get(), _PACKAGES.get(package)) if own is not None}
    return OwnWork(function, tuple(sorted(found))) if found else function


class _Finder:
    """Finds modules by their private names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the package of a folder, or a module in it."""
        if not name.startswith(PREFIX) or (own := _PACKAGES.get(name.partition(".")[0])) is None:
            return None
        if name == own.package:
            package = ModuleSpec(name, None, is_package=True)
            package.submodule_search_locations = [own.folder]
            return package
        spec = PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader | SourcelessFileLoader):
            spec.loader.create_module = _new_module
        return spec


def _new_module(spec: ModuleSpec) -> ModuleType:
    return _PACKAGES[spec.name.partition(".")[0]].new_module(spec.name)


def _forget_listing(folder: str) -> None:
    """Look into a folder again at the next import: it may be new, or changed within a tick of the file system's clock.

    `importlib.invalidate_caches` does so for all folders, and fails if two threads call it at once.
    """
    finder = cast("Any", sys.path_importer_cache.get(folder))
    if finder is None:
        sys.path_importer_cache.pop(folder, None)
    else:
        finder.invalidate_caches()


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
