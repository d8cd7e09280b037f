"""Resolves environment variables in a manifest, and finds the secrets that a run must mask.

`${NAME}` is replaced, and `$${` means `${`. Records hold the unresolved manifest, so that they contain no secret. The
secrets of a team that was made in Python are in the same fields of its declaration; its record holds a mark in their
place, so a resume needs the team again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.agents.agent import Agent, agent_spec_of, is_package_class, same_name_fallbacks
from teamwright.errors import ManifestError, NotResumable, Problem, UsageError
from teamwright.teams.manifests.variable_checks import (
    FULL_ADDRESS,
    OWN_HINT,
    SECRETS_HINT,
    VariableUse,
    is_address,
    misdirected_keys,
    not_an_address,
)
from teamwright.values.names import REFERENCE, escape_references, is_web_address, may_refer, variables_of
from teamwright.values.provider_keys import PROVIDER_KEYS, KeyGrants
from teamwright.values.specs.manifest import Manifest, Source
from teamwright.values.text.secrets import (
    HIDDEN,
    NOTIFY,
    OWN_SECRETS,
    has_password,
    is_header,
    is_secret,
    is_secret_name,
    may_hold_secret,
)

MOST_SECRETS = 1_000
"""A limit, because every text is searched for each secret."""


def resolve_secrets(
    manifest: Manifest, environment: Mapping[str, str] | None = None
) -> tuple[Manifest, frozenset[str]]:
    """Return the manifest with values from the environment, and all values that must never be recorded or shown.

    Those are the texts of key, header and webhook fields, and variables whose names mark them as secrets. Other
    variables are settings. Raises `NotResumable` for a recorded manifest with literal secrets, because the record holds
    only a mark in their place. A key of a provider that would go elsewhere is refused, unless an `environment` is
    given: that is for teams that are never called.
    """
    resolver = _Resolver(os.environ if environment is None else environment)
    written: dict[str, JsonValue] = manifest.model_dump(mode="json", exclude_unset=True)
    data = resolver.value(written, ())
    if environment is None and resolver.keys:
        grants = KeyGrants.from_environment(os.environ)
        resolver.problems += (problem for _, problem in misdirected_keys(resolver.keys, written, data, grants))
    if resolver.hidden:
        raise NotResumable(
            f"The value of {', '.join(resolver.hidden)} is a secret, and records do not store secrets: pass the team"
            " (team=…). A run of a manifest that reads the secret from the environment, as ${NAME}, resumes without."
        )
    if len(resolver.secrets) > MOST_SECRETS:
        message = f"The manifest has {len(resolver.secrets)} secrets, and at most {MOST_SECRETS} can be masked"
        resolver.problems.append(Problem(message, suggestion="use the same variable for the same value"))
    if resolver.problems:
        raise ManifestError(resolver.problems)
    return Manifest.model_validate(data), frozenset(resolver.secrets)


def variables_in(manifest: Manifest) -> set[str]:
    """Return the names of the environment variables that a manifest reads."""
    return set(variables_of(manifest.model_dump_json(exclude_unset=True)))


def lenient_environment(manifest: Manifest) -> dict[str, str]:
    """Return the environment in which a team can be built that is never called: unset variables stay references."""
    return {name: f"${{{name}}}" for name in variables_in(manifest)} | os.environ


def misdirected_keys_in(manifest: Manifest) -> list[tuple[VariableUse, Problem]]:
    """Return each key of a provider that a run would send elsewhere, as far as the environment tells; never raises."""
    resolver = _Resolver(lenient_environment(manifest))
    written: dict[str, JsonValue] = manifest.model_dump(mode="json", exclude_unset=True)
    data = resolver.value(written, ())
    return list(misdirected_keys(resolver.keys, written, data, KeyGrants.from_environment(os.environ)))


def secrets_of(recorded: JsonValue, environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """The secrets of a recorded source, as far as the environment has them; never raises."""
    resolver = _Resolver(os.environ if environment is None else environment)
    manifest = recorded.get("manifest") if isinstance(recorded, dict) else None
    resolver.value(manifest, ())
    return frozenset(resolver.secrets - {HIDDEN})


@dataclass(slots=True)
class _Resolver:
    environment: Mapping[str, str]
    secrets: set[str] = field(default_factory=set[str])
    hidden: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])
    keys: list[VariableUse] = field(default_factory=list[VariableUse])
    """Where the manifest uses keys of providers."""

    def value(self, value: JsonValue, path: tuple[str, ...]) -> JsonValue:
        if not value:  # most agents of a large team declare nothing
            return value
        match value:
            case str():
                return self._text(value, path)
            case list():
                # No text in a list is a secret by its place, and a team may list thousands of members.
                return [
                    self.value(item, (*path, str(index))) if may_refer(item) else item
                    for index, item in enumerate(value)
                ]
            case dict():
                return {key: item and self.value(item, (*path, key)) for key, item in value.items()}
            case _:
                return value

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        resolved = text
        if "${" in text:
            known = len(self.problems)
            resolved = REFERENCE.sub(lambda found: self._found(found[1], path), text)
            if len(self.problems) == known and is_address((path[0], *path[2:])) and not is_web_address(resolved):
                message = not_an_address(path, variables_of(text))
                self.problems.append(Problem(message, suggestion=FULL_ADDRESS))
        if resolved.strip() and is_secret(_above(path), path[-1]):
            self.secrets.add(resolved)
            if text == HIDDEN and not (_above(path) == "notify" and path[-1] in NOTIFY):
                self.hidden.append(".".join(path))
        return resolved

    def _found(self, name: str | None, path: tuple[str, ...]) -> str:
        if name is None:
            return "${"
        if name not in self.environment:
            message = f"The environment variable {name!r} is not set, and {'.'.join(path)} needs it"
            self.problems.append(Problem(message, suggestion=f"set it, or write $${{{name}}} for the text itself"))
            return ""
        value = self.environment[name]
        self._check(name, value, path)
        field, above = path[-1], _above(path)
        if value.strip() and (is_secret_name(name) or is_secret(above, field) or is_header(above, field)):
            self.secrets.add(value)
        return value

    def _check(self, name: str, value: str, path: tuple[str, ...]) -> None:
        """Check what a field reads: recorded manifests too, since others may have written the record."""
        if name in PROVIDER_KEYS:
            self.keys.append(VariableUse(name, path))
        is_connection = name not in OWN_SECRETS and has_password(value)
        if is_connection:
            self.secrets.add(value)
        if name in OWN_SECRETS:
            self.problems.append(Problem(f"{'.'.join(path)} may not read {name!r}", suggestion=OWN_HINT))
        elif (is_connection or is_secret_name(name)) and not may_hold_secret(path[2:]):
            kind = "holds a password" if is_connection else "is a secret by its name"
            self.problems.append(
                Problem(f"{'.'.join(path)} may not read {name!r}, which {kind}", suggestion=SECRETS_HINT)
            )


def _above(path: tuple[str, ...]) -> str:
    """The field that encloses a field; the name of an agent, team, model or tool is not a field."""
    return path[-2] if len(path) > 3 else ""


def secrets_in(agents: Sequence[Agent], settled: Sequence[Agent], declaration: JsonValue) -> frozenset[str]:
    """Return the secrets of a team that was made in Python, from its agents, those with settings, and its source.

    Raises `UsageError` if there are more than can be masked.
    """
    found = set(secrets_of(declaration)) | _undeclared_secrets(agents)
    for agent in settled:
        for other in same_name_fallbacks(agent):  # of which only the model is declared
            said = Source(manifest=Manifest(agents={other.name: agent_spec_of(other)}), team="").to_json()
            found |= _undeclared_secrets((other,)) | secrets_of(escape_references(said))
    if len(found) > MOST_SECRETS:
        raise UsageError(f"The team has {len(found)} secrets, and at most {MOST_SECRETS} can be masked.")
    return frozenset(found)


def _undeclared_secrets(agents: Sequence[Agent]) -> set[str]:
    """Return those of models that the caller made, and those of teams that a manifest reads into other fields."""
    own = {kind for kind in set(map(type, agents)) if is_package_class(kind)}
    found: set[str] = set()
    for agent in agents:  # of which there may be thousands, most without any
        if type(agent) in own and (secrets := getattr(agent, "secrets", None)):
            found |= secrets
    return found
