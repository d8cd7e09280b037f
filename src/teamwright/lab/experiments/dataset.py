"""Data sets of experiments: tasks with what is expected of them, from YAML, JSONL or CSV, with every mistake at once.

No file is written and no code is loaded here; files that cases name are read when their runs begin.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, JsonValue, ValidationError, field_validator

from teamwright.documents.nodes import (
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    described,
    place_at,
    plain,
    shown,
    sort_problems,
)
from teamwright.documents.reader import FileForm, ReadLimits, has_key_like, read_file, read_lines, read_text
from teamwright.errors import ManifestError, nearest
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.text.validation_messages import hint_for, misfits_of
from teamwright.values.value import Value

ROOM = ReadLimits(size=32 << 20, nodes=1_000_000, characters=64 << 20, escapes=True)
CASES, EVALUATE = "cases", "evaluate"
LISTS, JSON_CELLS = ("tags", "files"), ("data", EVALUATE)
"""Columns of a table with values separated by semicolons, and those with JSON."""
NO_DATA_SET = "This is not a data set: a data set is a list of cases, or has them under 'cases'"
HINT = "a case is a mapping with a task"
KINDS = ".yaml, .yml, .jsonl or .csv"


class Case(Value):
    """A task, what is expected of the answer, and what people said about an earlier answer."""

    id: str = Field(default="", description="its name in reports; its number by default")
    task: str = Field(min_length=1, description="what the team should do")
    files: tuple[str, ...] = Field(default=(), description="files of the task, relative to the data set")
    expected: str | None = Field(default=None, min_length=1, description="words that the answer contains")
    data: JsonValue = Field(default=None, description="data that the run returns, perhaps among more")
    evaluate: Evaluate | None = Field(default=None, description="criteria and judges, instead of those of the data set")
    tags: tuple[str, ...] = Field(default=(), description="groups that the report lists")
    output: str | None = Field(default=None, description="an earlier answer, which the label is about")
    label: Literal["pass", "fail"] | None = Field(default=None, description="whether that answer is good")
    author: str = Field(default="", description="the model or the member that gave that answer")

    @field_validator("expected", mode="before")
    @classmethod
    def _number_as_text(cls, value: object) -> object:
        """Take a number for its text: 42 is expected as often as "42"."""
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @property
    def is_labelled(self) -> bool:
        """Whether it measures the judge."""
        return self.output is not None and self.label is not None


class DataSet(Value):
    """Cases, with the evaluation of those that have none of their own."""

    evaluate: Evaluate | None = Field(default=None, description="criteria and judges of all cases")
    cases: tuple[Case, ...] = Field(description="the cases, in the order of reports")

    def evaluation(self, case: Case) -> Evaluate | None:
        """The criteria of a case."""
        return case.evaluate or self.evaluate

    def judged(self, judged_by: Evaluate | None) -> list[Evaluate]:
        """One evaluation for each choice of judges, where that of the team counts for labels without another one."""
        found = [self.evaluation(case) or (judged_by if case.is_labelled else None) for case in self.cases]
        return list({one.asked: one for one in found if one is not None}.values())


CheckEvaluation = Callable[[Evaluate], Iterable[str]]
"""Yields what is wrong with an evaluation for the team that is measured, such as a judge that it does not have."""


def read_data_set(path: Path, check: CheckEvaluation = Evaluate.problems) -> DataSet:
    """Read a data set; raises `ManifestError` with every mistake, its line and a suggestion."""
    report, file = ProblemReport(), Place(str(path))
    evaluate: Evaluate | None = None
    match path.suffix.lower():
        case ".yaml" | ".yml":
            written, evaluate = _from_yaml(path, report, check)
        case ".jsonl":
            written = list(_from_lines(read_lines(path, report, ROOM) or (), report))
        case ".csv":
            written = list(_from_table(read_text(path, report, ROOM) or "", file, report))
        case _:
            written = []
            report.problem(file, f"{shown(path.name)} is no data set", f"name a file ending in {KINDS}")
    cases = _checked(written, path, report, check)
    if not written and not report.problems:
        report.problem(file, "The data set has no cases", HINT)
    if report.problems:
        raise ManifestError(sort_problems(report.problems, [str(path)]))
    return DataSet(evaluate=evaluate, cases=tuple(cases))


Written = tuple[dict[str, JsonValue], Node | Place]
"""A case as it was written, with the node or the line that it comes from."""


def _from_yaml(path: Path, report: ProblemReport, check: CheckEvaluation) -> tuple[list[Written], Evaluate | None]:
    form = FileForm(_is_data_set, NO_DATA_SET, HINT)
    documents = read_file(path, report, ROOM, form=form)
    if not documents:
        return [], None
    root, evaluate = documents[0], None
    if isinstance(root, Fields):
        for name, entry in root.entries.items():
            if name not in (CASES, EVALUATE):
                hint = report.near(name, (CASES, EVALUATE))
                report.problem(entry.place, f"{shown(entry.key)} is not a part of a data set", hint)
        if (node := root.get(EVALUATE)) is not None:
            evaluate = cast("Evaluate | None", _valid(Evaluate, plain(node), node, "evaluate", report))
            _check(evaluate, node.place, "evaluate", report, check)
        root = root.get(CASES) or Items((), root.place)
    if not isinstance(root, Items):
        report.problem(root.place, f"'cases' expects a list, found {described(root)}", "start each line with '- '")
        return [], evaluate
    return [one for node in root.items if (one := _mapping(node, report))], evaluate


def _is_data_set(document: Node) -> bool:
    if isinstance(document, Fields):
        if has_key_like(document, (CASES,)):
            return True
        document = Items((), document.place)
    return isinstance(document, Items) and any(has_key_like(one, Case.model_fields) for one in document.items[:50])


def _mapping(node: Node, report: ProblemReport) -> Written | None:
    if isinstance(node, Fields):
        return cast("dict[str, JsonValue]", plain(node)), node
    report.problem(node.place, f"A case is a mapping, and this is {described(node)}", "write  task: …")
    return None


def _from_lines(lines: Sequence[tuple[Place, str]], report: ProblemReport) -> Iterator[Written]:
    for place, line in lines:
        try:
            value = _read_json(line)
        except ValueError as error:
            at = Place(place.file, place.line, getattr(error, "colno", 1))
            why = getattr(error, "msg", None) or str(error)
            report.problem(at, f"This line is not JSON: {why}", 'a case is one line such as {"task": "…"}')
            continue
        if isinstance(value, dict):
            yield cast("dict[str, JsonValue]", value), place
        else:
            report.problem(place, f"A case is an object, and this is {shown(line)}", 'write {"task": "…"}')


def _read_json(text: str) -> JsonValue:
    """Read strict JSON: without NaN, and without a key that is there twice; raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> JsonValue:
    raise ValueError(f"{name} is not a finite number")


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} is duplicated")
        found[key] = value
    return found


def _from_table(text: str, file: Place, report: ProblemReport) -> Iterator[Written]:
    rows = csv.reader(StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    line = 1
    try:
        for row in rows:
            place, line = Place(file.file, line, 1), rows.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if columns:
                yield _cells(columns, row, place, report), place
            else:
                columns = _columns(row, place, report)
    except csv.Error as error:
        report.problem(Place(file.file, line, 1), f"This row is not CSV: {error}", 'write a quote in a text as ""')


def _columns(row: Sequence[str], place: Place, report: ProblemReport) -> list[str]:
    columns = [name.strip() for name in row]
    for name in dict.fromkeys(one for one in columns if columns.count(one) > 1):
        report.problem(place, f"The column {shown(name)} is there twice", "leave one of them out")
    for name in columns:
        if name not in Case.model_fields:
            hint = nearest(name, Case.model_fields, "the columns are the fields of a case").removesuffix(".")
            report.problem(place, f"{shown(name)} is not a column of a data set", hint)
    if "task" not in columns:
        report.problem(place, "There is no column 'task'", "the first line names the columns")
    return columns


def _cells(columns: Sequence[str], row: Sequence[str], place: Place, report: ProblemReport) -> dict[str, JsonValue]:
    if len(row) > len(columns):
        hint = "put a text with commas in quotes"
        report.problem(place, f"This row has {len(row)} cells, and there are {len(columns)} columns", hint)
    found: dict[str, JsonValue] = {}
    for name, cell in zip(columns, row, strict=False):
        if not cell.strip() or name not in Case.model_fields:
            continue
        if name in LISTS:
            found[name] = [part.strip() for part in cell.split(";") if part.strip()]
        elif name in JSON_CELLS:
            try:
                found[name] = _read_json(cell)
            except ValueError:
                report.problem(place, f"The cell {name!r} is not JSON: {shown(cell)}", 'write a text as "…"')
        else:
            found[name] = cell
    return found


def _checked(written: Sequence[Written], path: Path, report: ProblemReport, check: CheckEvaluation) -> list[Case]:
    """The cases that are valid, with the number as the id of those without one."""
    found: list[Case] = []
    known: dict[str, int] = {}
    for number, (fields, source) in enumerate(written, start=1):
        name = str(fields.get("id") or number)
        place = source if isinstance(source, Place) else source.place
        if name in known:
            report.problem(place, f"The case {name!r} is there twice", "give each case an id of its own")
        known[name] = number
        given: dict[str, JsonValue] = {**fields, "id": name}
        case = cast("Case | None", _valid(Case, given, source, f"case {name!r}", report))
        for text, hint in _problems(fields, path.parent):
            report.problem(place, f"case {name!r}: {text}", hint)
        if case is not None:
            found.append(case)
            _check(case.evaluate, place, f"case {name!r}", report, check)
    return found


def _problems(fields: Mapping[str, JsonValue], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a case as it was written, besides its types."""
    files = fields.get("files")
    for file in files if isinstance(files, list) else ():
        place = folder / str(file)
        if not place.resolve().is_relative_to(folder.resolve()):
            yield f"the file {file!r} is outside the folder of the data set", "put it into that folder"
        elif not place.is_file():
            yield f"there is no file {file!r}", "name it relative to the data set"
    if fields.get("label") is not None and fields.get("output") is None:
        yield "its label is about no answer", "add the answer as  output"


def _valid(kind: type[Value], data: JsonValue, source: Node | Place, owner: str, report: ProblemReport) -> Value | None:
    """Return the value, or report every mistake in it."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            place = source if isinstance(source, Place) else place_at(source, one.at)
            report.problem(place, f"{owner}: {one}", hint_for(one, kind).strip(" ()"))
        return None


def _check(evaluate: Evaluate | None, place: Place, owner: str, report: ProblemReport, check: CheckEvaluation) -> None:
    for text in () if evaluate is None else check(evaluate):
        report.problem(place, f"{owner}: {text}")


def write_lines(cases: Sequence[Mapping[str, Any]]) -> str:
    """Cases as JSONL, without empty fields."""
    kept = ({name: value for name, value in one.items() if value} for one in cases)
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept)
