"""Checks the variables of a manifest: secrets are only in fields for secrets, never in a prompt or on a command line.

`validate` also checks the values that the environment has here. A recorded manifest is checked again, without
positions, when its variables are resolved.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence

from teamwright.documents.nodes import Fields, Items, Node, ProblemReport, Scalar
from teamwright.teams.manifests.declarations import Declaration, Declarations, Kind
from teamwright.values.names import is_web_address
from teamwright.values.text.display import cut
from teamwright.values.text.secret_names import OWN_SECRETS, REFERENCE, is_secret_name, may_hold_secret
from teamwright.values.text.secret_patterns import secret_spans

MODELS = frozenset(("model", "economy", "fallback"))
"""The fields of an agent that declare models."""
ON_COMMAND_LINES = frozenset(("command", "args"))
OWN_HINT = "it holds an address or a secret of Teamwright itself, which no manifest may use"
SECRETS_HINT = "secrets go into api_key, headers, env, url and webhook; if it is not a secret, rename the variable"
FULL_ADDRESS = "write it in full, for example http://localhost:8000/v1"
LONGEST_KEY = 64
"""The most characters of a field's name that a message shows."""

Path = tuple[str, ...]


def check_variables(declared: Declarations, report: ProblemReport) -> None:
    """Report each secret that would be sent to a model, recorded, or visible in the list of processes."""
    plain: set[int] = set()
    for kind in ("agent", "team", "model", "tool"):
        for one in declared.every(kind):
            found: list[tuple[Path, Scalar]] = []
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
    """Warn about each variable that is not set, and report each address that is none with the values of its variables.

    With `models_replaced`, nothing reads the variables of models.
    """
    plain: set[int] = set()
    kinds: tuple[Kind, ...] = ("agent", "team", "tool") if models_replaced else ("agent", "team", "model", "tool")
    for kind in kinds:
        for one in declared.every(kind):
            found: list[tuple[Path, Scalar]] = []
            _collect(one.node, (), found, plain)
            for path, scalar in found:
                if not models_replaced or MODELS.isdisjoint(path[:1]):
                    _check_values(one, path, scalar, environment, report)


def _check_values(
    owner: Declaration, path: Path, text: Scalar, environment: Mapping[str, str], report: ProblemReport
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


def variables_of(text: str) -> list[str]:
    """Return the names of the variables that a text refers to, each once."""
    return list(dict.fromkeys(found[1] for found in REFERENCE.finditer(text) if found[1])) if "${" in text else []


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with the values of its variables; a variable that is not set is empty."""
    return REFERENCE.sub(lambda found: environment.get(found[1], "") if found[1] else "${", text)


def is_address(path: Sequence[str]) -> bool:
    """Whether the field at a path, which begins with the kind of its declaration, is the address of a server."""
    *_, around, name = "", *(part for part in path if not part.isdigit())
    if name == "url":
        return around in MODELS or around in {"mcp", "models"}
    return (around, name) == ("notify", "webhook")


def not_an_address(path: Sequence[str], names: Sequence[str]) -> str:
    """Word that an address is none once its variables are read. Their values may be secrets, so they are not shown."""
    return f"{_shown(tuple(path))} is not an http address with the value of {' and '.join(map(repr, names))}"


def _check_references(owner: Declaration, path: Path, text: Scalar, report: ProblemReport) -> None:
    names = dict.fromkeys(variables_of(str(text.value)))
    if path[-1:] == ("env_allow",) and text.value in OWN_SECRETS:
        names[str(text.value)] = None
    for name in names:
        if name in OWN_SECRETS:
            report.problem(text.place, f"{owner.words}: {_shown(path)} may not read {name!r}", OWN_HINT)
        elif is_secret_name(name) and not may_hold_secret(path):
            report.problem(
                text.place,
                f"{owner.words}: {_shown(path)} may not read {name!r}, which is a secret by its name",
                SECRETS_HINT,
            )


def _shown(path: Path) -> str:
    """The fields of a path, cut, because untrusted keys may be long and occur in many messages."""
    return ".".join(cut(key, LONGEST_KEY) for key in path) or "it"


def _check_command_lines(owner: Declaration, texts: list[tuple[Path, Scalar]], report: ProblemReport) -> None:
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


def _collect(node: Node, path: Path, found: list[tuple[Path, Scalar]], plain: set[int]) -> None:
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
