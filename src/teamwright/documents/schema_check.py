"""Checks data against a JSON Schema, and fields that several declarations share; reports each mismatch with its place.

It implements the part of JSON Schema that our own schemas use, and ignores other keywords.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from teamwright.documents.nodes import Entry, Fields, Items, Node, Place, ProblemReport, Scalar, described, shown
from teamwright.values.names import NAME, is_web_address, suggest_name
from teamwright.values.text.secrets import is_secret, is_written_out
from teamwright.values.text.validation_messages import NAME_FORM

Schema = Mapping[str, JsonValue]
WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("at least", operator.ge),
    "maximum": ("at most", operator.le),
    "exclusiveMinimum": ("more than", operator.gt),
    "exclusiveMaximum": ("less than", operator.lt),
}
NAME_PATTERN = f"^{NAME.pattern}$"
LEADING_ZEROS = re.compile(r"0+([0-9]+)")


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Checks one declaration; `owner` is its name in messages, such as "agent 'writer'".

    `definitions` are the targets of the schema's references.
    """

    owner: str
    report: ProblemReport
    definitions: Schema

    def check(self, node: Node, schema: Schema, label: str = "") -> None:
        """Report every mismatch."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            self._any(node, schema, label)
        elif "enum" in schema or "const" in schema:
            self._choice(node, schema, label)
        elif "type" in schema:
            if not _is(node, str(schema["type"])):
                self._wrong_type(node, [schema], label)
            elif isinstance(node, Fields):
                self._fields(node, schema)
            elif isinstance(node, Items):
                self._items(node, schema, label)
            else:
                self._range(node, schema, label)
                self._name(node, schema, label)

    def _any(self, node: Node, schema: Schema, label: str) -> None:
        options = [self._resolve(option) for option in cast("Sequence[Schema]", schema["anyOf"])]
        matching = [option for option in options if "type" not in option or _is(node, str(option["type"]))]
        if not matching:
            self._wrong_type(node, options, label)
        elif isinstance(node, Fields):
            self.check(node, max(matching, key=lambda option: _similarity(node, option)), label)
        else:
            self.check(node, matching[0], label)

    def _fields(self, node: Fields, schema: Schema) -> None:
        known = cast("Mapping[str, Schema]", schema.get("properties", {}))
        others = schema.get("additionalProperties", True)
        for name, entry in node.entries.items():
            if name in known:
                self.check(entry.node, known[name], entry.key)
            elif others is False:
                self._unknown(entry, list(known), cast("Mapping[str, str]", schema.get("instead", {})))
            elif isinstance(others, dict):
                self.check(entry.node, others, entry.key)
        for name in cast("Sequence[str]", schema.get("required", ())):
            if name not in node.entries:
                self._note(node.place, f"{shown(name)} is missing")

    def _items(self, node: Items, schema: Schema, label: str) -> None:
        if len(node.items) < cast("int", schema.get("minItems", 0)):
            self._note(node.place, f"{shown(label)} is empty")
        for item in node.items:
            self.check(item, cast("Schema", schema.get("items", {})), f"each of {label}")

    def _range(self, node: Scalar, schema: Schema, label: str) -> None:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return
        for keyword, (words, holds) in BOUNDS.items():
            bound = schema.get(keyword)
            if isinstance(bound, int | float) and not holds(node.value, bound):
                self._note(node.place, f"{shown(label)} must be {words} {bound}, and {node.raw or node.value} is not")

    def _name(self, node: Scalar, schema: Schema, label: str) -> None:
        """Report a text that has to be a name and is none; other patterns are checked by what reads the text."""
        if schema.get("pattern") == NAME_PATTERN and not NAME.fullmatch(text := str(node.value)):
            hint = f"for example {suggest_name(text)!r}"
            self._note(node.place, f"{shown(label)}: {shown(text)} is no name: {NAME_FORM}", hint)

    def _choice(self, node: Node, schema: Schema, label: str) -> None:
        allowed = [str(one) for one in cast("Sequence[JsonValue]", schema.get("enum", [schema.get("const")]))]
        if isinstance(node, Scalar) and node.value in allowed:
            return
        hint = self.report.near(node.value, allowed) if isinstance(node, Scalar) and isinstance(node.value, str) else ""
        words = " or ".join(shown(one) for one in allowed)
        self._note(node.place, f"{shown(label)} is {words}, and this is {described(node)}", hint)

    def _unknown(self, entry: Entry, known: Sequence[str], instead: Mapping[str, str]) -> None:
        """Report an unknown field; `instead` says what to write for some that users may expect."""
        hint = instead.get(entry.key) or self.report.near(entry.key, known)
        self._note(entry.place, f"{shown(entry.key)} is not a field here", hint)

    def _wrong_type(self, node: Node, options: Sequence[Schema], label: str) -> None:
        kinds = [str(option.get("type", "string")) for option in options]
        words = " or ".join(dict.fromkeys(WORDS[kind] for kind in kinds if kind != "null"))
        subject = f"{shown(label)} expects" if label else "expected"
        self._note(node.place, f"{subject} {words}, found {described(node)}", _hint(node, kinds))

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = cast("Schema", self.definitions[str(schema["$ref"]).removeprefix("#/$defs/")])
        return schema

    def _note(self, place: Place, message: str, suggestion: str = "") -> None:
        self.report.problem(place, f"{self.owner}: {message}", suggestion)


def _is(node: Node, kind: str) -> bool:
    match node:
        case Items():
            return kind == "array"
        case Fields():
            return kind == "object"
        case Scalar(value=None):
            return kind == "null"
        case Scalar(value=bool()):
            return kind == "boolean"
        case Scalar(value=str()):
            return kind == "string"
        case Scalar(value=int()):
            return kind in {"integer", "number"}
        case Scalar():
            return kind == "number"


def _similarity(node: Fields, schema: Schema) -> int:
    """The number of keys that an alternative knows; required keys count more."""
    known = cast("Mapping[str, JsonValue]", schema.get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    return sum(key in known for key in node.entries) + 2 * sum(key in node.entries for key in required)


def _hint(node: Node, kinds: Sequence[str]) -> str:
    if not isinstance(node, Scalar):
        return "put it in a list: start each line with '- '" if kinds == ["array"] and isinstance(node, Fields) else ""
    if isinstance(node.value, str):
        if {"integer", "number"} & set(kinds):
            zeros = LEADING_ZEROS.fullmatch(node.value)
            return f"write {zeros[1]}" if zeros else "write it without quotes" if node.value.isdigit() else ""
        return f"write [{node.value}]" if "array" in kinds and len(node.value) < 40 else ""
    if node.value is None:
        return "give it a value or remove it"
    return f'put it in quotes: "{node.raw}"' if "string" in kinds else ""


IMPORT_PATH = r"^[^\W\d][\w.]*:[^\W\d][\w.]*$"


def check_import_path(function: Scalar, owner: str, report: ProblemReport) -> None:
    """Report a text that is not `module:function`."""
    path = str(function.value)
    if "${" not in path and not re.fullmatch(IMPORT_PATH, path):
        hint = "write module:function"
        if re.fullmatch(r"[^\W\d][\w.]*\.[^\W\d]\w*", path):
            hint = f"write {':'.join(path.rsplit('.', 1))}"
        report.problem(function.place, f"{owner}: {shown(path)} is not an import path", hint)


def import_path_in(fields: Fields, name: str = "function") -> Scalar | None:
    """Return the field of this name if it is an import path; anything else was reported before."""
    path = fields.text(name)
    return path if path and is_import_path(path) else None


def is_import_path(path: Scalar) -> bool:
    """Whether a text is an import path."""
    return re.fullmatch(IMPORT_PATH, str(path.value)) is not None


def check_web_address(address: Scalar | None, owner: str, report: ProblemReport, hint: str = "") -> None:
    """Report a text that is not an http address; one with a variable in it can't be checked."""
    if address and not is_web_address(str(address.value)):
        report.problem(address.place, f"{owner}: {shown(str(address.value))} is not an http address", hint)


def check_secrets(fields: Node | None, parent: str, owner: str, report: ProblemReport) -> None:
    """Warn about literal secrets in a mapping: records do not store them, so a paused run can't be resumed from one."""
    if not isinstance(fields, Fields):
        return
    for name in fields.entries:
        text = fields.text(name)
        if text and is_secret(parent, name) and is_written_out(str(text.value)):
            report.warning(
                text.place,
                f"{owner}: the secret {name!r} is written in the file, and the record of a run does not store it",
                "write ${NAME} to read it from the environment",
            )
