"""Options that wings add to commands of the core, and what they change before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints

from teamwright.wings import hooks

if TYPE_CHECKING:
    from teamwright.values.limits.limits import Limits
    from teamwright.values.specs.manifest import Source

CHANGES = "changes"
"""The argument of a command that takes what the options of wings ask for."""


class SourceChange(Protocol):
    """A change of the team before its run starts."""

    def apply(self, source: Source, limits: Limits | None) -> Source:
        """Return the changed source, and print what was changed and why."""
        ...

    def task(self, source: Source) -> str | None:
        """Return the task of a run to which none was given; `None` if it needs one."""
        ...


class AddedOptions(Protocol):
    """Options of a wing: keyword parameters as Typer reads them, and what they ask for."""

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    def read(self, **given: Any) -> SourceChange | None:
        """Return the change that the options ask for, or None."""
        ...


def with_options(command: Callable[..., int], place: str) -> Callable[..., int]:
    """Return the command with the options that wings bring for this place."""
    added: list[AddedOptions] = hooks(place)

    def call(**given: Any) -> int:
        read = [one.read(**{option.name: given.pop(option.name) for option in one.parameters}) for one in added]
        return command(**given, changes=tuple(change for change in read if change is not None))

    hints = get_type_hints(command, include_extras=True)
    given = {name: one for name, one in signature(command).parameters.items() if name != CHANGES}
    parameters = [one.replace(annotation=hints[name]) for name, one in given.items()]
    parameters += [option for one in added for option in one.parameters]
    call.__doc__, call.__name__ = command.__doc__, command.__name__
    call.__signature__ = signature(command).replace(parameters=parameters, return_annotation=int)  # pyright: ignore[reportFunctionMemberAccess]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call
