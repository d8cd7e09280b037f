"""`teamwright runs logs` prints what each member was asked, called, wrote, replied and logged, from the record."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import Full, Run, complete_members
from teamwright.cli.terminal.output import Json, Out, check_out, clean, one_line, write_json, write_result
from teamwright.errors import UnknownName
from teamwright.values.run_keys import key_and_parents
from teamwright.values.text.display import cut, number_text, seconds_text

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.cli.terminal.tool_calls import ToolCalls
    from teamwright.history.run_history import RunHistory
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.events.agent import AgentAsked
    from teamwright.values.events.event import Event
    from teamwright.values.turns.artifacts import Artifact
    from teamwright.values.turns.results import RunSummary


LEVELS = ("debug", "info", "warning", "error")
WARNINGS = frozenset(
    (
        "agent.call_failed",
        "agent.call_rejected",
        "agent.abandoned",
        "budget.refused",
        "budget.exceeded",
        "budget.misreported",
        "budget.degraded",
        "budget.throttled",
        "budget.unpriced",
        "run.expired",
        "workspace.conflicted",
    )
)
"""The kinds of events that are warnings, whatever they say."""
WIDEST = 200


def logs(
    run: Run,
    member: Annotated[
        str | None,
        typer.Option(
            "--member",
            metavar="NAME",
            help="Only this member; a team includes its members.",
            autocompletion=complete_members,
        ),
    ] = None,
    level: Annotated[str, typer.Option("--level", help="Minimum level: debug, info, warning or error.")] = "debug",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run stops.")] = False,
    full: Full = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Print what each member did, replied and logged.

    Example:
      teamwright runs logs last --member writer --level info
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        await LogQuery(found.id, member, level, follow, json, out, full).print_lines(engine)
        return 0

    return with_run(run, work)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log line about a member; `path` names the teams around the member, outermost first, and then the member."""

    number: int
    time: float
    level: str
    path: tuple[str, ...]
    key: str
    text: str

    askers: tuple[str, ...] = ()
    """The members that asked this one as a tool, outermost first."""

    @property
    def member(self) -> str:
        """The member that the line is about; empty if it is about the run."""
        return self.path[-1] if self.path else ""

    def to_json(self) -> dict[str, JsonValue]:
        from teamwright.values.turns.results import iso

        return {
            "number": self.number,
            "at": iso(self.time),
            "level": self.level,
            "member": self.member,
            "key": self.key,
            "text": self.text,
        }

    def to_text(self) -> str:
        """As text; further lines of a message are indented below its first."""
        clock = datetime.fromtimestamp(self.time, UTC).astimezone().strftime("%H:%M:%S")
        who = " > ".join((*self.askers, self.member or "the run"))
        head = f"{self.number:>5}  {clock}  {self.level:<7}  {who:<12}  "
        first, *rest = clean(self.text).strip().splitlines() or [""]
        return "\n".join([head + first, *(" " * len(head) + line for line in rest)])


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which log lines of a run to print, and in which form."""

    run_id: str
    member: str | None
    level: str
    follow: bool
    json: bool
    out: Path | None
    full: bool = False

    async def print_lines(self, engine: Engine) -> None:
        """Print the lines; with `follow`, each one as its event is recorded."""
        check_level(self.level)
        if self.member is not None:
            _check_member(self.member, await engine.runs.history(self.run_id))
        lines: list[LogLine] = []
        streams = self.follow and self.out is None and not self.json
        async for line in self._lines(engine):
            if streams:
                write_result(line.to_text())
            else:
                lines.append(line)
        if self.json:
            write_json([line.to_json() for line in lines], self.out)
        elif not streams and (lines or self.out is not None):
            write_result("\n".join(line.to_text() for line in lines), self.out)

    async def _lines(self, engine: Engine) -> AsyncGenerator[LogLine]:
        book = LogBook(engine.journal, self.full)
        least = LEVELS.index(self.level)
        async for event in _events(engine, self.run_id, follow=self.follow):
            line = await book.line(event)
            if line is None or LEVELS.index(line.level) < least:
                continue
            if self.member is None or self.member in line.path:
                yield line


async def _events(engine: Engine, run_id: str, *, follow: bool) -> AsyncGenerator[Event]:
    from teamwright.values.events.event import Event

    if not follow:
        for event in await engine.journal.read(run_id):
            yield event
        return
    async for item in engine.runs.follow(run_id):
        if isinstance(item, Event):
            yield item


def check_level(level: str) -> None:
    """Reject an unknown level."""
    if level not in LEVELS:
        raise UnknownName("level", level, LEVELS)


def _check_member(member: str, history: RunHistory) -> None:
    """Reject a name that is neither declared in the run's manifest nor asked in its record."""
    source = history.manifest
    declared = source.get("manifest") if isinstance(source, dict) else None
    known = {ask.asked.member for ask in history.record.asks.values()}
    for kind in ("agents", "teams"):
        named = declared.get(kind) if isinstance(declared, dict) else None
        known.update(named if isinstance(named, dict) else ())
    if member not in known:
        raise UnknownName("member", member, sorted(known))


def _new_tool_calls() -> ToolCalls:
    from teamwright.cli.terminal.tool_calls import ToolCalls

    return ToolCalls()


@dataclass(slots=True)
class LogBook:
    """Folds events into log lines: it tracks whose ask each key belongs to and when asks and calls began."""

    journal: Journal
    full: bool = False
    _asks: dict[str, AgentAsked] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict[str, float])
    _calls: ToolCalls = field(default_factory=_new_tool_calls)

    def apply(self, event: Event) -> None:
        from teamwright.values.events.agent import AgentAsked, AgentCalled

        if isinstance(event.fact, AgentAsked):
            self._asks[event.key] = event.fact
        if isinstance(event.fact, AgentAsked | AgentCalled):
            self._began[event.key] = event.time
        self._calls.apply(event)

    async def line(self, event: Event) -> LogLine | None:
        """Apply the next event, and return its log line if it has one."""
        tool = await self._tool_text(event)
        self.apply(event)
        text = tool or await self._text(event)
        if not text:
            return None
        around = [ask for scope in key_and_parents(event.key) if (ask := self._asks.get(scope))]
        path = tuple(ask.member for ask in reversed(around))
        askers = [ask.member for ask in takewhile(lambda ask: ask.member_kind != "team", around[1:])]
        return LogLine(event.number, event.time, _level(event), path, event.key, text, tuple(reversed(askers)))

    async def _tool_text(self, event: Event) -> str | None:
        """The text about a tool call, with its arguments or its result; none for other events."""
        from teamwright.cli.terminal.tool_calls import call_text, event_texts, folded_texts, with_texts
        from teamwright.history.event_wording import note_text
        from teamwright.values.events.agent import AgentCalled, AgentCallRejected, AgentReturned

        if not self._calls.is_about(event):
            return None
        texts = (await event_texts(self.journal, event))[event.number]
        texts = texts if self.full else folded_texts(texts)
        match event.fact:
            case AgentCalled(in_doubt=False) as fact:
                said = call_text(fact)
            case AgentReturned() if (call := self._calls.of(event)) is not None:
                texts = texts if self.full else {name: call.shown(text) for name, text in texts.items()}
                said = f"{call.tool} returned in {seconds_text(event.time - call.began)}"
            case AgentCallRejected():
                said = note_text(event) or ""
            case _:
                return None
        return with_texts(said, texts, full=self.full)

    async def _text(self, event: Event) -> str | None:
        from teamwright.values.events.agent import AgentAsked
        from teamwright.values.events.run import RunEnded, RunLogged, RunMeasured, RunStarted
        from teamwright.values.events.team import TeamStarted

        match event.fact:
            case RunStarted(task=task, origin=None, attachments=attachments):
                return f"run started: {await self._first_line(task)}{_with_files(attachments)}"
            case RunEnded(status=status, stop_reason=reason):
                return f"run ended: {status} ({reason})"
            case RunLogged(text=text):
                return text
            case RunMeasured(name=name, value=value):
                return f"{name}: {value:g}"
            case TeamStarted(strategy=strategy, members=members):
                return f"{strategy} of {', '.join(members)}"
            case AgentAsked(task=task):
                return f"is asked: {await self._first_line(task)}"
            case _:
                return await self._text_of_call(event)

    async def _text_of_call(self, event: Event) -> str | None:
        from teamwright.cli.terminal.line_views import message_texts
        from teamwright.cli.terminal.tool_calls import call_text
        from teamwright.history.event_wording import detail_text, note_text
        from teamwright.values.events.agent import AgentCalled, AgentProgressed, AgentReplied, AgentReturned

        took = seconds_text(max(0.0, event.time - self._began.get(event.key, event.time)))
        match event.fact:
            case AgentCalled(in_doubt=False) as fact:
                return call_text(fact)
            case AgentProgressed(name=name, text=text, done=done):
                return f"{name}: {text}{'' if done is None else f' ({done:.0%})'}"
            case AgentReturned(usage=usage):
                return f"the call returned, {number_text(usage.total_tokens)} tokens in {took}"
            case AgentReplied() as fact:
                texts = await message_texts(self.journal, fact)
                silent = "(empty)" if fact.transfer_to is None else f"hands off to {fact.transfer_to}"
                said = _shortened(one_line(texts[-1])) if any(map(str.strip, texts)) else silent
                return f"replied: {said} ({number_text(fact.usage.total_tokens)} tokens in {took})"
            case _:
                return note_text(event) or detail_text(event)

    async def _first_line(self, body: str) -> str:
        from teamwright.journal.codec import decode_body

        return _shortened(one_line(str(decode_body((await self.journal.bodies([body]))[body]))))


def _with_files(attachments: Sequence[Artifact]) -> str:
    from teamwright.agents.attachments import file_text

    return f" (with {', '.join(map(file_text, attachments))})" if attachments else ""


def _shortened(text: str) -> str:
    return cut(text, WIDEST, " …")


def _level(event: Event) -> str:
    from teamwright.values.events.agent import AgentCalled, AgentFailed, AgentReturned
    from teamwright.values.events.run import RunLogged, RunNotified
    from teamwright.values.events.team import TeamEvaluationResult
    from teamwright.values.turns.turn import JUDGED

    match event.fact:
        case RunLogged(level=level):
            return level
        case AgentFailed(error=error):
            return "warning" if error == "cancelled" else "error"
        case AgentCalled(in_doubt=False) | AgentReturned():
            return "debug"
        case AgentCalled() | RunNotified(error=str()):
            return "warning"
        case TeamEvaluationResult(verdict=verdict):
            return "warning" if verdict.warnings or verdict.outcome not in JUDGED else "info"
        case _ if event.kind in WARNINGS:
            return "warning"
        case _:
            return "info"
