"""The live view: replies scroll up, and below them a line per member changes in place. It uses Rich, on stderr.

The event loop refreshes it, so it needs no thread; the board is all that it draws from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from teamwright.cli.terminal.line_views import CUT, Repeats, ShownFailures, message_texts, row_words
from teamwright.cli.terminal.output import clean, one_line
from teamwright.cli.terminal.result_wording import open_lines
from teamwright.cli.terminal.tool_calls import ToolLines
from teamwright.history.event_wording import mark_of, note_text
from teamwright.history.member_board import Board, MemberRow, State
from teamwright.runtime.recorder import steady_clock
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import RunResumed
from teamwright.values.text.display import number_text, seconds_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

EVERY = 0.1
LONGEST_SAID = 12
STREAMED_LINES = 2
BUDGET_LINES = 3
A_FEW = 3
PALETTE = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
GLYPHS: dict[State, str] = {
    "waiting": "·", "thinking": "…", "streaming": "▸", "calling": "⚙", "listing": "⚙",
    "delegating": "⚙", "retrying": "↻", "asking": "?", "done": "✓", "failed": "✗", "stopped": "–",
}  # fmt: skip
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveView:
    """Shows a run in a terminal."""

    def __init__(self, journal: Journal, console: Console | None = None, *, full: bool = False) -> None:
        self.board = Board()
        self._tools, self._full = ToolLines(journal, full=full), full
        self._journal = journal
        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._timer: asyncio.TimerHandle | None = None
        self._colours: dict[str, str] = {}
        self._repeats, self._failures = Repeats(), ShownFailures()
        self._open = False
        self._now: Callable[[], float] = time.time

    def catch_up(self, event: Event) -> None:
        """Apply an event without showing it."""
        self.board.apply(event)
        self._tools.apply(event)
        self._failures.apply(event)

    async def show(self, item: Event | AnyDelta) -> None:
        """Print replies and notes above the members' lines, and update the lines."""
        if not self._open:
            self._start()
        if isinstance(item, Event):
            await self._scroll(item)
            self._tools.apply(item)
            self._failures.apply(item)
        self.board.apply(item)
        if not isinstance(item, Event) and item.steps and (row := self.board.row_of(item.key)) is not None:
            for step in item.steps:
                self._print(Text(f"{row.member} … {one_line(step)}", style="dim"))

    def close(self) -> None:
        """Remove the members' lines and show the cursor again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._open = False
            self._print_repeats()
            self._draw(self._live.stop)

    def _start(self) -> None:
        self._open = True
        self._now = steady_clock(time.time, time.monotonic, self.board.last)
        self._draw(self._live.start)
        self._tick()

    def _draw(self, how: Callable[[], None]) -> None:
        """Draw; after an error, stop drawing and let the run continue."""
        if self._console.quiet:
            return
        try:
            how()
        except OSError:
            self._console.quiet = True

    def _tick(self) -> None:
        shown = picture(self.board, self._now(), self._console.size, self._colour)
        self._draw(partial(self._live.update, shown, refresh=True))
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._tick)

    def _colour(self, member: str) -> str:
        return self._colours.setdefault(member, PALETTE[len(self._colours) % len(PALETTE)])

    async def _scroll(self, event: Event) -> None:
        turn = self.board.turn_of(event.key)
        if turn is not None and turn.is_review and isinstance(event.fact, AgentReplied):
            return  # the verdict has a line of its own
        if turn is not None and turn.row.depth > 0 and isinstance(event.fact, AgentReplied) and not turn.row.is_team:
            texts = await message_texts(self._journal, event.fact)
            if event.fact.transfer_to is not None and not "".join(texts).strip():
                return  # the handoff has a line of its own
            used = f"{number_text(turn.tokens)} tok  {seconds_text(event.time - turn.began)}"
            used += CUT if event.fact.truncated else ""
            self._print_repeats()
            self._print(self._heading(turn.row, used), Text(_shortened("\n".join(texts))), Text())
            return
        tool = await self._tools.lines(event)
        if turn is not None and tool:
            self._print_repeats()
            self._print(*self._tool_texts(turn.row, tool), wrap=False)
            return
        outermost = turn is not None and turn.row.depth == 0
        known = isinstance(event.fact, RunResumed) or (isinstance(event.fact, AgentFailed) and outermost)
        known = known or self._failures.has(event)
        note = None if known else await self._tools.note(event) or note_text(event)
        if note:
            who = f"{turn.row.member} " if turn is not None and not outermost else ""
            mark = mark_of(event)
            for line in self._repeats.lines(text := f"{who}{mark} {one_line(note)}"):
                self._print(Text(line, style="yellow" if mark == "!" and line is text else "dim"))

    def _print_repeats(self) -> None:
        for line in self._repeats.rest():
            self._print(Text(line, style="dim"))

    def _heading(self, row: MemberRow, used: str) -> Text:
        heading = Text("  " * (row.depth - 1))
        heading.append(row.member, style=f"bold {self._colour(row.member)}")
        heading.append(f"  {used}", style="dim")
        return heading

    def _tool_texts(self, row: MemberRow, lines: list[str]) -> list[Text]:
        """The lines about a tool call; a folded one takes one line of the terminal."""
        indent = "  " * max(0, row.depth - 1)
        first = Text(indent)
        first.append(f"{row.member} ", style=self._colour(row.member))
        first.append(lines[0], style="dim")
        if not self._full:
            first.truncate(max(1, self._console.width - 1), overflow="ellipsis")
        return [first, *(Text(f"{indent}  {line}", style="dim") for line in lines[1:])]

    def _print(self, *lines: Text, wrap: bool = True) -> None:
        """Print lines above the members'; if `wrap` is false the terminal wraps them, which is faster."""
        for line in lines:
            self._draw(partial(self._console.print, line, soft_wrap=not wrap))


def _shortened(text: str) -> str:
    lines = text.strip().splitlines()
    if len(lines) <= LONGEST_SAID:
        return "\n".join(lines)
    return "\n".join([*lines[: LONGEST_SAID - 1], f"… {len(lines) - LONGEST_SAID + 1} more lines"])


def picture(board: Board, now: float, size: tuple[int, int], colour: Callable[[str], str]) -> Group:
    """The members' lines, in at most half of the terminal, so that replies stay visible above them."""
    width, height = size
    room = max(3, height // 2)
    rows = [row for row in board.rows() if row.depth > 0]
    budgets = open_lines(board.levels, BUDGET_LINES)
    shown, left_out = choose(rows, room - len(budgets))
    room -= len(shown) + len(budgets)
    lines = [_title(board, now, width)]
    lines += [Text(_fit(f"  {budget}", width - 1), style="dim", no_wrap=True) for budget in budgets]
    for row in shown:
        lines.append(_line(row, now, width, colour))
        if row.streamed and row.state in {"streaming", "thinking"} and room >= STREAMED_LINES:
            streamed = _streamed(row, width)
            room -= len(streamed)
            lines.extend(streamed)
    if left_out:
        lines.append(Text(_fit(f"  {_counted(left_out)}", width - 1), style="dim", no_wrap=True))
    return Group(*lines)


def choose(rows: list[MemberRow], room: int) -> tuple[list[MemberRow], list[MemberRow]]:
    """Choose the rows that fit in `room` lines; return them in order, and the rows that are left out.

    If not all fit, priority goes to members at work, then to the last few that finished, then to the next few that
    wait; each brings the teams around it if there is room.
    """
    if len(rows) <= room:
        return rows, []
    around = _teams_around(rows)
    leaves = [index for index, row in enumerate(rows) if not row.is_team]
    at_work = [index for index in leaves if rows[index].is_active]
    over = sorted(
        (index for index in leaves if rows[index].last_change and not rows[index].is_active),
        key=lambda one: -rows[one].last_change,
    )
    waiting = [index for index in leaves if not rows[index].last_change]
    wanted: set[int] = set()
    for index in (*at_work, *over[:A_FEW], *waiting[:A_FEW]):
        added = {index, *around[index]} - wanted
        if len(wanted) + len(added) < room:
            wanted |= added
        elif len(wanted) + 1 < room:
            wanted.add(index)
    shown = [row for index, row in enumerate(rows) if index in wanted]
    return shown, [row for index, row in enumerate(rows) if index not in wanted and not row.is_team]


def _teams_around(rows: list[MemberRow]) -> list[tuple[int, ...]]:
    """For each row, the indexes of the teams that enclose it."""
    found: list[tuple[int, ...]] = []
    path: list[int] = []
    for index, row in enumerate(rows):
        while path and rows[path[-1]].depth >= row.depth:
            path.pop()
        found.append(tuple(path))
        path.append(index)
    return found


def _counted(rows: list[MemberRow]) -> str:
    """Count the rows that are not shown by their state."""
    counts: dict[str, int] = {}
    for row in rows:
        word = "at work" if row.is_active else row.state
        counts[word] = counts.get(word, 0) + 1
    return "and " + ", ".join(f"{count} {word}" for word, count in counts.items())


def _title(board: Board, now: float, width: int) -> Text:
    used = f"{number_text(board.tokens)} tok  {seconds_text(board.elapsed(now))}"
    return _sides(Text(board.team, style="bold"), used, width)


def _line(row: MemberRow, now: float, width: int, colour: Callable[[str], str]) -> Text:
    left = Text("  " * row.depth)
    glyph = SPINNER[int(now / EVERY) % len(SPINNER)] if row.state in {"thinking", "streaming"} else GLYPHS[row.state]
    left.append(f"{glyph} ", style=_style(row.state))
    left.append(row.member, style="" if row.is_team else colour(row.member))
    left.append(f"  {row_words(row)}", style=_style(row.state))
    used = "" if row.state == "waiting" else f"{number_text(row.tokens)} tok  {seconds_text(row.elapsed(now))}"
    return _sides(left, used, width)


def _style(state: State) -> str:
    return {"failed": "red", "retrying": "yellow", "asking": "yellow", "done": "green"}.get(state, "dim")


def _streamed(row: MemberRow, width: int) -> list[Text]:
    indent = "  " * (row.depth + 2)
    wide = max(8, width - len(indent) - 1)
    words = clean(row.streamed).split()
    lines = [""]
    for word in words[-wide:]:
        if cell_len(lines[-1]) + cell_len(word) + 1 > wide and lines[-1]:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    style = "italic" if row.state == "streaming" and not row.detail else "dim italic"
    return [Text(indent + _fit(line, wide), style=style, no_wrap=True) for line in lines[-STREAMED_LINES:]]


def _sides(left: Text, right: str, width: int) -> Text:
    """Text on the left and figures on the right; a narrow terminal gets only the text."""
    left.no_wrap = True
    if width < 40 or not right:
        left.truncate(max(1, width - 1), overflow="ellipsis")
        return left
    left.truncate(width - len(right) - 3, overflow="ellipsis", pad=True)
    left.append(f"  {right}", style="dim")
    return left


def _fit(text: str, width: int) -> str:
    fitted = Text(text)
    fitted.truncate(max(1, width), overflow="ellipsis")
    return fitted.plain
