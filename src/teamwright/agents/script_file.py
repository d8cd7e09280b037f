"""Reads and writes script files, with the same YAML rules as manifests, and reports every mistake with its position.

It takes the schema of a script from the given class, and must not know what rules do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TypeVar, cast

from pydantic import JsonValue, ValidationError

from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    described,
    place_at,
    plain,
    resolve,
    shown,
    sort_problems,
)
from teamwright.documents.reader import FileForm, ReadLimits, has_key_like, read_file
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import ManifestError, Problem
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.value import Value

RULES = "rules"
NO_SCRIPT = "This is not a script of replies: a script is a list of rules, or has them under 'rules'"
HINT = "a rule is a mapping with a reply"
MOST_RULES = 50
"""So many rules say whether a file is a script."""
ROOM = ReadLimits(size=32 << 20, nodes=1_000_000, characters=64 << 20, escapes=True)

S = TypeVar("S", bound=Value)


def read_script(path: Path, kind: type[S]) -> S:
    """Read a script of this class; raises `ManifestError` with every problem."""
    report = ProblemReport()
    form = FileForm(partial(_is_script, kind=kind), NO_SCRIPT, HINT)
    documents = read_file(path, report, ROOM, form=form, may_be_empty=True)
    script: S | None = None
    if len(documents) > 1:
        report.problem(documents[1].place, "A script is one document, and this is a second one", "remove it")
    elif not documents:
        script = kind()
    elif (root := _root(documents[0], report)) is not None:
        script = _build_script(root, kind, report)
    if report.problems or script is None:
        raise ManifestError(sort_problems(_first_at_each_place(report.problems), [str(path)]))
    return script


@cache
def _schema(kind: type[Value]) -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", kind.model_json_schema(by_alias=True))


def _is_script(document: Node, kind: type[Value]) -> bool:
    """Whether a document is a script, though perhaps one with mistakes: its rules look like rules."""
    parts = cast("Mapping[str, Mapping[str, JsonValue]]", _schema(kind)["properties"])
    if isinstance(document, Fields):
        if document.entries and not has_key_like(document, parts):
            return False
        document = document.get(RULES) or Items((), document.place)
    if not isinstance(document, Items):
        return False
    definitions = cast("Mapping[str, Mapping[str, JsonValue]]", _schema(kind)["$defs"])
    rule = str(cast("Mapping[str, JsonValue]", parts[RULES]["items"])["$ref"]).rpartition("/")[2]
    known = cast("Mapping[str, JsonValue]", definitions[rule]["properties"])
    return not document.items or any(has_key_like(one, known) for one in document.items[:MOST_RULES])


def _root(document: Node, report: ProblemReport) -> Fields | None:
    """Return the document as a mapping; a plain list is the rules."""
    if isinstance(document, Items):
        return Fields({RULES: Entry(RULES, document.place, document)}, document.place)
    if isinstance(document, Fields):
        return document
    message = f"A script is a list of rules, or has them under {RULES!r}, and this is {described(document)}"
    report.problem(document.place, message)
    return None


def _build_script(root: Fields, kind: type[S], report: ProblemReport) -> S | None:
    schema = _schema(kind)
    parts = cast("Mapping[str, Mapping[str, JsonValue]]", schema["properties"])
    definitions = cast("Mapping[str, JsonValue]", schema["$defs"])
    for name, entry in root.entries.items():
        if name not in parts:
            report.problem(entry.place, f"{shown(name)} is not a part of a script", report.near(name, parts))
        elif name != RULES or not isinstance(entry.node, Items):
            SchemaCheck("the script", report, definitions).check(entry.node, parts[name], entry.key)
    rules = root.get(RULES)
    rule = cast("Mapping[str, JsonValue]", parts[RULES]["items"])
    faulty: set[str | int] = set()
    for index, node in enumerate(rules.items if isinstance(rules, Items) else ()):
        before = len(report.problems)
        SchemaCheck(_rule_label(index), report, definitions).check(node, rule)
        if len(report.problems) > before:
            faulty.add(index)
    data = plain(root)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            _report_misfit(one.at, one.text, root, faulty, report)
        return None


def _report_misfit(
    place: tuple[int | str, ...], text: str, root: Fields, faulty: Iterable[str | int], report: ProblemReport
) -> None:
    """Report a validation error that the schema check did not find, unless the schema check reported its rule."""
    match place:
        case ("rules", int(index), *_) if index not in faulty:
            report.problem(place_at(root, place), f"{_rule_label(index)}: {text}")
        case _ if not report.problems:
            report.problem(place_at(root, place), f"{'.'.join(map(str, place))}: {text}")
        case _:
            pass


def _rule_label(index: int) -> str:
    """The name of a rule in messages, counted from one."""
    return f"rule {index + 1}"


def _first_at_each_place(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Keep only the first problem at each position: the others follow from it."""
    first: dict[Place, Problem] = {}
    for one in problems:
        first.setdefault(Place(one.file, one.line, one.column), one)
    return first.values()


def script_text(content: JsonValue) -> str:
    """Format the content of a script as YAML that `read_script` can read."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes multi-line texts as blocks, which people can read and edit."""

    def represent(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # PyYAML leaves some texts unquoted that our reader takes for numbers.
        style = "|" if "\n" in text else None if resolve(text, None, plainly=True) == (text, "") else "'"
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
