"""Wings: optional parts of the package, which entry points of the group `teamwright.wings` name and nothing imports.

A wing brings commands, and hooks: functions that the core calls at places that it names, such as `run_options`. Both
are import paths, `module:name`, loaded when they are used, so that finding the wings costs next to nothing. Strategies,
tools and evaluators have entry point groups of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import Any, cast

from teamwright.errors import MissingExtra, UsageError, install_command

GROUP = "teamwright.wings"
Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wing:
    """An optional part: its name, which is that of its extra, the libraries of the extra, its commands and hooks.

    `commands` maps the words of a command, such as `ask` or `runs what-if`, to a function or a Typer application.
    `hooks` maps the place where the core calls a function to that function.
    """

    name: str
    libraries: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    hooks: Mapping[str, str] = field(default_factory=dict[str, str])

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
def find_wings() -> tuple[Wing, ...]:
    """Return the wings that are installed, sorted by name. One whose folder was removed is not there."""
    from importlib.metadata import entry_points

    found: list[Wing] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(cast("Wing", point.load()))
        except ModuleNotFoundError as error:
            if error.name is None or not point.module.startswith(error.name):
                raise
    return tuple(found)


def hooks(place: str) -> list[Hook]:
    """Return the functions that the wings bring for a place."""
    return [load(wing.hooks[place]) for wing in find_wings() if place in wing.hooks]


def required_hook(place: str, what: str) -> Hook:
    """Return the function that a wing brings for a place; raises `UsageError` if no wing that does is installed."""
    for hook in hooks(place):
        return hook
    raise UsageError(f"{what} needs an optional part that is not installed{absent_words()}.")


def load(path: str) -> Any:
    """Return what an import path, `module:name`, names."""
    return resolve_name(path)


def absent_words() -> str:
    """The optional parts that are declared and not there, with the command that adds one; empty if all are there."""
    from importlib.metadata import entry_points

    here = {wing.name for wing in find_wings()}
    absent = sorted({point.name for point in entry_points(group=GROUP)} - here)
    return f" ({', '.join(absent)}); add it with, for example,  {install_command(absent[0])}" if absent else ""
