"""Prompts the person at the terminal for answers to a run's questions, one at a time, while the run continues.

An answer may be written in the person's editor, which draws on stderr: stdout is for the result of the command.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from teamwright.cli.terminal.output import clean
from teamwright.cli.terminal.result_wording import draft_lines
from teamwright.errors import UsageError
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, PersonAsked, RunResumed
from teamwright.values.people import (
    EDIT,
    REJECT,
    REVISE,
    SMALLER,
    Answer,
    Question,
    is_confirmation,
    is_review,
    read_ceiling,
)
from teamwright.values.run_keys import is_inside
from teamwright.values.text.display import original, visible, visible_for_editing
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    from teamwright.cli.terminal.line_views import View
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.values.events.event import AnyDelta


TERMINAL = 2
"""The file descriptor of stderr."""
LATER = "later"
WHOLE = "whole"
"""The answer that shows all of a long draft."""
LONGEST_DRAFT = 30


def editor_command() -> str | None:
    """Return the command of the editor that the environment names, if it names one."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or None


async def edit_text(command: str, text: str, name: str) -> str:
    """Open a text as a file of this name, and return it as it was saved; raises `UsageError` if that fails."""
    with tempfile.TemporaryDirectory(prefix="teamwright-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8", newline="")
        try:
            opened = await anyio.open_process(
                [*shlex.split(command), str(file)], stdin=None, stdout=TERMINAL, stderr=TERMINAL
            )
            async with opened as process:
                code = await process.wait()
            edited = file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise UsageError(f"The editor {command!r} can't be used: {error}.") from error
    if code:
        raise UsageError(f"{command!r} exited with {code}; nothing is changed.")
    return edited


class Keyboard:
    """Reads lines from a terminal on the event loop, so that a read can be cancelled."""

    def __init__(self, file: int) -> None:
        self._file, self._typed = file, b""

    async def read_line(self) -> str | None:
        """Read the next line; None at the end of the input."""
        while b"\n" not in self._typed:
            await anyio.wait_readable(self._file)
            piece = os.read(self._file, 4096)
            if not piece:
                self._typed = b""
                return None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").strip()


class Prompt:
    """Asks one question on the terminal."""

    def __init__(self, console: Console, keyboard: Keyboard) -> None:
        self._console, self._keyboard = console, keyboard

    async def ask(self, key: str, question: Question, *, with_draft: bool = True) -> Answer | None:
        """Ask a question and return the person's answer, or None if they put it off. Its draft need not be shown."""
        shown = question if with_draft else question.changed(draft=None)
        self._show(key, shown)
        if not question.choices:
            said = await self._line("answer (empty: later)")
            return Answer(text=said) if said else None
        choice = await self._choice(shown)
        if choice is None or question.reason != "approval":
            return None if choice is None else Answer(text=choice)
        return await self._decision(choice, question)

    def say(self, text: str) -> None:
        self._console.print(Text(clean(text), style="yellow"))

    async def _decision(self, choice: str, question: Question) -> Answer | None:
        if is_confirmation(question):
            return await self._smaller() if choice == SMALLER else Answer(text=choice)
        if is_review(question):
            note = await self._line("note to the author (empty: none)") if choice == REVISE else None
            return Answer(text=choice, data=note or None)
        if choice == REJECT:
            return Answer.reject(await self._line("why") or "")
        if choice != EDIT:
            return Answer(text=choice)
        edited = await self._edited(question)
        return None if edited is None else Answer.edit(edited)

    async def _smaller(self) -> Answer | None:
        """Ask for a lower ceiling until there is one; an empty line puts the question off."""
        while said := await self._line("new ceiling, such as 0.50 usd or 20000 tokens (empty: later)"):
            if (ceiling := read_ceiling(said)) is not None:
                return Answer(text=SMALLER, data=dict[str, JsonValue](ceiling))
            self.say(f"{said!r} is no ceiling; write an amount and its unit: 0.50 usd, or 20000 tokens.")
        return None

    def _show(self, key: str, question: Question) -> None:
        self._console.print()
        whom = f" (to {clean(visible(question.to))})" if question.to else ""
        self._console.print(Text(f"? {clean(visible(question.text))}{whom}", style="bold yellow"))
        if key:
            self._console.print(Text(f"  {clean(key)}", style="dim"))
        if question.draft is not None:
            self._show_draft(question, LONGEST_DRAFT if question.choices else None)

    def _show_draft(self, question: Question, most: int | None = None) -> None:
        lines = clean("\n".join(draft_lines(question))).split("\n")
        if most is not None and len(lines) > most:
            lines = [*lines[:most], f"… {len(lines) - most} more lines; {WHOLE!r} shows them"]
        self._console.print(Padding(Text("\n".join(lines)), (0, 2)))

    async def _line(self, prompt: str) -> str | None:
        self._console.print(Text(f"{prompt}> ", style="bold"), end="")
        return await self._keyboard.read_line()

    async def _choice(self, question: Question) -> str | None:
        cut = question.draft is not None and len(draft_lines(question)) > LONGEST_DRAFT
        choices = [*question.choices, LATER, *([WHOLE] if cut and WHOLE not in question.choices else ())]
        while True:
            said = await self._line(clean(" / ".join(map(visible, choices))))
            if not said:
                return None
            chosen = nearest_choice(said, choices)
            if chosen == WHOLE and WHOLE not in question.choices:
                self._show_draft(question)
            elif chosen is not None:
                return None if chosen == LATER else chosen
            else:
                self.say(f"{said!r} is not a choice; the first letters are enough, and an empty line is {LATER!r}.")

    async def _edited(self, question: Question) -> str | None:
        """Return the draft as the person has edited it, in their editor if they have one.

        Invisible characters are shown there by their names; those that the person does not touch are sent unchanged.
        """
        editor = editor_command()
        if editor is None:
            return await self._line("instead") or None
        draft = question.draft or ""
        shown, secrets = visible_for_editing(draft)
        try:
            edited = await edit_text(editor, shown, "draft.json" if question.form == "json" else "draft.md")
        except UsageError as error:
            self.say(str(error))
            return None
        return original(edited if draft.endswith("\n") else edited.removesuffix("\n"), secrets)


class Asker:
    """Shows a run and asks its questions. While a question is on the terminal, all other output is held back."""

    def __init__(self, engine: Engine, handle: Handle, view: View, prompt: Prompt | None = None) -> None:
        self._engine, self._handle, self._view = engine, handle, view
        self._prompt = prompt or Prompt(Console(stderr=True, highlight=False), Keyboard(sys.stdin.fileno()))
        self._wakeup = anyio.Event()
        self._held: deque[Event | AnyDelta] = deque()
        self._holding = False
        self._one_at_a_time = anyio.Lock()
        self._asking: str | None = None
        self._asking_scope = anyio.CancelScope()
        self._put_off: set[str] = set()

    async def show(self, item: Event | AnyDelta) -> None:
        """Show an item, now or after the current question."""
        if isinstance(item, Event):
            self._react(item)
        self._held.append(item)
        if not self._holding:
            await self.flush()

    async def flush(self) -> None:
        """Show the items that were held back, in order."""
        async with self._one_at_a_time:
            while self._held:
                await self._view.show(self._held.popleft())

    async def run(self) -> None:
        """Ask open questions until this task is cancelled."""
        self._handle.set_interactive(True)
        try:
            while True:
                await self._wakeup.wait()
                self._wakeup = anyio.Event()
                while (found := await self._next()) is not None:
                    self._handle.set_interactive(True)
                    await self._ask(*found)
                if self._put_off:
                    self._handle.set_interactive(False)
        finally:
            self._handle.set_interactive(False)

    def _react(self, event: Event) -> None:
        """Look for questions after a new one, and withdraw the current one when it is settled elsewhere."""
        match event.fact:
            case PersonAsked() | RunResumed():
                self._wakeup.set()
            case PersonAnswered() if event.key == self._asking:
                self._asking_scope.cancel()
            case AgentReplied() | AgentFailed() if is_inside(self._asking or "", event.key):
                self._asking_scope.cancel()
            case _:
                pass

    async def _next(self) -> tuple[str, Question] | None:
        """The next open question that was neither answered nor put off."""
        run_id = self._handle.run_id
        answered = await self._engine.runs.answers(run_id)
        for key, question in (await self._engine.runs.history(run_id)).questions().items():
            if key not in answered and key not in self._put_off:
                return key, question
        return None

    async def _ask(self, key: str, question: Question) -> None:
        self._asking, self._asking_scope = key, anyio.CancelScope()
        self._holding = True
        self._view.close()
        answer: Answer | None = None
        try:
            with self._asking_scope:
                answer = await self._prompt.ask(key, question)
        finally:
            self._asking = None
        if self._asking_scope.cancelled_caught:
            self._prompt.say("\nThis question was settled elsewhere.")
        else:
            await self._send(key, answer)
        self._holding = False
        await self.flush()

    async def _send(self, key: str, answer: Answer | None) -> None:
        if answer is None:
            self._put_off.add(key)
            return
        try:
            await self._engine.runs.answer(self._handle.run_id, key, answer)
        except UsageError as error:
            self._prompt.say(str(error))


def nearest_choice(said: str, choices: Sequence[str]) -> str | None:
    """The choice that an input names: in full, by its number, or by a prefix that no other choice has."""
    if said in choices:
        return said
    if said.isdigit() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1]
    meant = [choice for choice in choices if choice.casefold().startswith(said.casefold())]
    return meant[0] if len(meant) == 1 else None
