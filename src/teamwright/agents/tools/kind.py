"""The entry of a kind of tool in the registry: its field in a manifest, its settings, how it is built and checked.

Nothing here may import what a kind needs to work: manifests are read without it.
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
    from teamwright.documents.nodes import Fields
    from teamwright.documents.problems import ProblemReport

S = TypeVar("S", bound=BaseModel)


class NoSettings(Value):
    """The settings of a kind that has none."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a source is built with besides its settings.

    `spec` is the declaration as it was written, `name` the name that it was given, `earlier` the sources that the agent
    has already, and `max_bytes` the size cap of a result.
    """

    spec: str | ToolSpec
    name: str | None
    earlier: Sequence[ToolSource]
    max_bytes: int


class ToolKind(Protocol[S]):
    """One kind of tool: in a manifest `{name: settings}`, where `model` is the model of the settings.

    A `built_in` kind may be written as its name alone. A `reserved` name is no name for another tool, and naming it
    twice is naming it once. `noun` is what messages call a source of this kind.
    """

    name: str
    model: type[S]
    noun: str = "tool"
    built_in: bool = False
    reserved: bool = False

    @abstractmethod
    def build(self, settings: S, options: BuildOptions) -> ToolSource:
        """Make the source. Nothing is started before it is opened."""
        ...

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return what approvals may name of a tool that is declared under `name`; nothing if only a turn tells."""
        return None

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report mistakes that the schema of the settings does not find; nothing may be imported or started."""

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report what can't be imported or is not installed."""

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Return the settings with their relative paths moved to another folder."""
        return settings

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Return the declaration with its folders made absolute; `folder` refuses one that is not allowed."""
        return spec

    def code(self, settings: S) -> Iterable[tuple[str, str]]:
        """Return the code that these settings run, as what it is and its name."""
        return ()
