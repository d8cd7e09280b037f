"""Translates the fields `selector` and `graph` of ARK Team documents into the options of our strategies."""

from __future__ import annotations

from collections.abc import Callable

from teamwright.documents.nodes import Entry, Fields, Items, Node, ProblemReport, Scalar, shown

SELECTOR = {"agent": "agent", "model": "model", "selectorPrompt": "prompt"}
SELECTOR_TERMINATES = "enableTerminateTool"
EDGE = {"from", "to"}

Rename = Callable[[Scalar, str], Scalar]
"""Returns the native name of a reference of this kind (agent, model, member)."""


def translate_options(
    strategy: str, spec: Fields, owner: str, report: ProblemReport, rename: Rename
) -> dict[str, Entry]:
    """The translated `selector` and `graph` by field: the first entry holds the options, all fields were read."""
    selector, graph = spec.entries.get("selector"), spec.entries.get("graph")
    if strategy == "graph" and graph:
        if isinstance(graph.node, Fields):
            _check_branching(graph.node, owner, report)
        node = _graph(graph.node, owner, report, rename)
        if isinstance(node, Fields) and _has_unreachable(spec):
            node = node.with_value("allow_unreachable", Scalar(True, node.place))
        return {"graph": Entry("graph", graph.place, node)}
    if strategy != "selector" or not selector:
        return {}
    node = _selector(selector.node, owner, report, rename)
    used = {"selector": Entry("selector", selector.place, node)}
    edges = _graph(graph.node, owner, report, rename) if graph else None
    if graph and isinstance(node, Fields) and isinstance(edges, Fields) and "edges" in edges.entries:
        narrowed = Fields({**node.entries, "edges": edges.entries["edges"]}, node.place)
        return {"selector": Entry("selector", selector.place, narrowed), "graph": graph}
    return used


def _selector(node: Node, owner: str, report: ProblemReport, rename: Rename) -> Node:
    if not isinstance(node, Fields):
        return node
    entries = {SELECTOR[name]: entry for name, entry in node.entries.items() if name in SELECTOR}
    model = node.text("model", "name") or node.text("model")
    if model:
        entries["model"] = Entry("model", node.key_place("model"), rename(model, "model"))
    if agent := node.text("agent"):
        entries["agent"] = Entry("agent", node.key_place("agent"), rename(agent, "agent"))
    for name, entry in node.entries.items():
        off = isinstance(entry.node, Scalar) and entry.node.value is False
        if name not in SELECTOR and not (name == SELECTOR_TERMINATES and off):
            hint = "give the selecting agent the tool 'terminate'" if name == SELECTOR_TERMINATES else ""
            hint = hint or report.near(name, SELECTOR, " ").strip()
            report.warning(entry.place, f"Ignored: {name!r} of the selector of {owner} is not supported", hint)
    return Fields(entries, node.place)


def _graph(node: Node, owner: str, report: ProblemReport, rename: Rename) -> Node:
    if not isinstance(node, Fields):
        return node
    for name in node.entries.keys() - {"edges"}:
        report.warning(node.key_place(name), f"Ignored: {name!r} of the graph of {owner} is not supported")
    edges = node.get("edges")
    if not isinstance(edges, Items):
        return Fields({name: entry for name, entry in node.entries.items() if name == "edges"}, node.place)
    items = tuple(_edge(edge, owner, report, rename) for edge in edges.items)
    options = {"edges": Entry("edges", node.key_place("edges"), Items(items, edges.place))}
    return Fields(options, node.place)


def _has_unreachable(spec: Fields) -> bool:
    """Whether some member can't be reached from the first one, which ARK allows."""
    edges, members = spec.get("graph", "edges"), spec.get("members")
    follower: dict[object, object] = {}
    for edge in edges.items if isinstance(edges, Items) else ():
        if isinstance(edge, Fields) and (start := edge.text("from")) and (end := edge.text("to")):
            follower.setdefault(start.value, end.value)
    listed = [
        item.text("name") for item in (members.items if isinstance(members, Items) else ()) if isinstance(item, Fields)
    ]
    names = [name.value for name in listed if name]
    here: object = names[0] if names else None
    reached: set[object] = set()
    while here is not None and here not in reached:
        reached.add(here)
        here = follower.get(here)
    return not reached.issuperset(names)


def _edge(node: Node, owner: str, report: ProblemReport, rename: Rename) -> Node:
    if not isinstance(node, Fields):
        return node
    for name in node.entries.keys() - EDGE:
        report.warning(node.key_place(name), f"Ignored: {name!r} of an edge of {owner} is not supported")
    kept = {name: entry for name, entry in node.entries.items() if name in EDGE}
    for name, entry in kept.items():
        if isinstance(entry.node, Scalar) and isinstance(entry.node.value, str):
            kept[name] = Entry(entry.key, entry.place, rename(entry.node, "member"))
    return Fields(kept, node.place)


def _check_branching(graph: Fields, owner: str, report: ProblemReport) -> None:
    """Report a member with several outgoing edges, between which ARK has no conditions to choose."""
    seen: set[str] = set()
    edges = graph.get("edges")
    for edge in edges.items if isinstance(edges, Items) else ():
        start = edge.text("from") if isinstance(edge, Fields) else None
        if start and str(start.value) in seen:
            message = f"{owner}: {shown(str(start.value))} has more than one outgoing edge"
            report.problem(start.place, message, "ARK allows one; a native manifest may have several, with conditions")
        elif start:
            seen.add(str(start.value))
