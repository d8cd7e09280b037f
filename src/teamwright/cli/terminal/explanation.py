"""Explains a run after the fact, for `teamwright runs show`: its story, its workspace and figures, and why it ended.

It reads the record alone, so that the explanation is the same everywhere.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.attachments import file_text
from teamwright.cli.terminal.line_views import ShownFailures
from teamwright.cli.terminal.output import clean, columns, json_text, one_line
from teamwright.cli.terminal.result_wording import (
    budget_lines,
    can_retry,
    failure_text,
    next_steps,
    output_heading,
    pending_answer_text,
    recorded_formation,
    run_cells,
    status_text,
    usage_text,
    when_text,
    why_text,
)
from teamwright.cli.terminal.tool_calls import ToolCalls, call_text, tool_names, with_texts
from teamwright.history.event_wording import detail_text, note_text, question_text
from teamwright.history.member_board import Board, BudgetLevels, OpenTurn
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    WorkspaceKept,
)
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import RunEnded, RunLogged, RunMeasured, RunPaused
from teamwright.values.events.team import TeamEvaluationResult, TeamPlanned, TeamStarted
from teamwright.values.people import Answer
from teamwright.values.text.display import NOTHING, count_text, number_text, price_text, seconds_text, size_text
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.results import FINAL, iso
from teamwright.values.turns.turn import Purpose

if TYPE_CHECKING:
    from teamwright.history.run_history import RunHistory
    from teamwright.values.people import Question
    from teamwright.values.turns.results import RunResult, RunSummary


WIDTH = 78
MOST_LINES = 6
MOST_LISTED = 20
MOST_LOGGED = 5
MOST_CHILDREN = 20
LOGGED = {"info": "logged ", "warning": "warns ", "error": "logged an error "}
SAID: dict[Purpose, str] = {"work": "said", "coordinate": "said, to coordinate", "judge": "said, to judge"}


@dataclass(frozen=True, slots=True)
class WorkspaceSummary:
    """The workspace at the end of the record, and the figures, each with its total and count."""

    values: dict[str, SharedValue]
    artifacts: Sequence[WorkspaceKept]
    figures: dict[str, tuple[float, int]]

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "workspace": {
                "values": {name: held.to_json() for name, held in self.values.items()},
                "artifacts": [kept.artifact.to_json() | {"by": kept.by} for kept in self.artifacts],
            },
            "figures": [
                {"name": name, "total": total, "count": count} for name, (total, count) in self.figures.items()
            ],
        }

    def to_lines(self) -> list[str]:
        """As sections of an explanation, each after an empty line; empty sections are left out."""
        lines: list[str] = []
        for heading, listed in (
            ("Shared values", [line for name, held in self.values.items() for line in _value(name, held)]),
            ("Artifacts", [_artifact(kept) for kept in self.artifacts]),
            ("Figures", [_figure(name, *figure) for name, figure in self.figures.items()]),
        ):
            if listed:
                lines += ["", heading, *listed[:MOST_LISTED]]
            if len(listed) > MOST_LISTED:
                lines.append(f"  … and {len(listed) - MOST_LISTED} more lines; --json has them all")
        return lines


def workspace_summary(history: RunHistory) -> WorkspaceSummary:
    """Return the workspace and the figures of a run."""
    store = history.record.workspace.store(history.record.bodies)
    values = {name: held for name in store.names() if (held := store.get(name)) is not None}
    kept = [event.fact for event in history.events if isinstance(event.fact, WorkspaceKept)]
    return WorkspaceSummary(values, list({one.artifact.hash: one for one in kept}.values()), _figures(history.events))


def _figures(events: Sequence[Event]) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for event in events:
        if isinstance(fact := event.fact, RunMeasured):
            total, count = found.get(fact.name, (0.0, 0))
            found[fact.name] = (total + fact.value, count + 1)
    return found


def _value(name: str, held: SharedValue) -> list[str]:
    text = held.value if isinstance(held.value, str) else json_text(held.value, indent=None)
    lines = textwrap.wrap(clean(text), WIDTH - 4) or ["(empty)"]
    shown = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]
    return [f"  {name} (version {held.version}, by {held.by or 'the team'})", *(f"    {line}" for line in shown)]


def _artifact(kept: WorkspaceKept) -> str:
    one = kept.artifact
    return f"  {one.name} ({one.media_type}, {size_text(one.size)}, by {kept.by or 'the team'}), body {one.hash[:12]}…"


def _figure(name: str, total: float, count: int) -> str:
    return f"  {name}: {total:g}" + (f", in {count_text(count, 'measurement')}" if count > 1 else "")


@dataclass(frozen=True, slots=True)
class ExplainedEvent:
    """One entry of an explanation: a reply, a log line or a note."""

    event: Event
    member: str
    depth: int
    text: str
    said: bool = False
    tokens: int = 0
    seconds: float = 0.0
    purpose: Purpose = "work"
    level: str = ""
    tool: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The arguments or the result of a tool call, or the task of an agent that is asked as a tool, by that name."""
    repeats: bool = False
    """Whether a text leaves it out: a failure whose cause is another entry, or a verdict, which a note tells."""
    lists_tools: bool = False
    """Whether the result is the list of an MCP server's tools, of which a line shows the names."""

    def to_json(self) -> dict[str, JsonValue]:
        fact = self.event.fact
        verdict = {"verdict": fact.verdict.to_json()} if isinstance(fact, TeamEvaluationResult) else {}
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
            **verdict,
            **self.tool,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The content of an explanation, before it becomes text or JSON."""

    result: RunResult
    team: str
    task: str
    began: float
    last: Event
    entries: tuple[ExplainedEvent, ...]
    questions: dict[str, Question]
    workspace: WorkspaceSummary
    levels: BudgetLevels
    next: tuple[str, ...]
    bundle: JsonValue = None
    formation: JsonValue = None
    """How the team was formed for the task, if it was; `formed` says it in lines."""
    formed: str = ""
    free: bool = False
    inherited: int = 0
    """The tokens of calls that a fork took over."""
    parent: str = ""
    """The run of which this one is a branch, if it is one."""
    children: Sequence[RunSummary] = ()
    """The branches of the run that are runs of their own, in the order in which they were submitted."""
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """Answers that the run has not consumed because it was not resumed yet, by the key of their question."""

    @property
    def why(self) -> str:
        """Why the run has its status, as a sentence; for a queued run, for what it waits."""
        if self.result.status == "paused" and isinstance(self.last.fact, RunPaused) and self.last.fact.why:
            return self.last.fact.why
        if self.result.status == "queued" and (note := note_text(self.last)) is not None:
            return f"The run {note}."
        return why_text(self.result.status, self.result.stop_reason, self.result.resume_at)

    def to_json(self) -> dict[str, JsonValue]:
        """As data: the result's fields, and the story."""
        fields: dict[str, JsonValue] = {
            "team": self.team,
            "task": self.task,
            "why": self.why,
            "events": self.last.number,
            "story": [entry.to_json() for entry in self.entries],
            "questions": {key: self._question(key, question) for key, question in self.questions.items()},
            "budget": [level.to_json(self.levels.driver_seconds) for level in self.levels],
            "next": list(self.next),
        }
        if self.bundle is not None:
            fields["bundle"] = self.bundle
        if self.formation is not None:
            fields["formation"] = self.formation
        if self.parent:
            fields["parent"] = self.parent
        if self.children:
            fields["children"] = [child.to_json() for child in self.children]
        return self.result.to_json() | fields | self.workspace.to_json()

    def _question(self, key: str, question: Question) -> JsonValue:
        answer = self.answers.get(key)
        given: dict[str, JsonValue] = {"answer": answer.to_json() if answer is not None else None}
        return question.to_json() | given


def explain(
    history: RunHistory,
    result: RunResult,
    answers: Mapping[str, Answer] | None = None,
    tools: Mapping[int, Mapping[str, JsonValue]] | None = None,
    children: Sequence[RunSummary] = (),
) -> Explanation:
    """Explain a run from its events.

    `answers` are those that it has not consumed yet, and `tools` the arguments and results of tool calls, by the number
    of their event. `children` are its child runs.
    """
    questions = history.questions() if result.status not in FINAL else {}
    given = answers or {}
    formation, formed = recorded_formation(history.manifest)
    unanswered = {key: question for key, question in questions.items() if key not in given}
    return Explanation(
        result=result,
        team=history.started.team,
        task=history.task,
        began=history.record.started_at,
        last=history.events[-1],
        entries=tuple(fold(history.events, _Story(history, tools or {})).entries),
        questions=questions,
        workspace=workspace_summary(history),
        levels=BudgetLevels.from_events(history.events),
        next=tuple(next_steps(result, unanswered, retries=can_retry(history))),
        bundle=_bundle_of(history),
        formation=formation,
        formed=formed,
        free=history.is_free_of_charge,
        inherited=history.inherited_tokens(),
        parent=history.started.parent,
        children=children,
        answers=given,
    )


@dataclass(slots=True)
class _Story:
    """Folds events into the entries of an explanation."""

    history: RunHistory
    tools: Mapping[int, Mapping[str, JsonValue]]
    entries: list[ExplainedEvent] = field(default_factory=list[ExplainedEvent])
    _board: Board = field(default_factory=Board)
    _calls: ToolCalls = field(default_factory=ToolCalls)
    _failures: ShownFailures = field(default_factory=ShownFailures)
    _purposes: dict[str, Purpose] = field(default_factory=dict[str, Purpose])

    def apply(self, event: Event) -> None:
        """Apply one event, before the board does: a turn that the event ends must still be on the board."""
        if isinstance(event.fact, AgentAsked):
            self._purposes[event.key] = event.fact.purpose
        turn = self._board.turn_of(event.key)
        found = self._called(event, turn) or _entries(event, turn, self.history)
        if self._failures.has(event):
            found = [replace(entry, repeats=True) for entry in found]
        purpose, tool = self._purposes.get(event.key, "work"), self.tools.get(event.number, {})
        self.entries += [replace(entry, purpose=purpose, tool={} if at else tool) for at, entry in enumerate(found)]
        self._board.apply(event)
        self._calls.apply(event)
        self._failures.apply(event)

    def _called(self, event: Event, turn: OpenTurn | None) -> list[ExplainedEvent]:
        """The entry for the result of a tool call, or for an agent that is asked as a tool."""
        member, depth = (turn.row.member, turn.row.depth) if turn else ("", 0)
        match event.fact:
            case AgentAsked(member=asked) if self._calls.asker_of(event) is not None:
                return [ExplainedEvent(event, member, depth, f"asks {asked}")]
            case AgentReturned() if turn is not None and (call := self._calls.of(event)) is not None:
                seconds = max(0.0, event.time - call.began)
                lists = call.method is not None
                text = f"{call.tool} returned"
                return [ExplainedEvent(event, member, depth, text, seconds=seconds, lists_tools=lists)]
            case _:
                return []


def _bundle_of(history: RunHistory) -> JsonValue:
    """The evaluation and the schedule behind a topology that was chosen automatically, if it was."""
    source = history.manifest
    return source.get("bundle") if isinstance(source, dict) else None


def _entries(event: Event, turn: OpenTurn | None, history: RunHistory) -> list[ExplainedEvent]:
    member, depth = (turn.row.member, turn.row.depth) if turn else ("", 0)
    found: list[ExplainedEvent] = []
    match event.fact:
        case AgentReplied() as fact if turn and depth > 0 and not turn.row.is_team:
            said = "\n\n".join(message.content for message in history.record.bodies.messages(fact.messages))
            seconds = max(0.0, event.time - turn.began)
            entry = ExplainedEvent(event, member, depth, said, said=True, tokens=turn.tokens, seconds=seconds)
            found.append(replace(entry, repeats=turn.is_review))
        case TeamStarted(strategy=strategy, members=members, share=share):
            shared = "envelopes" if share == "a2a_lite" else f"the {share}"
            text = f"{strategy} of {', '.join(members)}, sharing {shared}"
            found.append(ExplainedEvent(event, member, depth, text))
        case AgentCalled(effect="tool") as fact:
            found.append(ExplainedEvent(event, member, depth, call_text(fact)))
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
    elif note := note_text(event) or detail_text(event):
        found.append(ExplainedEvent(event, member, depth, note))
    return found


def explanation_text(explanation: Explanation, *, full: bool = False) -> str:
    """The explanation as text; tool calls are folded unless it is `full`."""
    result = explanation.result
    entries = [entry for entry in explanation.entries if not entry.repeats]
    shown = _without_long_logs(entries)
    price = price_text(result.usage.usd, free=explanation.free)
    used = (usage_text(result.usage, explanation.inherited), price, seconds_text(result.seconds))
    began = explanation.began
    lines = [
        f"Run      {result.run_id}",
        *([f"Parent   {explanation.parent}"] if explanation.parent else []),
        f"Team     {explanation.team}",
        f"Status   {status_text(result)}",
        f"Started  {when_text(began)}, {explanation.last.number} events until {when_text(explanation.last.time)}",
        f"Used     {', '.join(filter(None, used))}",
        "",
        "Task",
        _indented(explanation.task, 2),
        *(_indented(f"with {file_text(one)}", 2) for one in result.attachments),
        *(("", "Who was asked to work on it", explanation.formed) if explanation.formed else ()),
        "",
        "What happened",
        *(
            line
            for entry, more in _collapse_repeats(shown)
            for line in (*_lines(entry, began, full=full), *_more(more))
        ),
        *_hidden_log_lines(result.run_id, len(entries) - len(shown)),
        *_child_lines(explanation.children, full=full),
        "",
        "Why it ended" if result.status in FINAL else "Where it is now",
        _indented(explanation.why, 2),
    ]
    if result.failure is not None:
        lines.append(_indented(failure_text(result.failure), 2))
    else:
        lines += [_indented(f"warning: {warning}", 2) for warning in result.warnings]
    for key, question in explanation.questions.items():
        if (answer := explanation.answers.get(key)) is None:
            lines.append(_indented(f"open question {key}: {question_text(question)}", 2))
        else:
            lines.append(_indented(f"question {key}: {question_text(question)}", 2))
            lines.append(_indented(f"{pending_answer_text(answer)}; resume the run to use it", 4))
    if result.output is not None:
        lines += ["", output_heading(result), _indented(result.output, 2)]
    lines += budget_lines(explanation.levels)
    lines += explanation.workspace.to_lines()
    lines += ["", "What you can do next", *(_indented(step, 2) for step in explanation.next)]
    return clean("\n".join(lines))


def _children_table(children: Sequence[RunSummary]) -> str:
    """One line per child run, in columns: who drove it, and how it went."""
    lines: list[Sequence[str]] = [("RUN", "MEMBER", "WORKER", "STATUS", "TIME", "TOKENS", "PRICE")]
    for child in children:
        run, member, status, _, *figures = run_cells(child)
        lines.append((run, member, one_line(child.driver) or NOTHING, status, *figures))
    return columns(lines)


def _without_long_logs(entries: Sequence[ExplainedEvent]) -> list[ExplainedEvent]:
    """The entries without debug lines and with only the first info lines of each turn."""
    logged: Counter[str] = Counter()
    shown: list[ExplainedEvent] = []
    for entry in entries:
        if entry.level in {"debug", "info"}:
            logged[entry.event.scope] += 1
            if entry.level == "debug" or logged[entry.event.scope] > MOST_LOGGED:
                continue
        shown.append(entry)
    return shown


def _collapse_repeats(entries: Sequence[ExplainedEvent]) -> Iterator[tuple[ExplainedEvent, int]]:
    """Each entry with the number of identical notes that follow it directly and are left out."""
    for (_, said), same in groupby(
        entries, lambda one: ((one.member, one.depth, one.text, one.level, one.tool), one.said)
    ):
        group = list(same)
        if said:
            yield from ((one, 0) for one in group)
        else:
            yield group[0], len(group) - 1


def _hidden_log_lines(run_id: str, hidden: int) -> list[str]:
    return [f"  {count_text(hidden, 'log line')} not shown; see  teamwright runs logs {run_id}"] if hidden else []


def _child_lines(children: Sequence[RunSummary], *, full: bool) -> list[str]:
    """The child runs as a table; only the first ones unless it is `full`."""
    if not children:
        return []
    states = ", ".join(f"{count} {status}" for status, count in Counter(one.status for one in children).items())
    shown = children if full else children[:MOST_CHILDREN]
    more = len(children) - len(shown)
    return [
        "",
        f"Child runs, whose tokens and price are included: {states}",
        _indented(_children_table(shown), 2),
        *([f"  … {more} more; see all with  --full"] if more else []),
    ]


def _more(count: int) -> list[str]:
    return [f"  {'':<11} … {count} more like this"] if count else []


def _lines(entry: ExplainedEvent, began: float, *, full: bool) -> list[str]:
    """An entry as lines: a note is one line, a reply a heading with its figures and the text below."""
    when = f"+{seconds_text(max(0.0, entry.event.time - began))}"
    indent = "  " * max(0, entry.depth - 1)
    if not entry.said:
        who = f"{entry.member} {LOGGED.get(entry.level, '')}" if entry.member else ""
        names = entry.lists_tools and not full
        asks_judge = entry.purpose == "judge" and isinstance(entry.event.fact, AgentAsked)
        if asks_judge and not full:  # the prompts of judges begin alike
            return [f"  {when:<11} {indent}{who}· {entry.text} to judge"]
        texts = {name: tool_names(text) for name, text in entry.tool.items()} if names else entry.tool
        said = with_texts(" ".join(clean(entry.text).split()), texts, full=full)
        shown, *rest = said.split("\n")
        return [f"  {when:<11} {indent}{who}· {shown}", *(f"{'':<16}{line}" for line in rest)]
    clock = when_text(entry.event.time).partition(" ")[2]
    used = f"{number_text(entry.tokens)} tokens in {seconds_text(entry.seconds)}, at {clock}"
    how = f"{entry.member} {SAID[entry.purpose]}"
    if not entry.text.strip():
        return [f"  {when:<11} {indent}{how.replace('said', 'said nothing')} ({used}, event {entry.event.number})"]
    return [f"  {when:<11} {indent}{how} ({used}, event {entry.event.number}):", _indented(entry.text, 16)]


def _indented(text: str, by: int) -> str:
    return textwrap.indent(clean(text).strip("\n"), " " * by, lambda line: bool(line.strip()))
