"""What runs from a queue may use of a worker's machine: nothing unless its operator names it.

The submitter of a run writes its manifest, so nothing here trusts one, nor the permissions that its record claims.
Nothing is imported, started or read for these checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import iter_modules
from shlex import quote
from typing import NamedTuple, Self, get_args

from pydantic import JsonValue

from teamwright.errors import ManifestError, NotResumable, UsageError
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.teams.manifests.manifest_loader import LOCAL, relocate
from teamwright.teams.manifests.variable_checks import PROMPT, destinations, variable_uses
from teamwright.values.events.agent import Check
from teamwright.values.provider_keys import (
    ALLOW_HOSTS,
    PROVIDER_KEYS,
    Destination,
    KeyGrants,
    is_own_destination,
)
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import FILES, SHELL, program_of
from teamwright.values.text.secrets import SCHEMAS

COMMAND, TOOLS = "command", "tools"
KINDS = ("module", "program", "env")
"""What `worker --allow KIND:NAME` names."""
IMPORT_PATHS = frozenset(("function", "check", "evaluator", "strategy"))
"""Fields that may name a Python function or class as `module:name`; so may the guardrails below `check`."""
_SECTIONS = {"agents": "agent", "teams": "team", "models": "model", "tools": "tool"}


class MissingPermission(NamedTuple):
    """What a run needs that is not allowed, in words that follow "a worker with", and the option that allows it."""

    words: str
    option: str

    def __str__(self) -> str:
        return f"{self.words} allowed ({self.option})"


ROOTLESS = MissingPermission("a root of the files tool, which the manifest does not name,", "--allow-root DIR")


@dataclass(frozen=True, slots=True)
class Permissions:
    """The modules, programs, variables and folders that an operator allows by name."""

    modules: frozenset[str] = frozenset()
    """Python modules and packages, besides those of a folder with the run's code."""
    programs: frozenset[str] = frozenset()
    variables: KeyGrants = field(default_factory=KeyGrants)
    roots: tuple[str, ...] = ()
    """Folders with links resolved."""

    @classmethod
    def read(cls, allowed: Sequence[str], roots: Sequence[Path]) -> Self:
        """Read what a worker may use as its options say it, such as `program:git`; raises `UsageError`."""
        found: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for one in allowed:
            kind, _, name = one.partition(":")
            if kind not in found or not name:
                raise UsageError(
                    f"--allow {one!r} names nothing that a run may use; write module:NAME, program:NAME or env:NAME."
                )
            found[kind].append(name)
        for root in roots:
            if not root.is_dir():
                raise UsageError(f"There is no folder {str(root)!r}, which --allow-root names.")
        if not all(map(str.strip, found["program"])):
            raise UsageError("--allow program: names no program.")
        folders = tuple(str(one.expanduser().resolve()) for one in roots)
        return cls(frozenset(found["module"]), frozenset(found["program"]), KeyGrants.parse(found["env"]), folders)

    def refusals(self, manifest: Manifest, code: Path | None = None) -> list[MissingPermission]:
        """Return what a manifest uses that is not allowed; `code` is the folder with the run's code."""
        written: dict[str, JsonValue] = manifest.model_dump(mode="json", exclude_unset=True)
        resolved = _resolved(manifest) or written
        if refused := dict.fromkeys(self._variables(written, resolved)):
            return list(refused)  # the other reasons could quote the values of these variables
        found: dict[MissingPermission, None] = {}
        for section in resolved.values():
            for declared in section.values() if isinstance(section, dict) else ():
                for one in _uses(declared):
                    found |= dict.fromkeys(self._use(one, code))
        return list(found | dict.fromkeys(self._folders(resolved)))

    def check(self, code: Path | None, manifest: Manifest) -> None:
        """Raise `UsageError` if a manifest that changed while its run is driven uses what is not allowed."""
        if refused := self.refusals(manifest, code):
            raise UsageError(f"It needs a worker with {', '.join(map(str, refused))}.")

    def _variables(self, written: JsonValue, resolved: JsonValue) -> Iterator[MissingPermission]:
        hosts = KeyGrants.from_environment(os.environ)
        for use in variable_uses(written):
            shown = destinations(written, use.path)
            for index, to in enumerate(destinations(resolved, use.path)):
                if not self._may_send(use.variable, to, hosts):
                    yield _variable_refusal(use.variable, shown[min(index, len(shown) - 1)])

    def _may_send(self, variable: str, to: Destination, hosts: KeyGrants) -> bool:
        """A key may go to its provider; anything else is named, and another's host twice over for such a key."""
        if is_own_destination(variable, to) or hosts.names(variable, to):
            return True
        if variable in PROVIDER_KEYS and to != PROMPT:
            return False
        return self.variables.allows_anywhere(variable) or self.variables.names(variable, to)

    def _use(self, use: _Use, code: Path | None) -> Iterator[MissingPermission]:
        match use.kind:
            case "module":
                top, allowed = use.name.partition(".")[0], self.modules
                beside = code is not None and any(one.name == top for one in iter_modules([str(code)]))
                if not beside and not any(use.name == one or use.name.startswith(f"{one}.") for one in allowed):
                    yield MissingPermission(f"the Python module {use.name!r}", f"--allow {quote(f'module:{use.name}')}")
            case "program":
                # A relative path leads to what the operator put there only from the folder with code.
                if use.name not in self.programs or ("/" in use.name and not _is_placed(use.name, code)):
                    yield MissingPermission(f"the program {use.name!r}", f"--allow {quote(f'program:{use.name}')}")
            case _:
                if use.name not in self.variables.granted:
                    yield MissingPermission(
                        f"the variable {use.name!r} of programs", f"--allow {quote(f'env:{use.name}')}"
                    )

    def _folders(self, data: Mapping[str, JsonValue]) -> Iterator[MissingPermission]:
        """Return the paths outside the files of the run that it names, and file tools without a folder."""
        paths: list[tuple[str, str]] = []

        def note(kind: str, path: str) -> str:
            paths.append((kind, path))
            return path

        for section, kind in _SECTIONS.items():
            declared = data.get(section)
            for value in declared.values() if isinstance(declared, dict) else ():
                relocate(kind, value, note)
                if _has_rootless_files(kind, value):
                    yield ROOTLESS
        for kind, path in paths:
            place = Path(os.path.normpath(path))
            is_own = not place.is_absolute() and place.parts[:1] != ("..",) and kind not in {FILES, SHELL, LOCAL}
            if not is_own and not self._has_root(place):
                yield MissingPermission(f"the path {path!r}", f"--allow-root {quote(str(place))}")

    def _has_root(self, place: Path) -> bool:
        try:
            return place.is_absolute() and any(place.resolve().is_relative_to(one) for one in self.roots)
        except (OSError, ValueError, RuntimeError):
            return False


class _Use(NamedTuple):
    """A module, a program, or a `variable` that a program gets."""

    kind: str
    name: str


def _resolved(manifest: Manifest) -> dict[str, JsonValue] | None:
    """Return the data with values of variables; `None` if one is not set, or may not be where it is."""
    try:
        resolved, _ = resolve_secrets(manifest)
    except (ManifestError, NotResumable):
        return None
    return resolved.model_dump(mode="json", exclude_unset=True)


def _variable_refusal(variable: str, to: Destination) -> MissingPermission:
    if variable in PROVIDER_KEYS and to != PROMPT:
        return MissingPermission(f"{variable} for {to}", f"{ALLOW_HOSTS}={variable}@{to.name}")
    return MissingPermission(f"the environment variable {variable!r}", f"--allow env:{variable}")


def _uses(data: JsonValue, key: str = "") -> Iterator[_Use]:
    """Return what a manifest starts and imports, wherever it stands: options of strategies have evaluations too."""
    match data:
        case dict():
            for name, value in data.items():
                if key == "" and name in SCHEMAS:  # data, which may have any fields
                    continue
                if name == "env" and isinstance(value, dict):
                    yield from (_Use("variable", one) for one in value)
                if name == COMMAND:
                    yield from _programs(value)
                if name == SHELL and isinstance(value, dict):
                    yield _Use("program", "sh")
                is_guardrail = key == "check" and name in get_args(Check)
                if (name in IMPORT_PATHS or is_guardrail) and isinstance(value, str) and ":" in value:
                    yield _Use("module", value.partition(":")[0])
                yield from _uses(value, name)
        case list():
            for item in data:
                if key == TOOLS and item == SHELL:
                    yield _Use("program", "sh")
                if key == TOOLS and isinstance(item, str) and ":" in item:
                    yield _Use("module", item.partition(":")[0])
                yield from _uses(item, key)
        case _:
            return


def _programs(command: JsonValue) -> Iterator[_Use]:
    if (program := program_of(command)) is not None:
        yield _Use("program", program)


def _is_placed(program: str, code: Path | None) -> bool:
    """Whether a path leads to where the operator put a program: it is absolute, or stays in the folder with code."""
    return Path(program).is_absolute() or (code is not None and os.path.normpath(program).partition("/")[0] != "..")


def _has_rootless_files(kind: str, value: JsonValue) -> bool:
    """Whether an agent or a tool has file tools below the current folder of the process."""
    tools = value.get(TOOLS) if kind == "agent" and isinstance(value, dict) else [value]
    for tool in tools if isinstance(tools, list) else ():
        for one in (FILES, SHELL):
            if tool == one and kind == "agent":
                return True
            settings = tool.get(one) if isinstance(tool, dict) else None
            if isinstance(settings, dict) and not settings.get("folder"):
                return True
    return False
