"""Checks of what a manifest takes from outside: environment variables, which may be secrets, and Python modules.

A secret would otherwise reach a model, a record or the list of processes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from teamwright.agents.clients.providers import MODEL, missing_extra
from teamwright.agents.functions.agent import required_parameters
from teamwright.agents.functions.imports import Function, load_function
from teamwright.agents.functions.instructions import FORM as GUARDRAIL, check_arity
from teamwright.agents.scripted import Script
from teamwright.agents.tools.registry import find_kind, kinds_in
from teamwright.documents.nodes import Fields, Items, Node, ProblemReport, Scalar
from teamwright.documents.schema_check import import_path_in, is_import_path
from teamwright.errors import ManifestError, Problem
from teamwright.teams.manifests.declarations import Declaration, Declarations, Kind
from teamwright.teams.manifests.reference_checks import functions_around
from teamwright.values.names import REFERENCE, is_web_address, resolved, variables_of
from teamwright.values.provider_keys import (
    ALLOW_HOSTS,
    PROVIDER_KEYS,
    Destination,
    KeyGrants,
    address_destination,
    is_own_destination,
)
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import program_of
from teamwright.values.text.display import cut
from teamwright.values.text.secrets import NAMED_BY_OTHERS, OWN_SECRETS, is_secret_name, may_hold_secret, secret_spans

SCRIPTED = "scripted:"


def check_imports(declared: Declarations, report: ProblemReport, *, models_replaced: bool) -> None:
    """Report every function and script that can't be used, and warn about extras that are not installed."""
    checks = _ImportChecks(report)
    for tool in declared.every("tool"):
        checks.check_tool(tool.fields, tool.words)
    for agent in declared.every("agent"):
        checks.check_agent(agent)
    if models_replaced:
        return
    for model in declared.every("model"):
        checks.check_model(model.node, model)
    for agent in declared.every("agent"):
        checks.check_models(agent)


@dataclass(slots=True)
class _ImportChecks:
    report: ProblemReport
    scripts: set[Path] = field(default_factory=set[Path])

    def check_agent(self, agent: Declaration) -> None:
        """Check the agent's function and inline tools."""
        if path := import_path_in(agent.fields):
            function = self._load(path, agent.words)
            if function is not None:
                self.report.collect(path.place, agent.words, required_parameters, function, "'function'")
        for name, path in functions_around(agent).items():
            function = self._load(path, agent.words)
            if function is not None:
                count, form = (1, "a function (ctx)") if name == "instructions" else (2, GUARDRAIL)
                self.report.collect(path.place, agent.words, check_arity, function, count, form, repr(name))
        tools = agent.fields.get("tools")
        for item in tools.items if isinstance(tools, Items) else ():
            if isinstance(item, Fields):
                self.check_tool(item, agent.words)

    def check_tool(self, fields: Fields, owner: str) -> None:
        for name in kinds_in(fields.entries):
            find_kind(name).check_imports(fields, owner, self.report)

    def check_models(self, agent: Declaration) -> None:
        """Check the agent's scripts and inline models."""
        fallback = agent.fields.get("fallback")  # a text is the name of an agent
        for node in (*map(agent.fields.get, ("model", "economy", "stronger")), fallback):
            if node is not None and (node is not fallback or isinstance(node, Fields)):
                self.check_model(node, agent)

    def check_model(self, node: Node, owner: Declaration) -> None:
        """Check the script of a scripted model, or the extra that the model needs."""
        while isinstance(node, Fields):
            inner = node.get("model")
            if inner is None:
                return
            node = inner
        name = str(node.value) if isinstance(node, Scalar) else ""
        if not MODEL.fullmatch(name) or "${" in name:
            return
        if name.startswith(SCRIPTED):
            self._check_script(name.removeprefix(SCRIPTED), owner)
        elif missing := missing_extra(name):
            self.report.warning(node.place, f"{owner.words}: {missing}")

    def _load(self, path: Scalar, owner: str) -> Function | None:
        """Import a function; what is no import path was reported before."""
        if not is_import_path(path):
            return None
        return self.report.collect(path.place, owner, load_function, str(path.value), "the function")

    def _check_script(self, file: str, owner: Declaration) -> None:
        """Report the mistakes of each script once; a missing script was reported before."""
        path = owner.folder / file
        try:
            if "${" in file or path in self.scripts or not path.is_file():
                return
            self.scripts.add(path)
            Script.load(path)
        except (OSError, ValueError):
            return
        except ManifestError as error:
            self.report.problems.extend(error.problems)


MODELS = frozenset(("model", "economy", "stronger", "fallback"))
"""The fields of an agent that declare models."""
ON_COMMAND_LINES = frozenset(("command",))
OWN_HINT = "it holds an address or a secret of Teamwright itself, which no manifest may use"
SECRETS_HINT = "secrets go into api_key, headers, env, url and webhook; if it is not a secret, rename the variable"
FULL_ADDRESS = "write it in full, for example http://localhost:8000/v1"
LONGEST_KEY = 64
"""The most characters of a field's name that a message shows."""
FieldPath = tuple[str, ...]
MCP = "mcp"
NAMELESS = NAMED_BY_OTHERS | {"settings"}
"""Fields whose keys name no receiver."""
PROMPT = Destination("field", "")
"""Of a value that stays in the manifest, and so reaches models and records."""


def check_variables(declared: Declarations, report: ProblemReport) -> None:
    """Report each secret that would be sent to a model, recorded, or visible in the list of processes."""
    plain: set[int] = set()
    for kind in ("agent", "team", "model", "tool"):
        for one in declared.every(kind):
            found: list[tuple[FieldPath, Scalar]] = []
            _collect(one.node, (), found, plain)
            for path, scalar in found:
                _check_references(one, path, scalar, report)
            _check_command_lines(one, found, report)


def check_environment(
    declared: Declarations,
    report: ProblemReport,
    *,
    models_replaced: bool,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Warn about each variable that is not set, and report each address that the values of its variables make invalid.

    With `models_replaced`, nothing reads the variables of models.
    """
    plain: set[int] = set()
    kinds: tuple[Kind, ...] = ("agent", "team", "tool") if models_replaced else ("agent", "team", "model", "tool")
    for kind in kinds:
        for one in declared.every(kind):
            found: list[tuple[FieldPath, Scalar]] = []
            _collect(one.node, (), found, plain)
            for path, scalar in found:
                if not models_replaced or MODELS.isdisjoint(path[:1]):
                    _check_values(one, path, scalar, environment, report)


def _check_values(
    owner: Declaration, path: FieldPath, text: Scalar, environment: Mapping[str, str], report: ProblemReport
) -> None:
    names = variables_of(str(text.value))
    for name in names:
        if name not in environment:
            report.warning(
                text.place,
                f"{owner.words}: the environment variable {name!r} is not set, and {_shown(path)} needs it",
                f"set it before a run, or write $${{{name}}} for the text itself",
            )
    if not names or not is_address((owner.kind, *path)) or any(name not in environment for name in names):
        return
    if not is_web_address(resolved(str(text.value), environment)):
        report.problem(text.place, f"{owner.words}: {not_an_address(path, names)}", FULL_ADDRESS)


def is_address(path: Sequence[str]) -> bool:
    """Whether the field at a path, which begins with the kind of its declaration, is the address of a server."""
    *_, around, name = "", *(part for part in path if not part.isdigit())
    if name == "url":
        return around in MODELS or around in {"mcp", "models"}
    return (around, name) == ("notify", "webhook")


def not_an_address(path: Sequence[str], names: Sequence[str]) -> str:
    """Word that an address is invalid once its variables are read. Their values, maybe secrets, are not shown."""
    return f"{_shown(tuple(path))} is not an http address with the value of {' and '.join(map(repr, names))}"


def _check_references(owner: Declaration, path: FieldPath, text: Scalar, report: ProblemReport) -> None:
    names = dict.fromkeys(variables_of(str(text.value)))
    for name in names:
        if name in OWN_SECRETS:
            report.problem(text.place, f"{owner.words}: {_shown(path)} may not read {name!r}", OWN_HINT)
        elif is_secret_name(name) and not may_hold_secret(path):
            report.problem(
                text.place,
                f"{owner.words}: {_shown(path)} may not read {name!r}, which is a secret by its name",
                SECRETS_HINT,
            )


def _shown(path: FieldPath) -> str:
    """The fields of a path, cut, because untrusted keys may be long and occur in many messages."""
    return ".".join(cut(key, LONGEST_KEY) for key in path) or "it"


def _check_command_lines(owner: Declaration, texts: list[tuple[FieldPath, Scalar]], report: ProblemReport) -> None:
    """Report secrets in command lines, also one that follows the option that names it."""
    words = [(path, text) for path, text in texts if "mcp" in path and not ON_COMMAND_LINES.isdisjoint(path)]
    if not words:
        return
    at, spans = 0, deque(secret_spans(" ".join(str(text.value) for _, text in words)))
    for path, text in words:
        end = at + len(str(text.value))
        while spans and spans[0][1] <= at:
            spans.popleft()
        if spans and spans[0][0] < end:
            report.problem(
                text.place,
                f"{owner.words}: {_shown(path)} holds a secret, and every user of the machine can read command lines",
                "put it under env, and let the server read it from there",
            )
        at = end + 1


def _collect(node: Node, path: FieldPath, found: list[tuple[FieldPath, Scalar]], plain: set[int]) -> None:
    """Collect the texts that refer to variables, and those of command lines, with their paths.

    `plain` holds nodes without any, so that a node shared by aliases is searched once.
    """
    if id(node) in plain:
        return
    before = len(found)
    match node:
        case Scalar(value=str() as value) if "${" in value or "mcp" in path:
            found.append((path, node))
        case Scalar():
            return
        case Items():
            for item in node.items:
                _collect(item, path, found, plain)
        case Fields():
            for key, entry in node.entries.items():
                _collect(entry.node, (*path, key), found, plain)
    if len(found) == before and "mcp" not in path:
        plain.add(id(node))


@dataclass(frozen=True, slots=True)
class VariableUse:
    """A variable that a manifest reads, and the path of the field that does."""

    variable: str
    path: FieldPath

    @property
    def field(self) -> str:
        return ".".join(self.path)


def variable_uses(data: JsonValue, path: FieldPath = ()) -> Iterator[VariableUse]:
    """Return every use of a variable in the data of a manifest: references, wherever they are."""
    match data:
        case str():
            names = dict.fromkeys(found[1] for found in REFERENCE.finditer(data) if found[1]) if "${" in data else ()
            yield from (VariableUse(name, path) for name in names)
        case list():
            for index, item in enumerate(data):
                yield from variable_uses(item, (*path, str(index)))
        case dict():
            for key, item in data.items():
                yield from variable_uses(item, (*path, key))
        case _:
            return


def destinations(data: JsonValue, path: FieldPath) -> tuple[Destination, ...]:
    """Return where the value of the field at this path is sent; `PROMPT` for a field that is no credential's."""
    if not may_hold_secret(path[2:]):
        return (PROMPT,)
    models = data.get("models") if isinstance(data, dict) else None
    enclosing, kind = _enclosing(data, path)
    if kind not in ("", MCP):
        return (Destination("tool", kind),)
    for fields in reversed(enclosing):
        if found := tuple(dict.fromkeys(_receivers(fields, models if isinstance(models, dict) else {}))):
            return found
    return (Destination("field", ".".join(path)),)


def _enclosing(data: JsonValue, path: FieldPath) -> tuple[list[Mapping[str, JsonValue]], str]:
    """Return the mappings of a declaration around the field, and the kind of the tool if it is one's.

    Mappings whose keys others choose are left out: a header may be called `url`.
    """
    found: list[Mapping[str, JsonValue]] = []
    kind, node = "", data
    for depth, key in enumerate(path):
        if isinstance(node, dict):
            if depth >= 2 and path[depth - 1] not in NAMELESS:
                found.append(node)
            if (path[0] == "tools" and depth == 2) or (path[0] == "agents" and depth == 4 and path[2] == "tools"):
                kind = key
            node = node.get(key)
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            break
    return found, kind


def _receivers(fields: Mapping[str, JsonValue], models: Mapping[str, JsonValue]) -> Iterator[Destination]:
    """Return who receives the values in a mapping, by the fields that it has; nothing if they do not say."""
    for name in ("url", "webhook"):
        if isinstance(address := fields.get(name), str):
            yield address_destination(address)
            return
    if (program := program_of(fields.get("command"))) is not None:
        yield Destination("program", program)
        return
    named = [fields.get(name) for name in ("model", "economy", "stronger")]
    if isinstance(fallback := fields.get("fallback"), dict):  # else the name of an agent or a team
        named.append(fallback)
    if "model" in fields:
        named += [name for name in ("economy", "stronger") if name not in fields and name in models]
    for model in named:
        yield from _model_receivers(model, models)


def _model_receivers(model: JsonValue, models: Mapping[str, JsonValue], depth: int = 0) -> Iterator[Destination]:
    """Return the server or the provider of a model, by its name, by its declaration, or under another name."""
    if isinstance(model, str) and model in models and depth < len(models):
        yield from _model_receivers(models[model], models, depth + 1)
    elif isinstance(model, str) and ":" in model:
        provider = model.partition(":")[0]
        yield Destination("provider", "gateway" if provider.startswith("gateway/") else provider)
    elif isinstance(model, dict):
        if isinstance(url := model.get("url"), str):
            yield address_destination(url)
        elif "model" in model:
            yield from _model_receivers(model["model"], models, depth + 1)


def misdirected_keys(
    uses: Iterable[VariableUse], written: JsonValue, resolved: JsonValue, grants: KeyGrants
) -> Iterator[tuple[VariableUse, Problem]]:
    """Return a problem for each key of a provider that would go elsewhere, with its use.

    `written` is the manifest before its variables were resolved, for messages: an address may contain a secret.
    """
    for use in dict.fromkeys(uses):
        shown = destinations(written, use.path)
        for index, to in enumerate(destinations(resolved, use.path)):
            if to == PROMPT or is_own_destination(use.variable, to) or grants.names(use.variable, to):
                continue
            place = shown[index] if index < len(shown) and _reads_secret(shown[index].name) else to
            owner = PROVIDER_KEYS[use.variable].providers[0]
            why = "without https" if is_own_destination(use.variable, _secured(to)) else "which is not its provider"
            hint = f"use a key of its own there, or allow it with  {ALLOW_HOSTS}={use.variable}@{place.name}"
            text = f"{use.field} would send {use.variable}, the key of {owner!r}, to {place}, {why}"
            yield use, Problem(text, suggestion=hint)


def _secured(to: Destination) -> Destination:
    return Destination(to.kind, to.name, to.port)


def _reads_secret(text: str) -> bool:
    return any(found[1] and is_secret_name(found[1]) for found in REFERENCE.finditer(text))


@dataclass(frozen=True, slots=True)
class SentVariable:
    """A variable and where it goes, for people who inspect a manifest."""

    variable: str
    to: str
    by: str

    def __str__(self) -> str:
        return f"{self.variable} goes to {self.to} ({self.by})"

    def to_json(self) -> dict[str, JsonValue]:
        return {"variable": self.variable, "to": self.to, "by": self.by}


def sent_variables(manifest: Manifest) -> list[SentVariable]:
    """Return which variables a manifest sends where: those that it names, and keys of the providers that it names."""
    data: dict[str, JsonValue] = manifest.model_dump(mode="json", exclude_unset=True)
    found: dict[SentVariable, None] = {}
    for use in variable_uses(data):
        for to in destinations(data, use.path):
            found[SentVariable(use.variable, "the text of the field" if to == PROMPT else str(to), use.field)] = None
    for provider, by in _providers(data).items():
        name = next((name for name, key in PROVIDER_KEYS.items() if provider in key.providers), None)
        if name is not None:
            found[SentVariable(name, f"the provider {provider!r}", by)] = None
    return list(found)


def _providers(data: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the providers of models by name, each with the first declaration that names it."""
    found: dict[str, str] = {}
    models, agents = (part if isinstance(part := data.get(one), dict) else {} for one in ("models", "agents"))
    named = [(f"models.{name}", {"model": model}) for name, model in models.items()]
    for by, fields in (*named, *((f"agents.{name}", agent) for name, agent in agents.items())):
        for to in _receivers(fields if isinstance(fields, dict) else {}, models):
            if to.kind == "provider":
                found.setdefault(to.name, by)
    return found
