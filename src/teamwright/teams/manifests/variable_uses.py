"""Finds where each environment variable of a manifest goes: to which host, provider or program.

A key of a provider goes to this provider alone, unless the user of the process allows another destination by name.
Nothing here resolves a variable, or connects to anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.errors import Problem
from teamwright.values.provider_keys import (
    ALLOW_HOSTS,
    PROVIDER_KEYS,
    Destination,
    KeyGrants,
    address_destination,
    is_own_destination,
)
from teamwright.values.specs.manifest import Manifest
from teamwright.values.text.secret_names import NAMED_BY_OTHERS, REFERENCE, is_secret_name, may_hold_secret

Path = tuple[str, ...]
ENV_ALLOW = "env_allow"
MCP = "mcp"
OPEN = NAMED_BY_OTHERS | {"settings"}
"""Fields whose keys name no receiver."""
PROMPT = Destination("field", "")
"""Of a value that stays in the manifest, and so reaches models and records."""


@dataclass(frozen=True, slots=True)
class VariableUse:
    """A variable that a manifest reads, and the path of the field that does."""

    variable: str
    path: Path

    @property
    def field(self) -> str:
        """The path as a text."""
        return ".".join(self.path)


def variable_uses(data: JsonValue, path: Path = ()) -> Iterator[VariableUse]:
    """Return every use of a variable in the data of a manifest: references, and what MCP servers inherit."""
    match data:
        case str():
            names = dict.fromkeys(found[1] for found in REFERENCE.finditer(data) if found[1]) if "${" in data else ()
            yield from (VariableUse(name, path) for name in names)
        case list():
            if path[-1:] == (ENV_ALLOW,):
                yield from (VariableUse(name, path) for name in data if isinstance(name, str))
            for index, item in enumerate(data):
                yield from variable_uses(item, (*path, str(index)))
        case dict():
            for key, item in data.items():
                yield from variable_uses(item, (*path, key))
        case _:
            return


def destinations(data: JsonValue, path: Path) -> tuple[Destination, ...]:
    """Return where the value of the field at this path is sent; `PROMPT` for a field that is no credential's."""
    if path[-1:] != (ENV_ALLOW,) and not may_hold_secret(path[2:]):
        return (PROMPT,)
    models = data.get("models") if isinstance(data, dict) else None
    enclosing, kind = _enclosing(data, path)
    if kind not in ("", MCP):
        return (Destination("tool", kind),)
    for fields in reversed(enclosing):
        if found := tuple(dict.fromkeys(_receivers(fields, models if isinstance(models, dict) else {}))):
            return found
    return (Destination("field", ".".join(path)),)


def _enclosing(data: JsonValue, path: Path) -> tuple[list[Mapping[str, JsonValue]], str]:
    """Return the mappings of a declaration around the field, and the kind of the tool if it is one's.

    Mappings whose keys others choose are left out: a header may be called `url`.
    """
    found: list[Mapping[str, JsonValue]] = []
    kind, node = "", data
    for depth, key in enumerate(path):
        if isinstance(node, dict):
            if depth >= 2 and path[depth - 1] not in OPEN:
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
    if isinstance(command := fields.get("command"), str):
        yield Destination("program", command)
        return
    named = [fields.get(name) for name in ("model", "economy", "fallback")]
    if "model" in fields and "economy" not in fields:
        named.append("economy" if "economy" in models else None)
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
        """As data."""
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
