"""Translates ARK documents (`apiVersion: ark.mckinsey.com/v1alpha1`; Team, Agent, Model, Query) into native terms.

Each field is either translated or named in a warning; none is dropped silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from teamwright.documents.nodes import Entry, Fields, Items, Node, Place, ProblemReport, Scalar, described, shown
from teamwright.documents.schema_check import SchemaCheck
from teamwright.teams.manifests.ark_fields import ArkNames, namespace_of, translate_model, translate_options
from teamwright.teams.manifests.declarations import (
    Declaration,
    Declarations,
    Kind,
    Query,
    Reference,
    strategy_of,
    with_helper,
)
from teamwright.teams.manifests.schema import definitions, section_value
from teamwright.values.specs.tools import TERMINATE

GROUP = "ark.mckinsey.com"
VERSION = f"{GROUP}/v1alpha1"
KINDS = ("Agent", "Team", "Model", "Query")
OTHER_KINDS = {
    "A2AServer", "A2ATask", "ArkConfig", "Evaluation", "Evaluator", "ExecutionEngine", "ExecutionProfile", "MCPServer",
    "Memory", "Tool", "ToolApprovalRequest", "Workspace",
}  # fmt: skip
BUILT_IN = {"built-in", "builtin"}
RENAMED = {
    "Agent": {"prompt": "instructions", "description": "description", "outputSchema": "output_schema"},
    "Team": {"strategy": "strategy", "description": "description", "maxTurns": "max_turns"},
}
"""Fields that only have another name in native terms."""
UNSUPPORTED = {
    "Agent": {"executionEngine", "overrides", "parameters", "pod", "a2aPod"},
    "Team": {"selector", "graph"},
    "Query": {
        "cancel", "conversationId", "evaluators", "memory", "overrides", "parameters", "selector", "serviceAccount",
        "sessionId", "timeout", "ttl",
    },
}  # fmt: skip


def is_kubernetes(root: Fields) -> bool:
    """Whether a document has the form of a Kubernetes resource."""
    return "apiVersion" in root.entries or {"kind", "metadata"} <= root.entries.keys()


def is_ark(root: Fields) -> bool:
    """Whether a document is an ARK resource."""
    version = root.text("apiVersion")
    return version is not None and str(version.value).startswith(f"{GROUP}/")


@dataclass(frozen=True, slots=True)
class ArkReader:
    """Reads ARK documents that are loaded together, after the native ones, which may supply tools.

    With `models_replaced`, a model may lack a name, because the caller replaces all models.
    """

    names: ArkNames
    declared: Declarations
    report: ProblemReport
    models_replaced: bool = False

    def read(self, root: Fields, folder: Path) -> None:
        """Translate one document and add its declarations."""
        report = self.report
        found = _check_head(root, report)
        if found is None:
            return
        kind, name, spec = found
        namespace = namespace_of(root)
        known = self.names.resolve(kind.lower(), namespace, str(name.value))
        _Document(kind, known, name.place, spec, folder, self, namespace).read()


def _check_head(root: Fields, report: ProblemReport) -> tuple[str, Scalar, Fields] | None:
    """Return the kind, name and spec of an ARK document; report anything else and return None."""
    version, kind = root.text("apiVersion"), root.text("kind")
    if not version and kind and kind.value in KINDS:
        report.problem(root.place, f"{kind.value}: 'apiVersion' is missing", f"write  apiVersion: {VERSION}")
        return None
    if not version or not is_ark(root):
        given = (
            shown(str(version.value)) if version else f"a document of kind {shown(str(kind.value))}" if kind else "this"
        )
        report.warning(
            root.key_place("apiVersion"), f"Ignored: {given} is not {VERSION!r}", "only ARK documents are loaded"
        )
        return None
    if not kind or kind.value not in KINDS:
        _note_kind(root, kind, report)
        return None
    if version.value != VERSION:
        report.warning(version.place, f"The version {shown(str(version.value))} is read as {VERSION!r}")
    name, spec = root.text("metadata", "name"), root.get("spec")
    if not name:
        report.problem(root.key_place("metadata"), f"{kind.value}: 'metadata.name' is missing")
    if not isinstance(spec, Fields):
        report.problem(root.key_place("spec"), f"{kind.value}: 'spec' is missing")
    for key in root.entries.keys() - {"apiVersion", "kind", "metadata", "spec"}:
        report.warning(root.key_place(key), f"Ignored: {key!r} of the {kind.value} is not supported")
    return (str(kind.value), name, spec) if name and isinstance(spec, Fields) else None


def _note_kind(root: Fields, kind: Scalar | None, report: ProblemReport) -> None:
    place = kind.place if kind else root.key_place("kind")
    if kind and kind.value in OTHER_KINDS:
        report.warning(place, f"Ignored: documents of kind {shown(str(kind.value))} are not supported")
    elif kind:
        report.problem(
            place, f"{shown(str(kind.value))} is not a kind of document", report.near(str(kind.value), KINDS)
        )
    else:
        report.problem(place, "'kind' is missing", f"it is one of {', '.join(KINDS)}")


@dataclass(slots=True)
class _Document:
    """The translation of one document into native terms."""

    kind: str
    name: str
    place: Place
    spec: Fields
    folder: Path
    reader: ArkReader
    namespace: str
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    flawed: bool = False
    types: dict[str, str] | None = None

    @property
    def declared(self) -> Declarations:
        return self.reader.declared

    @property
    def report(self) -> ProblemReport:
        return self.reader.report

    def read(self) -> None:
        match self.kind:
            case "Agent":
                self._agent()
                self._declare("agent", "agents", Fields(self.entries, self.spec.place))
            case "Team":
                self._team()
                self._declare("team", "teams", Fields(self.entries, self.spec.place))
            case "Model":
                model = translate_model(self.name, self.spec, self.report, replaced=self.reader.models_replaced)
                if model:
                    self._declare("model", "models", model)
            case _:
                self._query()

    def _declare(self, kind: Kind, section: str, node: Node) -> None:
        declaration = Declaration(kind, self.name, self.place, node, self.folder, True, self.flawed)
        if kind == "team":
            declaration = with_helper(declaration, self.declared, self.report)
        self.declared.add(declaration, self.report)
        SchemaCheck(declaration.words, self.report, definitions()).check(declaration.node, section_value(section))

    def _agent(self) -> None:
        self._rename_fields(RENAMED["Agent"])
        prompt = self.spec.get("prompt")
        if prompt is not None and not (isinstance(prompt, Scalar) and isinstance(prompt.value, str)):
            self.report.problem(prompt.place, f"{self._owner}: 'prompt' expects text, found {described(prompt)}")
            self.entries.pop("instructions")
        self._note_unsupported({"modelRef", "tools"})
        if "modelRef" in self.spec.entries:
            model = self.spec.text("modelRef", "name")
            if model:
                home = self.spec.text("modelRef", "namespace")
                self._put("model", "modelRef", self._renamed(model, "model", str(home.value) if home else ""))
            else:
                self.report.problem(self.spec.key_place("modelRef"), f"{self._owner}: 'modelRef.name' is missing")
            self._note_rest(self.spec.get("modelRef"), {"name", "namespace"}, "modelRef")
        if "tools" in self.spec.entries:
            names = [tool for item in self._list("tools") if (tool := self._tool(item))]
            self._put("tools", "tools", Items(tuple(names), self.spec.entries["tools"].node.place))

    def _tool(self, item: Node) -> Scalar | None:
        fields = item if isinstance(item, Fields) else Fields({}, item.place)
        name, kind = fields.text("name"), fields.text("type")
        if not name:
            self.report.problem(item.place, f"{self._owner}: each tool is a mapping with 'name' and 'type'")
            return None
        self._note_rest(fields, {"name", "type"}, f"tool {shown(str(name.value))}")
        if name.value in self.declared.tools or (name.value == TERMINATE and (not kind or kind.value in BUILT_IN)):
            return name
        words = f"of type {shown(str(kind.value))} " if kind else ""
        self.report.warning(
            item.place,
            f"{self._owner}: the tool {shown(str(name.value))} {words}is not supported, so the agent does not get it",
            f"declare {shown(str(name.value))} under 'tools' of a native manifest to supply it",
        )
        return None

    def _team(self) -> None:
        self._rename_fields(RENAMED["Team"])
        before = len(self.report.problems)
        options = translate_options(strategy_of(self.spec), self.spec, self._owner, self.report, self._rename_option)
        self.flawed = len(self.report.problems) > before
        self._note_unsupported({"members", "loops", *options})
        for entry in list(options.values())[:1]:
            self.entries["options"] = entry
        self._loops()
        if "strategy" not in self.spec.entries:
            self.report.problem(self.spec.place, f"{self._owner}: 'strategy' is missing")
        if "members" in self.spec.entries:
            names = [member for item in self._list("members") if (member := self._member(item))]
            self._put("members", "members", Items(tuple(names), self.spec.entries["members"].node.place))

    def _loops(self) -> None:
        """Translate a sequential team with `loops: true`, which older ARK versions call round-robin."""
        loops, strategy = self.spec.get("loops"), self.spec.text("strategy")
        if not isinstance(loops, Scalar) or loops.value is False or loops.value is None:
            return
        if loops.value is True and strategy and strategy.value == "sequential":
            self._put("strategy", "loops", Scalar("round_robin", loops.place, "round-robin"))
            if turns := self.entries.pop("max_turns", None):  # with loops, ARK counts single turns
                block = Fields({"turns": turns}, turns.node.place)
                self.entries["options"] = Entry("maxTurns", turns.place, block)
        else:
            self._warn_ignored("loops")

    def _member(self, item: Node) -> Scalar | None:
        fields = item if isinstance(item, Fields) else Fields({}, item.place)
        name, kind = fields.text("name"), fields.text("type")
        if not name:
            message = f"{self._owner}: each member is a mapping with 'name' and 'type', and this is {described(item)}"
            self.report.problem(item.place, message, "write  {name: …, type: agent}")
            return item if isinstance(item, Scalar) and isinstance(item.value, str) else None
        self._note_rest(fields, {"name", "type"}, f"member {shown(str(name.value))}")
        if kind and kind.value not in {"agent", "team"}:
            hint = self.report.near(str(kind.value), ["agent", "team"])
            message = f"{self._owner}: the type of a member is 'agent' or 'team', not {shown(str(kind.value))}"
            self.report.problem(kind.place, message, hint)
        elif kind:
            name = self._renamed(name, str(kind.value))
            self.declared.typed[name.place] = Reference(str(name.value), name.place, str(kind.value))
        else:
            name = self._rename_option(name, "member")
        return name

    def _renamed(self, name: Scalar, kind: str, namespace: str = "") -> Scalar:
        """A reference to another document under its native name."""
        known = self.reader.names.resolve(kind, namespace or self.namespace, str(name.value))
        return name if known == name.value else Scalar(known, name.place, name.raw)

    def _rename_option(self, name: Scalar, kind: str) -> Scalar:
        """A reference in options under its native name; a member without a type is an agent, else a team."""
        if kind != "member":
            return self._renamed(name, kind)
        if typed := self._types().get(str(name.value)):
            return self._renamed(name, typed)
        found = self._renamed(name, "agent")
        return found if found is not name else self._renamed(name, "team")

    def _types(self) -> dict[str, str]:
        """The types of the team's members, by name."""
        if self.types is None:
            self.types = {}
            members = self.spec.get("members")
            for item in members.items if isinstance(members, Items) else ():
                name, kind = (item.text("name"), item.text("type")) if isinstance(item, Fields) else (None, None)
                if name and kind:
                    self.types.setdefault(str(name.value), str(kind.value))
        return self.types

    def _query(self) -> None:
        self._note_unsupported({"input", "type", "target", "targets"})
        task = self.spec.text("input")
        if not task:
            self.report.warning(
                self.spec.key_place("input"),
                f"Ignored: {self._owner} has no text as 'input'",
                "lists are not supported",
            )
            return
        targets = [item for item in self._list("targets") if isinstance(item, Fields)]
        single = self.spec.get("target")
        if isinstance(single, Fields):
            targets.insert(0, single)
        for extra in targets[1:]:
            self.report.warning(extra.place, f"Ignored: {self._owner} has several targets, and only the first is used")
        name = targets[0].text("name") if targets else None
        kind = targets[0].text("type") if targets else None
        if kind and kind.value not in {"agent", "team"}:
            self.report.warning(
                kind.place, f"Ignored: {self._owner} is for {shown(str(kind.value))}, not an agent or team"
            )
            return
        if name:
            name = self._renamed(name, str(kind.value)) if kind else self._rename_option(name, "member")
        self._add_query(str(task.value), name, str(kind.value) if kind else "")

    def _add_query(self, task: str, target: Scalar | None, kind: str) -> None:
        if taken := self.declared.queries.get(self.name):
            message = f"There is already a query {shown(self.name)}"
            self.report.problem(self.place, message, f"it is declared at {taken.place}; rename or remove one")
            return
        place = target.place if target else self.place
        self.declared.queries[self.name] = Query(self.name, task, str(target.value) if target else "", kind, place)

    @property
    def _owner(self) -> str:
        return f"{self.kind.lower()} {shown(self.name)}"

    def _rename_fields(self, names: dict[str, str]) -> None:
        """Copy fields that only have another name in native terms."""
        for theirs, ours in names.items():
            if theirs in self.spec.entries:
                self._put(ours, theirs, self.spec.entries[theirs].node)

    def _put(self, ours: str, theirs: str, node: Node) -> None:
        self.entries[ours] = Entry(theirs, self.spec.key_place(theirs), node)

    def _list(self, name: str) -> tuple[Node, ...]:
        node = self.spec.get(name)
        if node is None or isinstance(node, Items):
            return node.items if node else ()
        self.report.problem(node.place, f"{self._owner}: {name!r} expects a list, found {described(node)}")
        return ()

    def _note_unsupported(self, read: set[str]) -> None:
        known = {*read, *(entry.key for entry in self.entries.values())}
        fields = {*read, *RENAMED.get(self.kind, ())}  # suggest no field that is not supported either
        for name in self.spec.entries:
            if name in known:
                continue
            hint = "" if name in UNSUPPORTED[self.kind] else self.report.near(name, fields, " ")
            self._warn_ignored(name, hint.strip())

    def _note_rest(self, node: Node | None, read: set[str], where: str) -> None:
        for name in node.entries if isinstance(node, Fields) else ():
            if name not in read and isinstance(node, Fields):
                message = f"Ignored: {name!r} of the {where} of {self._owner} is not supported"
                self.report.warning(node.key_place(name), message)

    def _warn_ignored(self, name: str, hint: str = "") -> None:
        self.report.warning(self.spec.key_place(name), f"Ignored: {name!r} of {self._owner} is not supported", hint)
