"""The declarations of native and ARK manifests by name, before they are checked against each other.

Native documents have `agents`, `teams`, `models` and `tools` by name. The field of a team with the name of its strategy
holds the strategy's options. Only here, a model in place of an agent in options (`selector: {model: primary}`) becomes
a helper agent named `<team>-<strategy>`, so that records, strategies and the engine only see agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from teamwright.agents.tools.registry import reserved_names
from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    Scalar,
    described,
    is_nothing,
    shown,
)
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import a
from teamwright.strategies.registry import missing_strategy, strategy_names
from teamwright.teams.manifests.schema import AGENT, MODEL, definitions, section_value, takes_model
from teamwright.values.names import NAME, plain_strategy_name, suggest_name
from teamwright.values.specs.manifest import TeamSpec

Kind = Literal["agent", "team", "model", "tool"]

DEFAULT = TeamSpec.model_construct(members=()).strategy

OPTIONS = "options"


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


def strategy_of(fields: Fields) -> str:
    """The normalised name of a team's strategy, whether it exists or not."""
    written = fields.text("strategy")
    return plain_strategy_name(str(written.value)) if written else DEFAULT


def with_options(team: Declaration, declared: Declarations, report: ProblemReport) -> Declaration:
    """The team with its options moved to `options`; the entry keeps the key that the file uses.

    In a file, `options` belongs to a strategy that is given by its import path, which can't name a block.
    """
    entries, own, known = dict(team.fields.entries), strategy_of(team.fields), strategy_names()
    if OPTIONS in entries and own in known:
        message = f"{team.words}: the options of {own!r} stand in a block with its name"
        report.problem(entries[OPTIONS].place, message, f"write  {own}:  in place of  {OPTIONS}:")
    for key, entry in team.fields.entries.items():
        name = plain_strategy_name(key)
        if key in TeamSpec.model_fields or not (name in known or missing_strategy(name)):
            continue
        del entries[key]
        if name == own and OPTIONS not in entries:
            entries[OPTIONS] = entry
        elif name == own:
            first = entries[OPTIONS].key
            report.problem(entry.place, f"{team.words} has {first!r} and {key!r}", "keep one: both are its options")
        elif own in known:
            message = f"{team.words}: {key!r} is for another strategy; this team's is {shown(own)}"
            report.problem(entry.place, message, f"write  strategy: {key}  or remove it")
    team = replace(team, node=Fields(entries, team.fields.place))
    return with_helper(team, declared, report)


def with_helper(team: Declaration, declared: Declarations, report: ProblemReport) -> Declaration:
    """The team with a helper agent in place of the model in its options; declares that agent."""
    options, strategy = team.fields.get(OPTIONS), strategy_of(team.fields)
    if not isinstance(options, Fields) or not takes_model(strategy):
        return team
    given = options.entries.get(MODEL)
    rest = {key: entry for key, entry in options.entries.items() if key != MODEL}
    if given is None and (AGENT in rest or not team.ark):
        return team
    if given is None:  # in ARK, the default model selects if none is named
        rest[AGENT] = _helper(team, strategy, Fields({}, options.place), declared, report)
    elif AGENT in rest:
        block = team.fields.entries[OPTIONS].key
        report.problem(given.place, f"{team.words}: {block!r} has 'agent' and 'model'", "keep one of them")
    else:
        node = Fields({MODEL: given}, given.node.place)
        SchemaCheck(team.words, report, definitions()).check(node, section_value("agents"))
        rest[AGENT] = _helper(team, strategy, node, declared, report, given)
    return replace(team, node=team.fields.with_value(OPTIONS, Fields(rest, options.place)))


def _helper(
    team: Declaration,
    strategy: str,
    node: Fields,
    declared: Declarations,
    report: ProblemReport,
    given: Entry | None = None,
) -> Entry:
    """Declare the helper agent, and return the option that names it."""
    name = f"{team.name if NAME.fullmatch(team.name) else suggest_name(team.name)}-{strategy}"
    place = given.place if given else node.place
    declared.add(Declaration("agent", name, place, node, team.folder, team.ark), report)
    return Entry(given.key if given else AGENT, place, Scalar(name, node.place))


SECTIONS: dict[str, Kind] = {"agents": "agent", "teams": "team", "models": "model", "tools": "tool"}


def read_native(root: Fields, folder: Path, declared: Declarations, report: ProblemReport) -> None:
    """Add all declarations of one document."""
    for name, entry in root.entries.items():
        if name in SECTIONS:
            _read_section(SECTIONS[name], entry, folder, declared, report)
        elif not name.startswith("x-"):
            report.problem(
                entry.place,
                f"{shown(name)} is not a section of a manifest",
                report.near(name, [*SECTIONS, "apiVersion"]),
            )


def _read_section(kind: Kind, section: Entry, folder: Path, declared: Declarations, report: ProblemReport) -> None:
    if is_nothing(section.node):
        return
    if not isinstance(section.node, Fields):
        report.problem(
            section.node.place, f"{shown(section.key)} expects a mapping of names, found {described(section.node)}"
        )
        return
    for name, entry in section.node.entries.items():
        node = _expanded(kind, entry.node)
        declaration = Declaration(kind, name, entry.place, node, folder)
        if kind == "team" and isinstance(node, Fields):
            declaration = with_options(declaration, declared, report)
        declared.add(declaration, report)
        SchemaCheck(declaration.words, report, definitions()).check(declaration.node, section_value(section.key))


def _expanded(kind: Kind, node: Node) -> Node:
    """Expand the short forms: a tool that is only an import path, and an agent that is only a name."""
    if kind == "tool":
        return _as_function(node)
    if kind == "agent" and is_nothing(node):
        return Fields({}, node.place)
    return expand_tools(_expand_text(node)) if kind == "agent" and isinstance(node, Fields) else node


def _expand_text(agent: Fields) -> Fields:
    """Expand a remote agent that is only its address, and a coding agent that is only its command."""
    for kind, name in (("a2a", "url"), ("acp", "command")):
        if isinstance(written := agent.get(kind), Scalar):
            agent = agent.with_value(kind, Fields({name: Entry(name, written.place, written)}, written.place))
    return agent


def expand_tools(agent: Fields) -> Fields:
    """Expand the short forms among the tools of an agent."""
    tools = agent.get("tools")
    if not isinstance(tools, Items):
        return agent
    return agent.with_value("tools", Items(tuple(map(_expanded_tool, tools.items)), tools.place))


def _expanded_tool(node: Node) -> Node:
    """Expand a text with a colon, which no tool name has, into a function tool."""
    return _as_function(node) if isinstance(node, Scalar) and ":" in str(node.value) else node


def _as_function(node: Node) -> Node:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return Fields({"function": Entry("function", node.place, node)}, node.place)
    return node
