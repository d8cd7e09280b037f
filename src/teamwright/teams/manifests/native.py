"""Reads native documents: `agents`, `teams`, `models` and `tools` by name."""

from __future__ import annotations

from pathlib import Path

from teamwright.documents.nodes import Entry, Fields, Items, Node, ProblemReport, Scalar, described, is_nothing, shown
from teamwright.documents.schema_check import SchemaCheck
from teamwright.teams.manifests.declarations import Declaration, Declarations, Kind, with_options
from teamwright.teams.manifests.schema import definitions, section_value

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
    return expand_tools(node) if kind == "agent" and isinstance(node, Fields) else node


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
