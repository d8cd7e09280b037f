"""Views of a run in progress: plain lines for files and pipes, lines of JSON for programs, and a silent one.

Events are shown when they are durable, and pieces of responses when they arrive. A failure is shown once, where it
happened.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from teamwright.cli.terminal.output import clean, one_line, say, write_json_line
from teamwright.cli.terminal.tool_calls import ToolCalls, ToolLines, event_texts, folded_texts
from teamwright.history.event_wording import mark_of, note_text
from teamwright.history.member_board import Board, MemberRow, OpenTurn, State
from teamwright.runtime.recorder import steady_clock
from teamwright.values.events.agent import AgentCallFailed, AgentFailed, AgentReplied
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event
from teamwright.values.events.run import RunResumed
from teamwright.values.events.team import TeamHandoff, TeamStarted
from teamwright.values.text.display import count_text, cut, number_text, seconds_text
from teamwright.values.text.secrets import MaskedStream

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

WIDEST_LINE = 160
CUT = " (cut at its output cap)"
HEAD_WIDTH = 18
"""The width of the number and the time of a line."""
TOKEN_CHARACTERS = 4
PULSE_SECONDS = 30.0
"""How long plain lines say nothing before they say who is at work."""
MOST_AT_WORK = 3
WORDS: dict[State, str] = {
    "calling": "calling tool {}", "listing": "lists the tools of {}",
    "delegating": "asks {}", "retrying": "waiting to retry ({})", "asking": "asking a person", "failed": "failed ({})",
}  # fmt: skip
"""What the line of a member says beside its name, with a detail."""


class ShownFailures:
    """Folds events: a turn often fails with the message of its last call, and a team with that of a member."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Apply the next event, after it was asked about."""
        if isinstance(event.fact, AgentCallFailed) and event.fact.retry_in is None:
            self._messages[event.scope] = event.fact.message
        elif isinstance(event.fact, AgentFailed):
            self._messages.pop(event.key, None)

    def has(self, event: Event) -> bool:
        """Whether an event is a failure whose cause was shown before."""
        if not isinstance(event.fact, AgentFailed):
            return False
        return bool(event.fact.path) or self._messages.get(event.key) == event.fact.message


class View(Protocol):
    """Shows a run. `catch_up` applies an event from before the view opened, without showing it."""

    def catch_up(self, event: Event) -> None: ...

    async def show(self, item: Event | AnyDelta) -> None: ...

    def close(self) -> None:
        """Restore the terminal; may be called at any time and more than once."""
        ...


class Silent:
    """Shows nothing."""

    def catch_up(self, event: Event) -> None:
        """Do nothing."""

    async def show(self, item: Event | AnyDelta) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainLines:
    """A line for each reply and each note: `writer  ▸ first line …  123 tok 1.2 s`.

    After `pulse` seconds without a line it says who is at work and for how long, and again after as long.
    """

    def __init__(
        self,
        journal: Journal,
        write: Callable[[str], None] = say,
        *,
        numbered: bool = False,
        full: bool = False,
        pulse: float | None = None,
    ) -> None:
        self._journal, self._write, self._numbered = journal, write, numbered
        self._pulse, self._last_line = pulse, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._now: Callable[[], float] = time.time
        self._tools = ToolLines(journal, full=full)
        self._repeats, self._failures = Repeats(), ShownFailures()
        self._silent: dict[str, str] = {}
        """What members used that handed off without a word, by their name."""
        self.board = Board()

    def catch_up(self, event: Event) -> None:
        """Apply an event without showing it."""
        self.board.apply(event)
        self._tools.apply(event)
        self._failures.apply(event)

    async def show(self, item: Event | AnyDelta) -> None:
        if not isinstance(item, Event):
            self._show_steps(item)
            return
        if self._pulse is not None and self._timer is None:
            self._now = steady_clock(time.time, time.monotonic, item.time)
            self._set_timer(self._pulse, self._pulse)
        text = await self._line(item)
        self.board.apply(item)
        self._tools.apply(item)
        self._failures.apply(item)
        if text and self._pulse is not None:
            self._last_line = time.monotonic()
        if text and self._numbered:
            self._write(self._head(item) + text)
        elif text:
            for line in self._repeats.lines(text, once=isinstance(item.fact, AgentReplied)):
                self._write(line)

    def _show_steps(self, delta: AnyDelta) -> None:
        """Print the steps of a plan that is being written, which are no events and have no numbers."""
        self.board.apply(delta)
        if not delta.steps or (row := self.board.row_of(delta.key)) is None:
            return
        head = " " * HEAD_WIDTH if self._numbered else ""
        for step in delta.steps:
            self._write(f"{head}{_name_column(row.member, row.depth)} … {one_line(step)}")
        self._last_line = time.monotonic()

    def close(self) -> None:
        """Print the count of repeated lines that is still due."""
        self._pulse = None
        if self._timer is not None:
            self._timer.cancel()
        for line in self._repeats.rest():
            self._write(line)

    def _set_timer(self, seconds: float, pulse: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._beat, pulse)

    def _beat(self, pulse: float) -> None:
        """Say who is at work, unless a line was written within the last seconds."""
        silent = time.monotonic() - self._last_line
        if silent < pulse:
            self._set_timer(pulse - silent, pulse)
            return
        at_work = [row for row in self.board.rows() if row.is_active and not row.is_team and row.state != "waiting"]
        for row in at_work[:MOST_AT_WORK]:
            elapsed = seconds_text(row.elapsed(self._now()))
            size = f", about {count_text(row.written // TOKEN_CHARACTERS + 1, 'token')}" if row.written else ""
            self._write(f"{_name_column(row.member, row.depth)} … {row_words(row)}{size}, for {elapsed} so far")
        if len(at_work) > MOST_AT_WORK:
            self._write(f"  and {len(at_work) - MOST_AT_WORK} more at work")
        self._set_timer(pulse, pulse)

    def _head(self, event: Event) -> str:
        if not self._numbered:
            return ""
        since = event.time - (self.board.began if self.board.began is not None else event.time)
        return f"{event.number:>5}  +{seconds_text(since):<8}  "

    async def _line(self, event: Event) -> str | None:
        turn = self.board.turn_of(event.key)
        row = turn.row if turn else None
        name = _name_column(row.member, row.depth) if row and row.depth > 0 else ""
        if tool := await self._tools.lines(event):
            return f"\n{'':<{len(name) + 1}}".join([f"{name} {tool[0]}", *tool[1:]])
        match event.fact:
            case AgentReplied() as fact:
                if turn is None or turn.row.depth == 0 or turn.is_review:
                    return None
                return await self._reply(event, fact, turn, name)
            case TeamStarted(strategy=strategy, members=members):
                return f"{name or self.board.team + ' '} {strategy} of {', '.join(members)}"
            case AgentFailed() if self._failures.has(event) or (row and row.depth == 0):
                return None
            case TeamHandoff(source=source, to=to) if row and to:
                return f"{_name_column(source, row.depth + 1)} · hands off to {to}{self._silent.pop(source, '')}"
            case RunResumed() if not self._numbered:
                return None
            case _:
                note = await self._tools.note(event) or note_text(event)
                return f"{name} {mark_of(event)} {one_line(note)}" if note else None

    async def _reply(self, event: Event, fact: AgentReplied, turn: OpenTurn, name: str) -> str | None:
        used = f"  {number_text(turn.tokens)} tok {seconds_text(event.time - turn.began)}"
        said = "" if turn.row.is_team else await self._said(fact)
        if not said and fact.transfer_to is not None:
            self._silent[turn.row.member] = used
            return None
        shown = "✓ team finished" if turn.row.is_team else f"▸ {said or '(empty)'}"
        return f"{name} {shown}{used}{CUT if fact.truncated else ''}"

    async def _said(self, fact: AgentReplied) -> str:
        texts = await message_texts(self._journal, fact)
        return cut(one_line(texts[-1]), WIDEST_LINE, " …") if texts else ""


def row_words(row: MemberRow) -> str:
    """What a member does now, in words."""
    match row.state:
        case "thinking" if row.is_team:
            return "working"
        case "streaming" if row.detail:
            return f"preparing tool {clean(row.detail)}"
        case state:
            return WORDS.get(state, state).format(clean(row.detail))


def _name_column(member: str, depth: int) -> str:
    return f"{'  ' * (depth - 1)}{member:<10} "


class Repeats:
    """Collapses a line that is repeated into one line and a count."""

    def __init__(self) -> None:
        self._last, self._more = "", 0

    def lines(self, text: str, *, once: bool = False) -> Iterator[str]:
        """The lines to write for a text; a line that is `once` is never collapsed."""
        if text == self._last and not once:
            self._more += 1
            return
        yield from self.rest()
        self._last = "" if once else text
        yield text

    def rest(self) -> Iterator[str]:
        """The count of repeats that is still due for the last line."""
        if self._more:
            yield f"  … {self._more} more like this"
        self._last, self._more = "", 0


async def message_texts(journal: Journal, fact: AgentReplied | AgentFailed) -> list[str]:
    """The messages of a reply or failure, as text."""
    from teamwright.journal.codec import decode_body

    hashes = [ref.body for ref in fact.messages]
    bodies = await journal.bodies(hashes)
    return [clean(str(decode_body(bodies[one]))) for one in hashes]


def live_view(journal: Journal, *, quiet: bool, full: bool = False) -> View:
    """The live view if stderr is a capable terminal, else plain lines; none if `quiet`."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}:
        from teamwright.cli.terminal.live import LiveView

        return LiveView(journal, full=full)
    return PlainLines(journal, full=full, pulse=PULSE_SECONDS)


class EventLines:
    """Prints events and deltas, and nothing else.

    The events of tool calls have `texts`, their arguments and results, folded; with `full`, every event has its texts,
    whole.
    """

    def __init__(self, journal: Journal, *, full: bool = False) -> None:
        self._journal, self._full = journal, full
        self._calls = ToolCalls()
        self._parts: dict[tuple[str, int], DeltaLines] = {}

    def catch_up(self, event: Event) -> None:
        """Apply an event without printing it."""
        self._calls.apply(event)

    async def show(self, item: Event | AnyDelta) -> None:
        if not isinstance(item, Event):
            self._show_delta(item)
            return
        for key in [key for key in self._parts if key[0] == item.scope]:  # the response is complete, or has failed
            self._parts.pop(key).finish()
        line = item.to_json()
        if (self._full or self._calls.is_about(item)) and (
            texts := (await event_texts(self._journal, item))[item.number]
        ):
            line["texts"] = texts if self._full else folded_texts(texts)
        self._calls.apply(item)
        write_json_line(line)

    def close(self) -> None:
        """Do nothing: every line is complete."""

    def _show_delta(self, delta: AnyDelta) -> None:
        call = delta.call if isinstance(delta, ArgumentsDelta) else 0
        part = delta.key, {"delta.text": 0, "delta.thinking": -1}.get(delta.kind, call)
        if delta.offset == 0:
            self._parts[part] = DeltaLines()
        if part in self._parts:  # a part is masked from its beginning, or not shown
            self._parts[part].add(delta)


class DeltaLines:
    """The lines of one part of a response. A word that may be a secret is held back until it is complete."""

    def __init__(self) -> None:
        self._masked, self._offset = MaskedStream(), 0
        self._last: AnyDelta | None = None
        self._steps: list[str] = []

    def add(self, delta: AnyDelta) -> None:
        """Print the next piece, as far as it is known to be no secret."""
        self._last = delta
        self._print(delta, self._masked.feed(delta.text))

    def finish(self) -> None:
        """Print what was held back."""
        if self._last is not None:
            self._print(self._last.changed(steps=()), self._masked.flush())

    def _print(self, delta: AnyDelta, text: str) -> None:
        self._steps += delta.steps
        if text:
            write_json_line(_line(delta.changed(steps=tuple(self._steps)), text, self._offset))
            self._steps.clear()
            self._offset += len(text)


def _line(delta: AnyDelta, text: str, offset: int) -> dict[str, JsonValue]:
    head: dict[str, JsonValue] = {"domain": "delta", "kind": delta.kind}
    return {"run_id": delta.run_id, **head, **delta.to_json(), "text": text, "offset": offset}
