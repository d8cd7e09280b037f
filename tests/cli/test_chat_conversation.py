"""A chat at a terminal: a person types, stops an answer, undoes a turn, and comes back later."""

import codecs
import os
import pty
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.cli.chat import ChatSession
from tests.kit.program import Program
from tests.kit.terminal import DESK, Call, write_team

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")

REPLIES = """\
rules:
  - match: my name
    reply: You are Ada.
  - match: slowly
    delay: 30
    reply: That took a while.
  - reply: Hello, Ada.
"""


class Terminal:
    """The program in a terminal of its own, whose Ctrl-C it gets."""

    def __init__(self, *arguments: object) -> None:
        self._file, far = pty.openpty()
        surroundings = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), far)
        self._process = Program(*arguments, terminal=True, start_new_session=True, env=surroundings, **streams)
        os.close(far)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def until(self, words: str, timeout: float = 20) -> str:
        """Read until these words are shown, and return what was shown before them."""
        deadline = time.monotonic() + timeout
        while words not in self.shown:
            assert time.monotonic() < deadline, f"{words!r} was never shown, but:\n{self.shown}"
            if select.select([self._file], [], [], 0.2)[0]:
                self.shown += self._decoder.decode(os.read(self._file, 65536))
        before, _, self.shown = self.shown.partition(words)
        return before

    def ends_input(self) -> None:
        """Type Ctrl-D at the next prompt."""
        self.until("> ")
        self.types("\x04")

    def types(self, text: str) -> None:
        os.write(self._file, text.encode())

    def ended(self) -> tuple[int, str]:
        with suppress(OSError):  # the terminal is gone once the program has ended
            while piece := os.read(self._file, 65536):
                self.shown += self._decoder.decode(piece)
        code = self._process.wait()
        os.close(self._file)
        return code, self.shown


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_team(tmp_path / "desk", DESK, REPLIES)


def test_a_person_talks_with_a_team_and_comes_back(desk: Path) -> None:  # L-C-4
    chat = Terminal("chat", desk, "--conversation", "talk")
    chat.until("conversation talk")
    chat.until("> ")
    chat.types("I am Ada.\n")
    chat.until("Hello, Ada.\r\n")
    chat.until("> ")
    chat.types("/cost\n")
    chat.until("talk: 1 turn · ")
    chat.types("/quit\n")
    code, shown = chat.ended()
    assert code == 0
    assert f"continue with: teamwright chat {desk} --conversation talk" in shown.replace("\r\n", "")
    again = Terminal("chat", "--conversation", "talk")  # with the team of the last turn
    again.until("conversation talk, 1 turn so far")
    again.until("> ")
    again.types("What is my name?\n")
    again.until("You are Ada.\r\n")
    again.ends_input()
    assert again.ended()[0] == 0


def test_ctrl_c_stops_the_answer_and_keeps_the_conversation(desk: Path, call: Call) -> None:  # L-C-4
    chat = Terminal("chat", desk, "--conversation", "talk")
    chat.until("> ")
    chat.types("Count slowly.\n")
    chat.until("slowly.\r\n")
    time.sleep(0.5)
    chat.types("\x03")
    chat.until("stopped\r\n")
    chat.until("> ")
    chat.types("half a line")
    chat.until("half a line")
    time.sleep(0.1)  # a signal that arrives while `input` handles a key is noticed only at the next one
    chat.types("\x03")
    chat.until("(Ctrl-D or /quit ends the chat)")
    chat.types("/undo\n")
    chat.until("undone: Count slowly.")
    chat.types("I am Ada.\n")
    chat.until("Hello, Ada.\r\n")
    chat.ends_input()
    assert chat.ended()[0] == 0
    turns = call("runs", "conversations", "talk", "--json").json["turns"]
    assert [(turn["task"], turn["status"]) for turn in turns] == [("I am Ada.", "completed")]


async def test_a_stop_while_a_turn_is_starting_stops_it() -> None:
    async def wait(turn: Turn) -> str:
        await anyio.sleep_forever()
        return ""

    async with Engine() as engine, anyio.create_task_group() as tasks:
        session = ChatSession(engine, Team("t", members=[FunctionAgent("a", wait)]), "talk", json=True)
        tasks.start_soon(session.turn, "go")
        await anyio.lowlevel.checkpoint()
        assert session.handle is None
        await session.stop()
        with anyio.fail_after(5):
            while not (runs := await engine.runs.list()) or runs[0].status == "running":  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
        assert [run.status for run in runs] == ["cancelled"]


def test_an_answer_is_shown_while_it_is_written_and_once(desk: Path) -> None:  # L-C-4
    chat = Terminal("chat", desk)
    chat.until("> ")
    chat.types("two\\\n")
    chat.until("… ")
    chat.types("lines\n")
    chat.until("tokens")
    chat.ends_input()
    _, shown = chat.ended()
    assert "Hello, Ada." not in shown


def test_a_conversation_without_turns_is_not_offered_again(desk: Path) -> None:
    terminal = Terminal("chat", desk)
    terminal.ends_input()
    code, shown = terminal.ended()
    assert (code, "continue with" in shown) == (0, False)
