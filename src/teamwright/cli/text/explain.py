"""Explains a run to somebody who was not there. Reads the record alone, so it says the same everywhere."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.cli.terminal.output import clean
from teamwright.cli.text.budgets import budget_lines
from teamwright.cli.text.events import (
    answer_word,
    can_retry,
    failure_text,
    next_steps,
    note_text,
    price_text,
    question_text,
    seconds_text,
    status_text,
    usage_text,
    waiting_answer_text,
    way_text,
    when_text,
    why_text,
)
from teamwright.cli.text.workspace import Holdings, holdings_of
from teamwright.history.board import Board, OpenTurn
from teamwright.history.budget_levels import BudgetLevels
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentFailed, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.events.run import RunEnded, RunLogged
from teamwright.values.events.team import TeamPlanned, TeamStarted
from teamwright.values.people.questions import Answer
from teamwright.values.results import FINAL, iso
from teamwright.values.text.display import count_text, number_text
from teamwright.values.turns.turn import Purpose

if TYPE_CHECKING:
    from teamwright.history.history import RunHistory
    from teamwright.values.people.questions import Question
    from teamwright.values.results import RunResult

MOST_LOGGED = 5
LOGGED = {"info": "logged ", "warning": "warns ", "error": "logged an error "}
SAID: dict[Purpose, str] = {"work": "said", "coordinate": "said, to coordinate", "judge": "said, to judge"}


@dataclass(frozen=True, slots=True)
class ExplainedEvent:
    """One thing that happened: somebody said something, or something else worth knowing."""

    event: Event
    member: str
    depth: int
    text: str
    said: bool = False
    tokens: int = 0
    seconds: float = 0.0
    purpose: Purpose = "work"
    level: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "number": self.event.number,
            "at": iso(self.event.time),
            "key": self.event.key,
            "kind": "said" if self.said else "log" if self.level else "note",
            "purpose": self.purpose,
            "member": self.member,
            "level": self.level or None,
            "text": self.text,
            "total_tokens": self.tokens,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that an explanation says."""

    result: RunResult
    team: str
    task: str
    began: float
    last: Event
    entries: tuple[ExplainedEvent, ...]
    questions: dict[str, Question]
    holdings: Holdings
    levels: BudgetLevels
    next: tuple[str, ...]
    bundle: JsonValue = None
    free: bool = False
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """Answers that were given and that the run has not been resumed to take, by the key of their question."""

    def to_json(self) -> dict[str, JsonValue]:
        """As data: the result's fields, and the story."""
        told: dict[str, JsonValue] = {
            "team": self.team,
            "task": self.task,
            "why": why_text(self.result.status, self.result.stop_reason),
            "events": self.last.number,
            "story": [entry.to_json() for entry in self.entries],
            "questions": {key: self._question(key, question) for key, question in self.questions.items()},
            "budget": [level.to_json(self.levels.driver_seconds) for level in self.levels],
            "next": list(self.next),
        }
        if self.bundle is not None:
            told["bundle"] = self.bundle
        return self.result.to_json() | told | self.holdings.to_json()

    def _question(self, key: str, question: Question) -> JsonValue:
        answer = self.answers.get(key)
        told: dict[str, JsonValue] = {"answer": answer.to_json() if answer is not None else None}
        return question.to_json() | told


def account_of(history: RunHistory, result: RunResult, answers: Mapping[str, Answer] | None = None) -> Explanation:
    """Read the story of a run out of its events; `answers` are those that it has not taken yet."""
    questions = history.questions() if result.status not in FINAL else {}
    given = answers or {}
    unanswered = {key: question for key, question in questions.items() if key not in given}
    return Explanation(
        result=result,
        team=history.started.team,
        task=history.task,
        began=history.record.started_at,
        last=history.events[-1],
        entries=tuple(fold(history.events, _Story(history)).entries),
        questions=questions,
        holdings=holdings_of(history),
        levels=BudgetLevels.from_events(history.events),
        next=tuple(next_steps(result, unanswered, retries=can_retry(history))),
        bundle=_bundle_of(history),
        free=history.is_free_of_charge,
        answers=given,
    )


@dataclass(slots=True)
class _Story:
    """What happened so far, in the words of its events."""

    history: RunHistory
    entries: list[ExplainedEvent] = field(default_factory=list[ExplainedEvent])
    _board: Board = field(default_factory=Board)
    _purposes: dict[str, Purpose] = field(default_factory=dict[str, Purpose])

    def apply(self, event: Event) -> None:
        """Apply one event: the turn that it ends is still on the board."""
        if isinstance(event.fact, AgentAsked):
            self._purposes[event.key] = event.fact.purpose
        found = _entries(event, self._board.turn_of(event.key), self.history)
        self.entries += [replace(entry, purpose=self._purposes.get(event.key, "work")) for entry in found]
        self._board.apply(event)


def _bundle_of(history: RunHistory) -> JsonValue:
    """How the shape of the team was chosen, and the schedule that followed, where it was."""
    source = history.manifest
    return source.get("bundle") if isinstance(source, dict) else None


def _entries(event: Event, turn: OpenTurn | None, history: RunHistory) -> list[ExplainedEvent]:
    member, depth = (turn.row.member, turn.row.depth) if turn else ("", 0)
    found: list[ExplainedEvent] = []
    match event.fact:
        case AgentReplied() as fact if turn and depth > 0 and not turn.row.is_team:
            said = "\n\n".join(message.content for message in history.record.bodies.messages(fact.messages))
            seconds = max(0.0, event.time - turn.began)
            found.append(ExplainedEvent(event, member, depth, said, said=True, tokens=turn.tokens, seconds=seconds))
        case TeamStarted(strategy=strategy, members=members, share=share):
            words = (
                f"{strategy} of {', '.join(members)}, sharing {'envelopes' if share == 'a2a_lite' else f'the {share}'}"
            )
            found.append(ExplainedEvent(event, member, depth, words))
        case AgentCalled(effect="tool", name=name):
            found.append(ExplainedEvent(event, member, depth, f"calls the tool {name}"))
        case RunLogged(text=text, level=level):
            return [ExplainedEvent(event, member, depth, text, level=level)]
        case AgentFailed() if depth == 0:
            return found
        case RunEnded():
            return found
        case _:
            pass
    if isinstance(event.fact, TeamPlanned) and event.fact.reason:
        found.append(ExplainedEvent(event, member, depth, f"{note_text(event)}; {event.fact.reason}"))
    elif note := note_text(event) or way_text(event):
        found.append(ExplainedEvent(event, member, depth, note))
    return found


def explained(account: Explanation) -> str:
    """The explanation as text."""
    result, shown = account.result, _worth_showing(account.entries)
    price = price_text(result.usage.usd, free=account.free)
    used = (usage_text(result.usage), price, seconds_text(result.seconds))
    lines = [
        f"Run      {result.run_id}",
        f"Team     {account.team}",
        f"Status   {status_text(result)}",
        f"Started  {when_text(account.began)}, {account.last.number} events until {when_text(account.last.time)}",
        f"Used     {', '.join(filter(None, used))}",
        "",
        "Task",
        _indented(account.task, 2),
        "",
        "What happened",
        *(line for entry, more in _gathered(shown) for line in (*_told(entry, account.began), *_more(more))),
        *_left_out(account, shown),
        "",
        "Why it ended" if result.status in FINAL else "How it stands",
        _indented(why_text(result.status, result.stop_reason), 2),
    ]
    if result.failure is not None:
        lines.append(_indented(failure_text(result.failure), 2))
    else:
        lines += [_indented(f"warning: {warning}", 2) for warning in result.warnings]
    for key, question in account.questions.items():
        if (answer := account.answers.get(key)) is None:
            lines.append(_indented(f"open question {key}: {question_text(question)}", 2))
        else:
            lines.append(_indented(f"question {key}: {question_text(question)}", 2))
            lines.append(_indented(f"{waiting_answer_text(answer)}; resume the run to take it", 4))
    if result.output is not None:
        lines += ["", answer_word(result), _indented(result.output, 2)]
    lines += budget_lines(account.levels)
    lines += account.holdings.words()
    lines += ["", "What can be done next", *(_indented(step, 2) for step in account.next)]
    return clean("\n".join(lines))


def _worth_showing(entries: Sequence[ExplainedEvent]) -> list[ExplainedEvent]:
    """All but the lines of a log that is long: of each turn a few, and what is a warning or worse."""
    logged: Counter[str] = Counter()
    shown: list[ExplainedEvent] = []
    for entry in entries:
        if entry.level in {"debug", "info"}:
            logged[entry.event.scope] += 1
            if entry.level == "debug" or logged[entry.event.scope] > MOST_LOGGED:
                continue
        shown.append(entry)
    return shown


def _gathered(entries: Sequence[ExplainedEvent]) -> Iterator[tuple[ExplainedEvent, int]]:
    """The entries, and how often more a note comes that is just the same as the one before it."""
    for (_, said), same in groupby(entries, lambda one: ((one.member, one.depth, one.text, one.level), one.said)):
        group = list(same)
        if said:
            yield from ((one, 0) for one in group)
        else:
            yield group[0], len(group) - 1


def _left_out(account: Explanation, shown: Sequence[ExplainedEvent]) -> list[str]:
    hidden = len(account.entries) - len(shown)
    if not hidden:
        return []
    return [f"  {count_text(hidden, 'log line')} not shown; see  teamwright runs logs {account.result.run_id}"]


def _more(count: int) -> list[str]:
    return [f"  {'':<11} … {count} more like this"] if count else []


def _told(entry: ExplainedEvent, began: float) -> list[str]:
    """A heading with time and figures, and below it what was said; a note is one line."""
    when = f"+{seconds_text(max(0.0, entry.event.time - began))}"
    indent = "  " * max(0, entry.depth - 1)
    if not entry.said:
        who = f"{entry.member} {LOGGED.get(entry.level, '')}" if entry.member else ""
        return [f"  {when:<11} {indent}{who}· {' '.join(clean(entry.text).split())}"]
    clock = when_text(entry.event.time).partition(" ")[2]
    used = f"{number_text(entry.tokens)} tokens in {seconds_text(entry.seconds)}, at {clock}"
    said = entry.text if entry.text.strip() else "(nothing)"
    how = f"{entry.member} {SAID[entry.purpose]}"
    return [f"  {when:<11} {indent}{how} ({used}, event {entry.event.number}):", _indented(said, 16)]


def _indented(text: str, by: int) -> str:
    return textwrap.indent(clean(text).strip("\n"), " " * by, lambda line: bool(line.strip()))
