"""The person at the terminal: asked immediately, one question at a time, while the rest of the run continues."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from rich.console import Console

from teamwright import Context, Engine, FunctionAgent, Team, Turn
from teamwright.cli.question_prompt import Asker, Keyboard, Prompt, nearest_choice
from teamwright.cli.terminal.line_views import Silent
from teamwright.cli.terminal.result_wording import draft_text
from teamwright.history.event_wording import note_text, question_text
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import PersonAsked
from teamwright.values.people import Answer, Question, approval_question, review_question
from tests.kit.program import Program, run_program
from tests.kit.records import wait_for_question
from tests.kit.terminal import write_team

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")

REVIEW = review_question("What becomes of it?", "the draft")
DRAFT = approval_question("May it begin?", "the draft")
TEAM = """\
agents:
  writer: {model: scripted:replies.yaml, confirm: {before: true, after: true}}
  critic: {model: scripted:replies.yaml}
teams:
  report: {members: [writer, critic]}
"""
REPLIES = "rules: [{agent: writer, reply: First draft.}, {agent: critic, match: '(?s).*', reply: It will do.}]"


class PromptSession:
    """A keyboard on which a test types, and a screen that it can read."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.screen = io.StringIO()
        console = Console(file=self.screen, force_terminal=True, color_system=None, width=80)
        self.prompt = Prompt(console, Keyboard(self._reading))

    def types(self, text: str) -> None:
        os.write(self._writing, text.encode())

    def hangs_up(self) -> None:
        os.close(self._writing)

    def clear_away(self) -> None:
        os.close(self._reading)


@contextmanager
def session(typed: str | None) -> Generator[PromptSession]:
    made = PromptSession()
    if typed is not None:
        made.types(typed)
        made.hangs_up()
    try:
        yield made
    finally:
        made.clear_away()


@pytest.mark.parametrize(
    ("question", "typed", "answer"),
    [
        (Question(text="Name?"), "Ada\n", Answer(text="Ada")),
        (Question(text="Name?"), "\n", None),
        (Question(text="Name?"), "", None),
        (Question(text="Colour?", choices=("red", "blue")), "b\n", Answer(text="blue")),
        (Question(text="Colour?", choices=("red", "blue")), "2\n", Answer(text="blue")),
        (Question(text="Colour?", choices=("red", "blue")), "green\nred\n", Answer(text="red")),
        (Question(text="Colour?", choices=("red", "blue")), "later\n", None),
        (DRAFT, "a\n", Answer.approve()),
        (DRAFT, "reject\nnot today\n", Answer.reject("not today")),
        (DRAFT, "r\n\n", Answer.reject()),
        (DRAFT, "e\nanother text\n", Answer.edit("another text")),
        (DRAFT, "e\n\n", None),
        (DRAFT, "\n", None),
        (REVIEW, "acc\n", Answer(text="accept")),
        (REVIEW, "r\nshorter\n", Answer(text="revise", data="shorter")),
        (REVIEW, "revise\n\n", Answer(text="revise")),
        (REVIEW, "s\n", Answer(text="stop")),
    ],
)
async def test_typed_text_becomes_an_answer(
    question: Question, typed: str, answer: Answer | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # P-12
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    with session(typed) as made:
        assert await made.prompt.ask("t/step-1/q", question) == answer
    shown = made.screen.getvalue()
    assert question.text in shown
    assert "t/step-1/q" in shown
    assert question.draft is None or "the draft" in shown


HIDING = "pay 10\x1b[2K\rpay 99\b\u202e\u200b\x9b"
SEEN = "pay 10⟨ESC⟩[2K⟨CR⟩pay 99⟨BS⟩⟨U+202E⟩⟨U+200B⟩⟨U+009B⟩"


# S-02
@pytest.mark.parametrize(
    "question",
    [
        approval_question("May it begin?", HIDING),
        approval_question("May it call the tool?", json.dumps({"args": HIDING}, ensure_ascii=False), form="json"),
        Question(text=HIDING, choices=("yes", "no")),
        Question(text="Which?", choices=("yes", HIDING)),
        Question(text="Who?", to=HIDING, choices=("yes",)),
        Question(text=HIDING),
    ],
)
async def test_control_characters_are_seen_wherever_a_person_decides(question: Question) -> None:
    with session("\n") as made:
        await made.prompt.ask("t/step-1/q", question)
    shown = " ".join(made.screen.getvalue().split())
    seen = SEEN
    for name, escaped in (("⟨ESC⟩", "\\u001b"), ("⟨CR⟩", "\\r"), ("⟨BS⟩", "\\b")) if question.form == "json" else ():
        seen = seen.replace(name, escaped)
    assert seen in shown
    for told in (question_text(question), draft_text(question) if question.draft else "", note_of(question)):
        assert not any(char in told for char in "\x1b\r\b\u202e\u200b\x9b")
    assert seen in f"{question_text(question)} {draft_text(question)} {note_of(question)}"


def note_of(question: Question) -> str:
    fact = PersonAsked(question=question.changed(draft=None))
    return note_text(Event("r", 1, 0.0, "t", "q", fact)) or ""


async def test_a_long_draft_is_shown_whole_on_request() -> None:
    draft = "\n".join(f"line {number}" for number in range(60))
    with session("whole\na\n") as made:
        assert await made.prompt.ask("t/q", approval_question("May it?", draft)) == Answer.approve()
    first, _, second = made.screen.getvalue().partition("30 more lines; 'whole' shows them")
    assert "line 29" in first
    assert "line 30" not in first
    assert "line 59" in second


@pytest.mark.parametrize(
    ("command", "edited"),
    [
        ("true", HIDING + " key sk_live_abcdefgh12345678"),
        ("sed -i s/99/11/", HIDING.replace("99", "11") + " key sk_live_abcdefgh12345678"),
        ("sed -i 's/⟨U+202E⟩//'", HIDING.replace("\u202e", "") + " key sk_live_abcdefgh12345678"),
        ("sed -i 's/⟨secret 1⟩/none/'", HIDING + " key none"),
    ],
)
async def test_an_editor_shows_them_too_and_what_is_left_is_sent_as_it_was(
    command: str, edited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", command)
    monkeypatch.delenv("VISUAL", raising=False)
    with session("e\n") as made:
        answer = await made.prompt.ask("t/q", approval_question("May it?", HIDING + " key sk_live_abcdefgh12345678"))
    assert answer == Answer.edit(edited)
    assert "sk_live_abc" not in made.screen.getvalue()


def test_a_choice_is_meant_by_its_first_letters_when_no_other_begins_so() -> None:
    assert nearest_choice("re", ["retry", "reject"]) is None
    assert nearest_choice("REJ", ["retry", "reject"]) == "reject"
    assert nearest_choice("0", ["retry", "reject"]) is None


def counting(name: str) -> FunctionAgent:
    async def respond(turn: Turn, ctx: Context) -> str:
        return f"{name} is {(await ctx.ask_person(Question(text=f'How is {name}?'), key='q')).text}"

    return FunctionAgent(name, respond)


class Watching(Silent):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.closed = 0

    async def show(self, item: Event | AnyDelta) -> None:
        if isinstance(item, Event):
            self.shown.append(item.kind)

    def close(self) -> None:
        self.closed += 1


async def attended(
    made: PromptSession, team: Team, meanwhile: Callable[[Engine], Awaitable[None]] | None = None
) -> tuple[str, Watching]:
    """Run a team with a person at the terminal, and return its result."""
    view = Watching()
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        asker = Asker(engine, handle, view, made.prompt)
        handle.set_interactive(True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asker.run)
            if meanwhile is not None:
                tasks.start_soon(meanwhile, engine)  # pyright: ignore[reportArgumentType]
            with anyio.fail_after(20):
                async for item in engine.runs.follow("r"):
                    await asker.show(item)
            tasks.cancel_scope.cancel()
        await asker.flush()
        result = await engine.runs.result("r")
        kinds = [event.kind for event in await engine.journal.read("r")]
    assert view.shown == kinds
    return f"{result.status} {result.output}", view


async def test_a_run_that_is_attended_is_never_paused() -> None:
    with session("well\nfine\n") as made:
        ended, view = await attended(made, Team("t", members=[counting("a"), counting("b")]))
    assert ended == "completed b is fine"
    assert "run.paused" not in view.shown
    assert view.closed == 2


async def test_a_question_that_is_put_off_pauses_the_run_when_nothing_else_is_left() -> None:
    with session("\n") as made:
        ended, _ = await attended(made, Team("t", members=[counting("a")]))
    assert ended == "paused None"


async def test_a_question_answered_elsewhere_disappears_from_the_screen() -> None:
    async def elsewhere(engine: Engine) -> None:
        key = await wait_for_question(engine)
        await anyio.sleep(0.2)
        await engine.runs.answer("r", key, "better")
        async for item in engine.runs.follow("r"):
            if isinstance(item, Event) and item.kind == "person.asked" and item.key != key:
                made.types("fine\n")

    with session(None) as made:
        ended, _ = await attended(made, Team("t", members=[counting("a"), counting("b")]), elsewhere)
        made.hangs_up()
    assert ended == "completed b is fine"
    assert "settled elsewhere" in made.screen.getvalue()


class Terminal:
    """The program in a pseudo-terminal: its output is read, and the input of a person is written."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self._near, far = pty.openpty()
        surroundings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **environment}
        self.process = Program(
            *arguments, stdin=far, stdout=subprocess.PIPE, stderr=far, env=surroundings, start_new_session=True
        )
        os.close(far)
        self.shown = ""

    def until(self, words: str, timeout: float = 40) -> None:
        deadline = time.monotonic() + timeout
        while words not in self.shown:
            assert time.monotonic() < deadline, f"{words!r} was never shown, but:\n{self.shown}"
            if not self._read():
                raise AssertionError(f"it ended without {words!r}:\n{self.shown}")

    def types(self, text: str) -> None:
        os.write(self._near, text.encode())

    def ended(self) -> tuple[int, str]:
        while self._read():
            pass
        out, _ = self.process.communicate(timeout=30)
        os.close(self._near)
        return self.process.returncode, out

    def _read(self) -> bool:
        try:
            piece = os.read(self._near, 65536)
        except OSError:
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)


def test_a_person_at_the_terminal_edits_and_approves_at_once(tmp_path: Path) -> None:  # P-12
    team = write_team(tmp_path / "team", TEAM, REPLIES)
    terminal = Terminal("run", team, "Write", "--run-id", "one", EDITOR="sed -i s/First/Second/", VISUAL="")
    terminal.until("May 'writer' begin with this task?")
    terminal.until("later> ")
    terminal.types("a\n")
    terminal.until("May this reply of 'writer' stand?")
    terminal.until("First draft.")
    terminal.types("e\n")
    assert terminal.ended() == (0, "It will do.\n")
    result = json.loads(run_program("runs", "show", "one", "--json").stdout)
    assert [message["content"] for message in result["messages"]] == ["Second draft.", "It will do."]
    assert "run.paused" not in [entry["text"] for entry in result["story"]]


def test_a_person_who_answers_later_is_shown_how(tmp_path: Path) -> None:  # P-12
    team = write_team(tmp_path / "team", TEAM, REPLIES)
    terminal = Terminal("run", team, "Write", "--run-id", "one")
    terminal.until("later> ")
    terminal.types("later\n")
    code, _ = terminal.ended()
    assert code == 7
    assert "teamwright runs answer one approve" in terminal.shown
    unasked = Terminal("runs", "resume", "one", "--no-input")
    assert unasked.ended()[0] == 7
    assert "later> " not in unasked.shown
    again = Terminal("runs", "resume", "one")
    again.until("later> ")
    again.types("reject\nbecause\n")
    assert again.ended()[0] == 1


def test_ctrl_c_at_a_question_interrupts_the_run(tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", TEAM, REPLIES)
    terminal = Terminal("run", team, "Write", "--run-id", "one")
    terminal.until("later> ")
    terminal.process.send_signal(2)
    code, _ = terminal.ended()
    assert code == 130
    assert "resume with: teamwright runs resume one" in terminal.shown


def test_an_answer_from_another_process_reaches_a_live_run_at_once(tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", TEAM, REPLIES)
    terminal = Terminal("run", team, "Write", "--run-id", "one")
    terminal.until("later> ")
    assert run_program("runs", "answer", "one", "approve").returncode == 0
    terminal.until("settled elsewhere")
    terminal.until("May this reply of 'writer' stand?")
    terminal.types("a\n")
    assert terminal.ended() == (0, "It will do.\n")


async def test_a_live_run_takes_an_answer_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    """As measured between the letter and the event, with a generous allowance for a busy machine."""
    team = Team("t", members=[counting("a")])
    async with Engine(tmp_path / "j.db") as engine, Engine(tmp_path / "j.db") as other:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        await other.runs.answer("r", await wait_for_question(engine), "well")
        begun = time.time()
        await handle.result()
        answered = next(e for e in await other.journal.read("r") if e.kind == "person.answered")
    assert answered.time - begun < 1
