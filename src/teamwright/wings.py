"""Wings: optional parts of the package, which entry points of the group `teamwright.wings` name and nothing imports.

A wing brings commands, and hooks: functions that the core calls at places that it names, such as `run_options`. Both
are import paths, `module:name`, loaded when they are used, so that finding the wings costs next to nothing. Strategies,
tools and evaluators have entry point groups of their own; those of a wing that is not there are refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "teamwright.wings"
Hook = Callable[..., Any]


class ServerOption(Struct, frozen=True):
    """An option of every command that names a server: the variable that says the same, and its line of help.

    Its value is an address, which may contain a password.
    """

    variable: str
    help: str


class Wing(Struct, frozen=True, kw_only=True):
    """An optional part: its name, which is that of its extra, the libraries of the extra, its commands and hooks.

    `commands` maps the words of a command, below a group or alone, to a function or a Typer application. `hooks` maps
    the place where the core calls a function to that function. `servers` maps options to the servers that they name,
    and `hints` the place of a message to the next step of its reader, which may name the fields of that place.
    `first_day` maps the commands that a newcomer needs to a line about each.
    """

    name: str
    libraries: tuple[str, ...] = ()
    commands: Mapping[str, str] = {}
    hooks: Mapping[str, str] = {}
    servers: Mapping[str, ServerOption] = {}
    hints: Mapping[str, str] = {}
    first_day: Mapping[str, str] = {}

    @contextmanager
    def needed(self, what: str) -> Generator[None]:
        """Import what needs the libraries within the block; raises `MissingExtra` if one of them is not installed."""
        try:
            yield
        except ModuleNotFoundError as error:
            if error.name not in self.libraries:
                raise
            raise MissingExtra(self.name, what) from error


@cache
def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return cast("EntryPoints", entry_points())  # Python 3.11 returns another type, with the same method


def entry_points_of(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group. The metadata of all packages are read once, which takes milliseconds."""
    return _entry_points().select(group=group)


@cache
def find_wings() -> tuple[Wing, ...]:
    """Return the wings that are installed, sorted by name. One whose folder was removed is not there."""
    points = sorted(entry_points_of(GROUP), key=lambda point: point.name)
    return tuple(cast("Wing", point.load()) for point in points if point.name not in _absent())


def hooks(place: str) -> list[Hook]:
    """Return the functions that the wings bring for a place."""
    from pkgutil import resolve_name  # most programs use no hook

    return [resolve_name(wing.hooks[place]) for wing in find_wings() if place in wing.hooks]


def required_hook(place: str, what: str) -> Hook:
    """Return the function that a wing brings for a place; raises `UsageError` if no wing that does is installed."""
    for hook in hooks(place):
        return hook
    raise UsageError(f"{what} needs an optional part that is not installed{absent_words()}.")


def hint(place: str, **fields: str) -> str | None:
    """Return the next step that a wing brings for the message at a place; `None` if no wing that does is installed."""
    found = (wing.hints[place] for wing in find_wings() if place in wing.hints)
    return next((text.format(**fields) for text in found), None)


def absent_names() -> list[str]:
    """Return the names of the wings that are declared and not there, sorted."""
    return sorted(_absent())


def absent_words() -> str:
    """The optional parts that are declared and not there, with the command that adds one; empty if all are there."""
    from teamwright.install_command import install_command  # for mistakes alone

    absent = absent_names()
    return f" ({', '.join(absent)}); add it with, for example,  {install_command(absent[0])}" if absent else ""


class Registered:
    """The entry points of a group by name: those that are there, and those of wings that are not there.

    One of another package that can't be loaded counts as there, so that using it says why.
    """

    __slots__ = ("absent", "here")

    def __init__(self, points: Iterable[EntryPoint], plain: Callable[[str], str] = str) -> None:
        packages = _absent()
        self.here: dict[str, EntryPoint] = {}
        self.absent: dict[str, str] = {}
        for point in points:
            wing = next((one for one, package in packages.items() if point.module.startswith(f"{package}.")), None)
            if wing is None:
                self.here[plain(point.name)] = point
            else:
                self.absent[plain(point.name)] = wing

    def missing(self, what: str, name: str) -> MissingExtra | None:
        """Return the error for a name that a wing which is not there would bring; `None` for any other name."""
        wing = self.absent.get(name)
        return None if wing is None else MissingExtra(wing, f"The {what} {name!r}")


@cache
def _absent() -> dict[str, str]:
    """The packages of the wings that are declared and not there, by the name of the wing."""
    points = (point for point in entry_points_of(GROUP) if not is_there(point.module))
    return {point.name: point.module.rpartition(".")[0] for point in points}


def is_there(module: str) -> bool:
    """Whether a module can be found; imports neither it nor its package."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    package, _, _ = module.rpartition(".")
    try:
        found = find_spec(package or module)
    except ModuleNotFoundError:  # the package of the package
        return False
    if found is None or not package:
        return found is not None
    return PathFinder.find_spec(module, found.submodule_search_locations) is not None
