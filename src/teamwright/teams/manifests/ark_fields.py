"""Translates names, models and strategies of ARK documents into native ones.

In a cluster, names are unique per kind and namespace; agents and teams share ours. On a conflict, a team keeps its
name, and the others get a longer one with a warning; references follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from teamwright.documents.nodes import Entry, Fields, Items, Node, ProblemReport, Scalar, shown
from teamwright.values.names import suggest_name

DEFAULT_NAMESPACE = "default"
ORDER = ("team", "agent", "model", "query")
"""The kinds by their priority on a conflict."""
LONGEST = 64

Key = tuple[str, str, str]
"""Kind, namespace and name."""


def namespace_of(root: Fields) -> str:
    """The namespace of a document."""
    given = root.text("metadata", "namespace")
    return str(given.value) if given and given.value else DEFAULT_NAMESPACE


@dataclass(slots=True)
class ArkNames:
    """The native names of all documents that are loaded together."""

    _names: dict[Key, str] = field(default_factory=dict[Key, str])
    _namespaces: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _taken: dict[tuple[str, str], Key] = field(default_factory=dict[tuple[str, str], Key])
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The last number that was appended to a name, so that none is tried twice."""

    @classmethod
    def of(cls, documents: Iterable[Fields], report: ProblemReport) -> ArkNames:
        """Assign each document a name, and warn about those that can't keep theirs."""
        names = cls()
        found: list[tuple[str, str, Scalar]] = []
        for root in documents:
            kind, name = root.text("kind"), root.text("metadata", "name")
            if kind and name and str(kind.value).lower() in ORDER:
                found.append((str(kind.value).lower(), namespace_of(root), name))
        late: list[tuple[Key, Scalar]] = []
        for kind, namespace, name in sorted(found, key=lambda one: ORDER.index(one[0])):
            key = (kind, namespace, str(name.value))
            names._namespaces.setdefault((kind, key[2]), namespace)
            if key not in names._names and not names._claim(key):
                late.append((key, name))
        for key, name in late:
            if key not in names._names:
                names._rename(key, name, report)
        return names

    def resolve(self, kind: str, namespace: str, name: str) -> str:
        """The native name of a referenced document: of the one in this namespace, else in the first that has it."""
        for key in ((kind, namespace, name), (kind, self._namespaces.get((kind, name), namespace), name)):
            if key in self._names:
                return self._names[key]
        return name

    def _claim(self, key: Key) -> bool:
        """Let a document keep its name if it is free, and return whether it was."""
        place = (_family(key), key[2])
        if self._taken.setdefault(place, key) is not key:
            return False
        self._names[key] = key[2]
        return True

    def _rename(self, key: Key, place: Scalar, report: ProblemReport) -> None:
        kind, namespace, name = key
        rival = self._taken[_family(key), name]
        same = rival[1] == namespace
        chosen = self._free(_family(key), f"{name}-{kind}" if same else suggest_name(f"{namespace}.{name}"))
        owner = f"{rival[0]} {shown(name)}" + ("" if same else f" of namespace {shown(rival[1])}")
        message = f"{kind} {shown(name)} is renamed to {shown(chosen)}, because {owner} has the name"
        report.warning(place.place, message)
        self._names[key] = chosen
        self._taken[_family(key), chosen] = key

    def _free(self, family: str, wanted: str) -> str:
        chosen, stem = wanted[:LONGEST], wanted[: LONGEST - 6]
        while (family, chosen) in self._taken:
            self._numbers[family, stem] += 1
            chosen = f"{stem}-{self._numbers[family, stem] + 1}"
        return chosen


def _family(key: Key) -> str:
    """The native namespace of a kind: agents and teams share one."""
    return "member" if key[0] in {"team", "agent"} else key[0]


PROTOCOLS = {"completions", "embeddings"}
OWN_ADDRESSES = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "azure": "AZURE_OPENAI_API_KEY"}
ADDRESS_VARIABLES = {"azure": "AZURE_OPENAI_ENDPOINT", "anthropic": "ANTHROPIC_BASE_URL"}

UNKNOWN = "unknown"
"""The name of a replaced model whose real name only the cluster knows."""


def translate_model(name: str, spec: Fields, report: ProblemReport, *, replaced: bool = False) -> Node | None:
    """Return the model in native terms; report a problem and return None if it has no name and is not replaced."""
    owner = f"model {shown(name)}"
    model = _value(spec, "model", owner, report) or spec.text("model")
    provider = _provider(spec)
    if not model and replaced:
        model = Scalar(UNKNOWN, spec.key_place("model"))
    if not model:
        in_cluster = spec.get("model", "valueFrom") is not None
        message = "the model's name is stored in a cluster ('valueFrom')" if in_cluster else "'model.value' is missing"
        hint = "write its name as model.value, or use another model with  --model"
        report.problem(spec.key_place("model"), f"{owner}: {message}", hint)
        return None
    for key in spec.entries.keys() - {"model", "type", "provider", "config"}:
        report.warning(spec.key_place(key), f"Ignored: {key!r} of {owner} is not supported")
    config = spec.get("config", provider)
    settings = config if isinstance(config, Fields) else Fields({}, spec.place)
    _note_other_providers(spec, provider, owner, report)
    for key in settings.entries.keys() - {"baseUrl", "apiKey"}:
        report.warning(settings.key_place(key), f"Ignored: {key!r} of {owner} is not supported")
    address = _value(settings, "baseUrl", owner, report)
    if provider == "openai" and address and not (_is_own(provider, address) and not settings.text("apiKey", "value")):
        return _server(model, address, settings, owner, report)
    _note_environment(provider, settings, address, owner, report)
    return Scalar(f"{provider}:{model.value}", model.place, model.raw)


def _provider(spec: Fields) -> str:
    """Newer documents say `provider`; in older ones `type` is the provider."""
    written = spec.text("provider")
    kind = spec.text("type")
    if written is None and kind and kind.value not in PROTOCOLS:
        written = kind
    return str(written.value).strip().lower() if written else "openai"


def _value(fields: Fields, key: str, owner: str, report: ProblemReport) -> Scalar | None:
    """The `value` of a setting; warns about one that is stored in a cluster."""
    if fields.get(key, "valueFrom") is not None:
        source = fields.get(key, "valueFrom")
        place = source.place if source else fields.key_place(key)
        report.warning(place, f"Ignored: {key!r} of {owner} is stored in a cluster ('valueFrom')", f"write {key}.value")
    return fields.text(key, "value")


def _is_own(provider: str, address: Scalar) -> bool:
    try:
        return urlsplit(str(address.value)).hostname == OWN_ADDRESSES.get(provider)
    except ValueError:
        return False


def _server(model: Scalar, address: Scalar, settings: Fields, owner: str, report: ProblemReport) -> Fields:
    entries = {"url": Entry("baseUrl", address.place, address), "name": Entry("model", model.place, model)}
    if key := _value(settings, "apiKey", owner, report):
        entries["api_key"] = Entry("apiKey", key.place, key)
    return Fields(entries, settings.place)


def _note_environment(
    provider: str, settings: Fields, address: Scalar | None, owner: str, report: ProblemReport
) -> None:
    """Warn about settings that are read from the environment instead."""
    if address and not _is_own(provider, address):
        hint = f"set {ADDRESS_VARIABLES[provider]}" if provider in ADDRESS_VARIABLES else ""
        report.warning(address.place, f"Ignored: 'baseUrl' of {owner} is not supported for {provider!r}", hint)
    if "apiKey" in settings.entries:
        hint = f"set {KEY_VARIABLES[provider]}" if provider in KEY_VARIABLES else ""
        message = f"Ignored: 'apiKey' of {owner} is read from the environment instead"
        report.warning(settings.key_place("apiKey"), message, hint)


def _note_other_providers(spec: Fields, provider: str, owner: str, report: ProblemReport) -> None:
    config = spec.get("config")
    for key in config.entries if isinstance(config, Fields) else ():
        if key != provider and isinstance(config, Fields):
            report.warning(config.key_place(key), f"Ignored: {owner} is of {provider!r}, so 'config.{key}' is not used")


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
