"""Puts the environment into a manifest: `${NAME}` is replaced, and `$${` stands for `${`.

Records keep the manifest as it was before, so that no secret gets into them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.errors import ManifestError, Problem
from teamwright.values.specs import Manifest

REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_NAME = re.compile(r"authorization|cookie|password|secret|token|api[-_]?key", re.IGNORECASE)


def resolve_secrets(
    manifest: Manifest, environment: Mapping[str, str] | None = None
) -> tuple[Manifest, frozenset[str]]:
    """The manifest with values from the environment, and all values that must never be recorded or shown.

    Those are what came from the environment, and keys and authorization headers that are written out.
    """
    resolver = _Resolver(os.environ if environment is None else environment)
    data = resolver.value(manifest.model_dump(mode="json", exclude_unset=True), ())
    if resolver.problems:
        raise ManifestError(resolver.problems)
    return Manifest.model_validate(data), frozenset(resolver.secrets)


@dataclass(slots=True)
class _Resolver:
    environment: Mapping[str, str]
    secrets: set[str] = field(default_factory=set[str])
    problems: list[Problem] = field(default_factory=list[Problem])

    def value(self, value: JsonValue, path: tuple[str, ...]) -> JsonValue:
        match value:
            case str():
                return self._text(value, path)
            case list():
                return [self.value(item, (*path, str(index))) for index, item in enumerate(value)]
            case dict():
                return {key: self.value(item, (*path, key)) for key, item in value.items()}
            case _:
                return value

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        resolved = REFERENCE.sub(lambda found: self._found(found[1], path), text) if "${" in text else text
        if resolved.strip() and _is_secret(path):
            self.secrets.add(resolved)
        return resolved

    def _found(self, name: str | None, path: tuple[str, ...]) -> str:
        if name is None:
            return "${"
        if name not in self.environment:
            message = f"The environment variable {name!r} is not set, and {'.'.join(path)} needs it"
            self.problems.append(Problem(message, suggestion=f"set it, or write $${{{name}}} for the text itself"))
            return ""
        value = self.environment[name]
        if value.strip():
            self.secrets.add(value)
        return value


def _is_secret(path: tuple[str, ...]) -> bool:
    """Whether a written value is a key: by its name, and only where names are ours or a header's."""
    *_, parent, name = ("", "", *path)
    return name in {"api_key", "webhook"} or (parent in {"headers", "env"} and SECRET_NAME.search(name) is not None)
