from __future__ import annotations

import io

import pytest
from rich.console import Console

from teamwright.cli.terminal.live import LiveView, choose, picture
from teamwright.history.member_board import Board, MemberRow
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCalled, AgentFailed
from teamwright.values.events.budget import BudgetOpened
from teamwright.values.events.event import Delta
from teamwright.values.limits import Bounds
from tests.history.test_member_board import EventLog, begun, noted


def drawn(board: Board, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(picture(board, 10.0, (width, height), lambda _: "cyan"))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def busy() -> EventLog:
    log = begun()
    log.ask(1, "t", "step-1", "a")
    return log


@pytest.mark.parametrize("width", [1, 8, 20, 39, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 24, 60])
def test_no_line_is_wider_than_the_terminal_nor_the_picture_higher(width: int, height: int) -> None:
    log = busy()
    for number in range(50):
        log.ask(2, "t", f"more-{number}", f"someone-with-a-long-name-漢字-{number}")
    text = "word " * 200
    log.board.apply(Delta(run_id="run", key="t/step-1", member="a", attempt=1, offset=0, text=text))
    lines = drawn(log.board, width, height)
    assert len(lines) <= max(height, 6)
    console = Console()
    assert all(console.measure(line).maximum <= width for line in lines if line.strip())


def test_all_members_are_shown_where_there_is_room() -> None:
    lines = drawn(busy().board, 60, 24)
    assert lines[0].startswith("t ")
    assert "a  thinking" in lines[1]
    assert "inner  waiting" in lines[2]


def test_budgets_are_under_the_title_while_the_run_is_live() -> None:  # Z-10
    log = busy()
    for number in range(5):
        bounds = Bounds(tokens=1000 * (number + 1))
        if number > 1:
            log.ask(2, "t", f"step-{number}", f"m{number}")
        log.at(2, "" if not number else f"t/step-{number}", "", BudgetOpened(limits=bounds))
    log.at(2, "t/step-1", "e", AgentCalled(effect="model", name="m", request="q", reserved=70))
    lines = drawn(log.board, 70, 24)
    assert lines[1].strip() == "the run: 0 (+ 70 reserved) of 1 000 tokens"
    assert lines[2].strip() == "t/step-1: 0 (+ 70 reserved) of 2 000 tokens"
    assert lines[4].strip() == "and 2 more budgets"
    assert "a  thinking" in lines[5]
    assert len(drawn(log.board, 70, 8)) <= 8
    log.at(3, "t", "step-1", AgentFailed(member="a", error="budget", message="no"))
    assert "t/step-1" not in "".join(drawn(log.board, 70, 24))


def test_members_in_flight_and_the_last_few_are_shown_when_there_is_no_room() -> None:
    rows = [MemberRow(f"m{number}", 1, state="done", last_change=number + 1) for number in range(40)]
    rows += [MemberRow("busy", 1, state="streaming", last_change=99)]
    rows += [MemberRow(f"later{number}", 1) for number in range(20)]
    shown, left_out = choose(rows, 10)
    assert [row.member for row in shown] == ["m37", "m38", "m39", "busy", "later0", "later1", "later2"]
    assert len(shown) + len(left_out) == len(rows)


def test_a_member_is_shown_under_its_team() -> None:
    rows = [MemberRow("team", 1, is_team=True, state="thinking", last_change=1)]
    rows += [MemberRow(f"m{number}", 2, state="done", last_change=2) for number in range(30)]
    rows += [MemberRow("busy", 2, state="thinking", last_change=99)]
    shown, _ = choose(rows, 6)
    assert shown[0].member == "team"
    assert "busy" in [row.member for row in shown]


class Gone(io.StringIO):
    """A closed terminal."""

    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")


async def test_a_closed_terminal_stops_nothing() -> None:
    view = LiveView(MemoryJournal(), Console(file=Gone(), width=80, height=24, force_terminal=True))
    for event in noted().events:
        await view.show(event)
    view.close()


async def test_a_note_repeated_after_a_reply_is_shown_again_in_its_place() -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system="standard")
    view = LiveView(MemoryJournal(), console)
    for event in noted().events:
        await view.show(event)
    view.close()
    file = console.file
    assert isinstance(file, io.StringIO)
    shown = [
        line for line in file.getvalue().splitlines() if "it waits" in line or "more like" in line or "tok" in line
    ]
    kinds = ["note" if "it waits" in line else "more" if "more like" in line else "reply" for line in shown]
    assert [one for one in kinds if one != "reply"] == ["note", "more", "note", "more"]
    assert "reply" in kinds[2 : kinds.index("note", 2)]
    dim = "\x1b[2m  … 1 more like this\x1b[0m"
    assert all(dim in line for line in shown if "more like" in line)
