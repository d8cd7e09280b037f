"""The file of a case: the team and its task, the answers of people, and what is expected of the run.

Its recording is beside it. Every mistake in both is reported at once, with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from pydantic import Field, JsonValue, ValidationError, field_validator

from teamwright.agents.script_file import script_text
from teamwright.documents.nodes import Fields, Node, ProblemReport, place_at, plain, sort_problems
from teamwright.documents.reader import mapping_form, read_file
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import ManifestError
from teamwright.testing.recorded_case import ENDING, ROOM, Recording, read_recording
from teamwright.values.text.timed_regex import pattern_problem
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.results import Status, StopReason
from teamwright.values.value import Value

NO_CASE = "This is not a case: a case has a manifest, a task and what it expects"
SUFFIXES = (".yaml", ".yml")
MARGIN = 0.1
"""The share by which the tokens of a run may differ."""


class AnswerOfCase(Value):
    """The answer of a person to a question of the run."""

    text: str
    data: JsonValue = None
    by: str = ""


class ExpectedText(Value):
    """A text that matches a regular expression."""

    match: str

    @field_validator("match")
    @classmethod
    def _expression(cls, match: str) -> str:
        if problem := pattern_problem(match):
            raise ValueError(f"match is not a regular expression: {problem}")
        return match


class ExpectedTool(Value):
    """A call of a tool by a member; arguments that are not given may be any."""

    member: str
    tool: str
    arguments: dict[str, JsonValue] | None = None


class ExpectedVerdict(Value):
    """The verdict on the work of a member."""

    member: str
    outcome: str


class ExpectedTokens(Value):
    """About how many tokens the run uses."""

    about: int = Field(ge=0)
    margin: float = Field(default=MARGIN, ge=0, allow_inf_nan=False)


class Expected(Value):
    """What a case checks; what is not given is not checked."""

    status: Status | None = None
    stop_reason: StopReason | None = None
    output: str | ExpectedText | None = None
    data: JsonValue = None
    members: dict[str, int] | None = None
    tools: tuple[ExpectedTool, ...] | None = None
    verdicts: tuple[ExpectedVerdict, ...] | None = None
    tokens: ExpectedTokens | None = None


class RunCase(Value):
    """A case; paths are relative to its file."""

    manifest: str
    team: str = ""
    model: str = ""
    task: str
    answers: dict[str, AnswerOfCase] = {}
    expect: Expected = Expected.model_construct()

    def to_yaml(self) -> str:
        """Return the text of the file."""
        return script_text(self.model_dump(mode="json", exclude_unset=True))


@dataclass(frozen=True, slots=True)
class LoadedCase:
    """A case, where it is, and its recording."""

    path: Path
    case: RunCase
    recording: Recording

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return self.path.stem

    @property
    def manifest(self) -> Path:
        """The manifest of its team."""
        return self.path.parent / self.case.manifest


def recording_path(case: Path) -> Path:
    """Return where the recording of a case is."""
    return case.with_name(case.stem + ENDING)


def is_case(path: Path) -> bool:
    """Whether a file is that of a case: a recording is beside it."""
    return path.suffix in SUFFIXES and recording_path(path).is_file()


def read_case(path: Path) -> LoadedCase:
    """Read a case and its recording; raises `ManifestError` with every mistake in them."""
    report = ProblemReport()
    documents = read_file(path, report, ROOM, form=mapping_form(RunCase.model_fields, NO_CASE))
    case: RunCase | None = None
    for extra in documents[1:]:
        report.problem(extra.place, "A case is one document, and this is a further one", "remove it")
    if documents and isinstance(documents[0], Fields):
        case = _build(documents[0], report)
        _check_manifest(path, documents[0], report)
    recording = read_recording(recording_path(path), report)
    if recording is not None and case is not None:
        _check_sent(recording, case, documents[0], report)
    if report.problems or case is None or recording is None:
        raise ManifestError(sort_problems(report.problems, [str(path), str(recording_path(path))]))
    return LoadedCase(path, case, recording)


@cache
def _schema() -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", RunCase.model_json_schema())


def _build(root: Fields, report: ProblemReport) -> RunCase | None:
    before = len(report.problems)
    SchemaCheck("the case", report, cast("Mapping[str, JsonValue]", _schema()["$defs"])).check(root, _schema())
    faulty = {(one.line, one.column) for one in report.problems[before:]}
    data = plain(root)
    try:
        return RunCase.model_validate(data)
    except ValidationError as error:
        for one in misfits_of(error, data):
            place = place_at(root, one.at)
            if (place.line, place.column) not in faulty and len(faulty) == 0:
                report.problem(place, f"{'.'.join(map(str, one.at))}: {one.text}")
        return None


def _check_manifest(path: Path, root: Fields, report: ProblemReport) -> None:
    named = root.text("manifest")
    if named is not None and not (path.parent / str(named.value)).exists():
        report.problem(named.place, f"manifest: there is no {str(named.value)!r} beside the case")


def _check_sent(recording: Recording, case: RunCase, root: Node, report: ProblemReport) -> None:
    """Report answers that were taken out of the case and are still in the recording."""
    for one in recording.sent:
        if one.answers and one.answers not in case.answers:
            place = root.key_place("answers") if isinstance(root, Fields) else root.place
            hint = report.near(one.answers, case.answers)
            report.problem(place, f"answers: the question {one.answers!r} of the recording has no answer", hint)


def find_cases(paths: list[Path]) -> list[Path]:
    """Return the cases of these files and folders, in order; a file is one whatever its name."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(one for one in sorted(path.rglob("*")) if is_case(one)))
        else:
            found[path] = None
    return list(found)
