"""The protocol for kinds of tools: the field in a manifest, its settings, and how a source is built and checked.

Nothing here may import what a kind needs to run: manifests are read without it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from teamwright.agents.tools.protocol import ToolSource
from teamwright.values.models import Value
from teamwright.values.specs.manifest import ToolSpec

if TYPE_CHECKING:
    from teamwright.documents.nodes import Fields, ProblemReport

S = TypeVar("S", bound=BaseModel)


class NoSettings(Value):
    """The settings of a kind that has none."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The input of `ToolKind.build` besides the settings.

    `spec` is the declaration as written, `name` its name, `earlier` the sources that the agent already has, and
    `max_bytes` the size cap of a result.
    """

    spec: str | ToolSpec
    name: str | None
    earlier: Sequence[ToolSource]
    max_bytes: int


class ToolKind(Protocol[S]):
    """One kind of tool: in a manifest `{name: settings}`, where `model` is the model of the settings.

    A `built_in` kind may be written as its name alone. No other tool may have a `reserved` name, and listing it twice
    has no effect. `noun` is the word for a source of this kind in messages.
    """

    name: str
    model: type[S]
    noun: str = "tool"
    built_in: bool = False
    reserved: bool = False

    @abstractmethod
    def build(self, settings: S, options: BuildOptions) -> ToolSource:
        """Create the source. Nothing is started before it is opened."""
        ...

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names that approvals may use for a tool declared under `name`; `None` if known only in a turn."""
        return None

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report mistakes that the schema of the settings does not find; nothing may be imported or started."""

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report code that can't be imported and packages that are not installed."""

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Return the settings with their relative paths moved to another folder."""
        return settings

    def pin(self, settings: JsonValue, folder: Callable[[str], Path]) -> JsonValue:
        """Return the settings with what a record keeps of the files that they name; `folder` resolves a path.

        Called once, when a manifest is loaded: a run that resumes later notices that a file has changed.
        """
        return settings

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Return the declaration with absolute folders; `folder` resolves one, or raises if it is not allowed."""
        return spec

    def code(self, settings: S) -> Iterable[tuple[str, str]]:
        """Return the code that these settings run, as pairs of its kind and its name."""
        return ()
