"""What a run did, in the words of a case, and how that differs from what the case expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from pydantic_core import to_json

from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Journal
from teamwright.testing.case_file import Expected, ExpectedText, ExpectedTokens, ExpectedTool, ExpectedVerdict
from teamwright.testing.recorded_case import natural_key
from teamwright.values.events.agent import AgentAsked, AgentCalled
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.text.timed_regex import PatternSearch
from teamwright.values.turns.results import RunResult
from teamwright.values.value import JsonValue


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
