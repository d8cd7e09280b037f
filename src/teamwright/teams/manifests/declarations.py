"""The declarations of native and ARK manifests by name, before they are checked against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from teamwright.agents.tools.registry import reserved_names
from teamwright.documents.nodes import Fields, Node, Place, ProblemReport, shown
from teamwright.errors import a
from teamwright.values.names import NAME, suggest_name

Kind = Literal["agent", "team", "model", "tool"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """One named declaration: the place of its name, its fields in native terms, and the folder of its file.

    `flawed` means that a mistake in its options was reported, so that its strategy need not check them.
    """

    kind: Kind
    name: str
    place: Place
    node: Node
    folder: Path
    ark: bool = False
    flawed: bool = False

    @property
    def fields(self) -> Fields:
        """The fields; empty if the declaration is a single text."""
        return self.node if isinstance(self.node, Fields) else Fields({}, self.node.place)

    @property
    def words(self) -> str:
        """The kind and name, for messages."""
        return f"{self.kind} {shown(self.name)}"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name of an agent or a team; `kind` says which, if the document does."""

    name: str
    place: Place
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A task in a manifest, with its target."""

    name: str
    task: str
    target: str
    target_kind: str
    place: Place


@dataclass(slots=True)
class Declarations:
    """All declarations of a load."""

    agents: dict[str, Declaration] = field(default_factory=dict[str, Declaration])
    teams: dict[str, Declaration] = field(default_factory=dict[str, Declaration])
    models: dict[str, Declaration] = field(default_factory=dict[str, Declaration])
    tools: dict[str, Declaration] = field(default_factory=dict[str, Declaration])
    typed: dict[Place, Reference] = field(default_factory=dict[Place, Reference])
    unnamed: list[Declaration] = field(default_factory=list[Declaration])
    queries: dict[str, Query] = field(default_factory=dict[str, Query])

    def by_name(self, kind: Kind) -> dict[str, Declaration]:
        """The declarations of one kind by name."""
        return {"agent": self.agents, "team": self.teams, "model": self.models, "tool": self.tools}[kind]

    def every(self, kind: Kind) -> Iterator[Declaration]:
        """The declarations of one kind, also those with a duplicate or invalid name, whose other mistakes count too."""
        yield from self.by_name(kind).values()
        yield from (one for one in self.unnamed if one.kind == kind)

    def __iter__(self) -> Iterator[Declaration]:
        for kind in ("agent", "team", "model", "tool"):
            yield from self.by_name(kind).values()

    def add(self, new: Declaration, report: ProblemReport) -> None:
        """Add a declaration under its name; agents and teams share a namespace."""
        if self._check_name(new, report):
            self.by_name(new.kind)[new.name] = new
        else:
            self.unnamed.append(new)

    def _check_name(self, new: Declaration, report: ProblemReport) -> bool:
        if not NAME.fullmatch(new.name):
            report.problem(
                new.place,
                f"{shown(new.name)} can't name {a(new.kind)}: use letters, digits, '.', '_' and '-', at most 64,"
                " starting with a letter or digit",
                f"for example {suggest_name(new.name)!r}",
            )
            return False
        rivals: tuple[Kind, ...] = ("agent", "team") if new.kind in {"agent", "team"} else (new.kind,)
        for kind in rivals:
            if taken := self.by_name(kind).get(new.name):
                report.problem(
                    new.place,
                    f"There is already {a(kind)} {shown(new.name)}",
                    f"it is declared at {taken.place}; rename or remove one",
                )
                return False
        if new.kind == "tool" and new.name in reserved_names():
            report.problem(new.place, f"{new.name!r} is a built-in tool", "choose another name")
            return False
        return True
