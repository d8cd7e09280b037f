"""The file of a case: the team and its task, the answers of people, and what is expected of the run.

Its recording is beside it. Every mistake in both is reported at once, with its line. What a run did is put in the same
words, so that a difference from what is expected has a place and a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import cast

from pydantic import Field, ValidationError, field_validator
from pydantic_core import to_json

from teamwright.documents.nodes import Fields, Node, ProblemReport, place_at, plain, sort_problems
from teamwright.documents.reader import mapping_form, read_file, yaml_text
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import ManifestError
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Journal
from teamwright.testing.recorded_case import ENDING, ROOM, Recording, natural_key, read_recording
from teamwright.values.events.agent import AgentAsked, AgentCalled
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.text.timed_regex import PatternSearch, pattern_problem
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.results import RunResult, Status, StopReason
from teamwright.values.value import JsonValue, Value

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
        return yaml_text(self.model_dump(mode="json", exclude_unset=True))


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


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """One way in which a run differs from its case: where, what, and the difference of two texts if there are any."""

    key: str
    text: str
    difference: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data."""
        return {"key": self.key, "text": self.text, "difference": list(self.difference)}


async def observed(journal: Journal, history: RunHistory, result: RunResult) -> Expected:
    """Return what a run did as what a case would expect of it."""
    events = [event for event in history.events if not history.record.is_superseded(event.key)]
    called = [(event.key, event.fact) for event in events if isinstance(event.fact, AgentCalled)]
    tools = {key: fact for key, fact in called if fact.effect == "tool" and fact.method is None}
    written = {fact.arguments for fact in tools.values() if fact.arguments}
    bodies = RecordedBodies(await journal.bodies(written))
    uses = [
        ExpectedTool(
            member=history.record.asks[turn].asked.member if (turn := history.record.turn_of(key)) else "",
            tool=fact.name,
            arguments=_mapping(bodies.value(fact.arguments)) if fact.arguments else {},
        )
        for key, fact in sorted(tools.items(), key=lambda one: natural_key(one[0]))
    ]
    asked = [event.fact for event in events if isinstance(event.fact, AgentAsked)]
    members = Counter(fact.member for fact in asked if fact.member_kind != "team")
    verdicts = [
        (event.key, ExpectedVerdict(member=event.fact.member, outcome=event.fact.verdict.outcome))
        for event in events
        if isinstance(event.fact, TeamEvaluationResult)
    ]
    given: dict[str, object] = {"status": result.status, "stop_reason": result.stop_reason}
    if result.data is not None:
        given["data"] = result.data
    elif result.output is not None:
        given["output"] = result.output
    given["members"] = dict(sorted(members.items()))
    if uses:
        given["tools"] = tuple(uses)
    if verdicts:
        given["verdicts"] = tuple(one for _, one in sorted(verdicts, key=lambda one: natural_key(one[0])))
    given["tokens"] = ExpectedTokens(about=result.usage.total_tokens)
    return Expected.model_validate(given)


def _plain(
    value: str | Mapping[str, int] | Sequence[ExpectedVerdict] | None,
) -> str | list[str] | dict[str, int] | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    return [f"{one.member} {one.outcome}" for one in value]


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {"": value}


def differences(expected: Expected, found: Expected) -> Iterator[CaseFinding]:
    """Yield how a run differs from what its case expects."""
    for name in ("status", "stop_reason", "members", "verdicts"):
        wanted, had = _plain(getattr(expected, name)), _plain(getattr(found, name))
        if wanted is not None and wanted != (had or type(wanted)()):
            yield CaseFinding("", f"{name}: expected {_shown(wanted)}, found {_shown(had)}")
    yield from _output_difference(expected, found)
    if expected.tools is not None:
        yield from _tool_differences(expected.tools, found.tools or ())
    if expected.tokens is not None and found.tokens is not None:
        about, margin, had = expected.tokens.about, expected.tokens.margin, found.tokens.about
        if abs(had - about) > about * margin:
            yield CaseFinding("", f"tokens: expected {about} within {margin:.0%}, found {had}")


def _output_difference(expected: Expected, found: Expected) -> Iterator[CaseFinding]:
    if expected.data is not None and expected.data != found.data:
        yield CaseFinding("", "data: the result differs", text_difference(_pretty(expected.data), _pretty(found.data)))
    text = found.output if isinstance(found.output, str) else "" if found.data is None else _shown(found.data)
    match expected.output:
        case ExpectedText(match=match) if not PatternSearch().found(match, text):
            yield CaseFinding("", f"output: {match!r} matches nothing in it", tuple(text.splitlines()))
        case str() as wanted if wanted != text:
            yield CaseFinding("", "output: the answer differs", text_difference(wanted, text))
        case _:
            pass


def _tool_differences(expected: Sequence[ExpectedTool], found: Sequence[ExpectedTool]) -> Iterator[CaseFinding]:
    left = list(found)
    missing: list[ExpectedTool] = []
    for one in expected:
        same = next((had for had in left if _is_call(one, had)), None)
        if same is None:
            missing.append(one)
        else:
            left.remove(same)
    yield from (CaseFinding("", f"tools: expected a call that was not made: {_call(one)}") for one in missing)
    yield from (CaseFinding("", f"tools: a call was made that is not expected: {_call(one)}") for one in left)


def _is_call(expected: ExpectedTool, found: ExpectedTool) -> bool:
    same = (expected.member, expected.tool) == (found.member, found.tool)
    return same and (expected.arguments is None or expected.arguments == found.arguments)


def _call(one: ExpectedTool) -> str:
    return f"{one.member} ⚙ {one.tool} {_shown(one.arguments)}"


def text_difference(before: str, after: str) -> tuple[str, ...]:
    """Return the lines in which two texts differ, with what surrounds them."""
    found = unified_diff(before.splitlines(), after.splitlines(), "recorded", "now", lineterm="", n=1)
    return tuple(found)[2:]


def _pretty(value: JsonValue) -> str:
    return to_json(value, indent=2).decode()


def _shown(value: object) -> str:
    match value:
        case dict() | list():
            return to_json(value).decode()
        case None:
            return "nothing"
        case _:
            return str(value)
