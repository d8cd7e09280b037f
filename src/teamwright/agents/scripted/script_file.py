"""Files of rules: read with every mistake told at its place, by the same rules of YAML as manifests, and written.

It knows the form of a script by the class that it is given, and nothing of what rules do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from pydantic import JsonValue, ValidationError

from teamwright.documents.nodes import Entry, Fields, Items, Node, Place, described, place_at, plain, shown
from teamwright.documents.problems import ProblemReport, in_order
from teamwright.documents.reader import Room, read_file
from teamwright.documents.scalars import resolve
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import ManifestError, Problem
from teamwright.values.models import Value
from teamwright.values.text.validation_messages import misfits_of

RULES = "rules"
ROOM = Room(size=32 << 20, nodes=1_000_000, characters=64 << 20, escapes=True)

S = TypeVar("S", bound=Value)


def read_script(path: Path, kind: type[S]) -> S:
    """Read a script of this class, or raise `ManifestError` with every problem."""
    report = ProblemReport()
    documents = read_file(path, report, ROOM, may_be_empty=True)
    script: S | None = None
    if len(documents) > 1:
        report.problem(documents[1].place, "A script is one document, and here begins another", "remove it")
    elif not documents:
        script = kind()
    elif (root := _root(documents[0], report)) is not None:
        script = _made(root, kind, report)
    if report.problems or script is None:
        raise ManifestError(in_order(_one_at_each_place(report.problems), [str(path)]))
    return script


def _root(document: Node, report: ProblemReport) -> Fields | None:
    """The script as a mapping; a plain list is its rules."""
    if isinstance(document, Items):
        return Fields({RULES: Entry(RULES, document.place, document)}, document.place)
    if isinstance(document, Fields):
        return document
    message = f"A script is a list of rules, or has them under {RULES!r}, and this is {described(document)}"
    report.problem(document.place, message)
    return None


def _made(root: Fields, kind: type[S], report: ProblemReport) -> S | None:
    schema = cast("Mapping[str, JsonValue]", kind.model_json_schema(by_alias=True))
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
        SchemaCheck(_words(index), report, definitions).check(node, rule)
        if len(report.problems) > before:
            faulty.add(index)
    data = plain(root)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            _note(one.at, one.text, root, faulty, report)
        return None


def _note(
    place: tuple[int | str, ...], text: str, root: Fields, faulty: Iterable[str | int], report: ProblemReport
) -> None:
    """Tell what a form can't say; where a rule's form is wrong, that has been told."""
    match place:
        case ("rules", int(index), *_) if index not in faulty:
            report.problem(place_at(root, place), f"{_words(index)}: {text}")
        case _ if not report.problems:
            report.problem(place_at(root, place), f"{'.'.join(map(str, place))}: {text}")
        case _:
            pass


def _words(index: int) -> str:
    """Rules are counted as everywhere else: from one."""
    return f"rule {index + 1}"


def _one_at_each_place(problems: Iterable[Problem]) -> Iterable[Problem]:
    """What follows from a mistake at the same place helps nobody."""
    first: dict[Place, Problem] = {}
    for one in problems:
        first.setdefault(Place(one.file, one.line, one.column), one)
    return first.values()


def script_text(content: JsonValue) -> str:
    """The content of a script as a file that `read_script` reads again."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks, which people can read and edit."""

    def written(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # PyYAML leaves some texts bare that are numbers by the rules of our reader.
        style = "|" if "\n" in text else None if resolve(text, None, plainly=True) == (text, "") else "'"
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, written)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
