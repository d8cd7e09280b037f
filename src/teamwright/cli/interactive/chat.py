"""A chat at the terminal: reads a message, runs it as the next turn of a conversation, and prints the answer.

The engine works on a thread of its own, so that Ctrl-C always reaches the person's side: it stops the answer, and the
conversation goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from teamwright.cli.interactive.drive import ViewOptions, drive, is_free
from teamwright.cli.interactive.undo import undo_turn, undone_text
from teamwright.cli.terminal.output import one_line, result_stream, say, write_json_line, write_result
from teamwright.cli.text.results import failure_text, status_text, usage_text
from teamwright.cli.views.chat import ChatView, can_stream
from teamwright.errors import ConversationBusy, NotResumable, UnknownName, UsageError, nearest
from teamwright.history.wording import question_text
from teamwright.values.names import check_name
from teamwright.values.results import FINAL
from teamwright.values.text.display import count_text, price_text, seconds_text

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team
    from teamwright.values.limits.limits import Limits
    from teamwright.values.results import RunResult

PROMPT = "> "
HELP = """\
/cost          what the conversation has used so far
/undo          withdraw the last turn; the next one continues from the turn before
/fork [NAME]   go on in a new conversation that begins like this one
/resume        finish a turn that was interrupted or waits for an answer
/help          this list
/quit          end the chat, as Ctrl-D does; the conversation can be continued later
Ctrl-C stops an answer. A line that ends in \\ continues on the next one; // at its start sends a slash."""
QUIT = ("/quit", "/exit")
COMMANDS = ("/help", "/cost", "/undo", "/fork", "/resume", *QUIT)
STOPPED = "stopped at the terminal"
CONTINUES_AFTER = frozenset(("completed", "degraded"))
"""The endings of a turn after which a chat from a pipe reads the next message."""


@dataclass(slots=True)
class ChatSession:
    """One conversation of a chat, on the engine's thread."""

    engine: Engine
    team: Team
    name: str
    limits: Limits | None = None
    json: bool = False
    quiet: bool = False
    handle: Handle | None = None
    begin_from: str | None = None
    """The run that a conversation without turns begins from."""
    is_stopped: bool = False
    """Whether the person has stopped the turn, which may not have started yet."""

    async def turn(self, task: str) -> RunResult:
        """Run the next turn and print its answer."""
        self.is_stopped = False
        handle = await self.engine.start(
            self.team, task, conversation=self.name, continues=self.begin_from, limits=self.limits
        )
        self.begin_from = None
        return await self._finish(handle)

    async def resume(self) -> RunResult:
        """Finish the last turn."""
        self.is_stopped = False
        run = await self.engine.conversations.last(self.name)
        if run is None or run.status in FINAL:
            raise NotResumable("The last turn has ended, so there is nothing to resume.")
        return await self._finish(await self.engine.start_resume(run.id, team=self.team))

    async def _finish(self, handle: Handle) -> RunResult:
        """Show a turn until it ends, and report how."""
        self.handle = handle
        try:
            if self.is_stopped:
                await self.stop()
            view = ChatView(self.engine.journal)
            if can_stream() and not self.json:
                ended = await drive(self.engine, handle, ViewOptions(quiet=True), view=view)
            else:
                ended = await handle.result()
            await self._report(ended, view)
            return ended
        finally:
            self.handle = None

    async def stop(self) -> None:
        """Cancel the turn that is running or starting, so that the conversation can go on."""
        self.is_stopped = True
        if self.handle is not None:
            with suppress(NotResumable):
                await self.engine.runs.cancel(self.handle.run_id, STOPPED)

    async def _report(self, ended: RunResult, view: ChatView) -> None:
        if self.json:
            write_json_line({**ended.to_json(), "conversation": self.name})
        elif can_stream():
            view.finish(ended.output)
        elif ended.output and ended.status != "failed":
            write_result(ended.output)
        for warning in ended.warnings if ended.failure is None else ():
            say(f"warning: {warning}")
        if ended.status == "paused":
            await self._report_questions(ended)
        elif ended.status == "cancelled":
            say("stopped")
        elif ended.failure is not None:
            say(f"{status_text(ended)}: {failure_text(ended.failure)}")
        if sys.stderr.isatty() and not self.quiet and not self.json:
            price = price_text(ended.usage.usd, free=await is_free(self.engine, ended))
            say("  " + " · ".join(filter(None, (usage_text(ended.usage), price, seconds_text(ended.seconds)))))

    async def _report_questions(self, ended: RunResult) -> None:
        history = await self.engine.runs.history(ended.run_id)
        for key, question in history.questions().items():
            say(f"question at {one_line(key)}: {question_text(question)}")
        say(f'the turn waits: answer with  teamwright runs answer {ended.run_id} "…"  and then  /resume')

    async def cost(self) -> str:
        """What the conversation has used."""
        try:
            conversation = await self.engine.conversations.read(self.name)
        except UnknownName:
            return f"{self.name}: no turns yet"
        usage = conversation.usage
        price = price_text(usage.usd, free=True)
        turns = count_text(len(conversation.turns), "turn")
        everything = next(one for one in await self.engine.conversations.list() if one.name == self.name)
        undone = everything.total_tokens - usage.total_tokens
        more = f"and {count_text(undone, 'token')} in undone turns" if undone else ""
        return f"{self.name}: " + " · ".join(filter(None, (turns, usage_text(usage), price, more)))

    async def undo(self) -> str:
        """Withdraw the last turn, after cancelling it if it has not ended.

        In a fork whose first turn is still to come, go back by one of the turns that it begins with.
        """
        if await self.engine.conversations.last(self.name) is not None:
            return undone_text(await undo_turn(self.engine, self.name))
        if self.begin_from is None:
            raise UsageError("There is no turn to undo.")
        turn = await self.engine.conversations.turn(self.begin_from)
        self.begin_from = await self.engine.conversations.before(self.begin_from)
        return undone_text(replace(turn, inherited=True))

    async def fork(self, name: str) -> str:
        """Go on in a new conversation that begins like this one."""
        try:
            last = await self.engine.conversations.head(self.name)
        except UnknownName:
            last = self.begin_from
        if last is None:
            raise UsageError("There is nothing to fork yet: the conversation has no turns.")
        taken = {one.name for one in await self.engine.conversations.list()} | {self.name}
        if not name:
            name = next(made for number in range(2, len(taken) + 3) if (made := f"{self.name}-{number}") not in taken)
        if check_name("conversation", name) in taken:
            raise UsageError(f"There is already a conversation {name!r}; choose another name.")
        left, self.name, self.begin_from = self.name, name, last
        return f"this is {name} now; {left} stays as it is"


@dataclass(slots=True)
class Chat:
    """The person's side of a chat, on the main thread."""

    portal: BlockingPortal
    session: ChatSession
    is_interactive: bool = field(default_factory=sys.stdin.isatty)

    def run(self) -> int:
        """Read messages and commands until the end of the input; returns the exit code of the chat."""
        code = 0
        while (line := self._read()) is not None:
            if not line.strip():
                continue
            try:
                if line.strip() in QUIT:
                    break
                ended = self._obey(line.strip())
            except (ConversationBusy, UsageError, NotResumable) as error:
                if not self.is_interactive:
                    raise
                say(str(error))
                continue
            if ended is not None:
                code = 0 if self.is_interactive else ended.exit_code
                if not self.is_interactive and ended.status not in CONTINUES_AFTER:
                    break
        return code

    def _obey(self, line: str) -> RunResult | None:
        """Carry out a command, or run a message as a turn and return its result."""
        if line.startswith("//") or not line.startswith("/"):
            return self._turn(lambda: self.session.turn(line.removeprefix("/") if line.startswith("//") else line))
        command, _, argument = line.partition(" ")
        if argument.strip() and command in COMMANDS and command != "/fork":
            raise UsageError(f"{command} takes nothing after it; write // at the start to send a line with a slash.")
        match command:
            case "/help":
                say(HELP)
            case "/cost":
                say(self.portal.call(self.session.cost))
            case "/undo":
                say(self.portal.call(self.session.undo))
            case "/fork":
                say(self.portal.call(self.session.fork, argument.strip()))
            case "/resume":
                return self._turn(self.session.resume)
            case _:
                raise UsageError(f"There is no command {command!r}; {nearest(command, COMMANDS)}")
        return None

    def _turn(self, start: Callable[[], Awaitable[RunResult]]) -> RunResult | None:
        """Run a turn; Ctrl-C stops it, and a second one ends the program."""
        future = self.portal.start_task_soon(start)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.portal.call(self.session.stop)
            with suppress(CancelledError):
                return future.result()
        return None

    def _read(self) -> str | None:
        """Read a message, which may span lines; `None` at the end of the input."""
        lines: list[str] = []
        while True:
            try:
                line = self._read_line("… " if lines else PROMPT)
            except KeyboardInterrupt:
                say("\n(Ctrl-D or /quit ends the chat)")
                lines = []
                continue
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line.removesuffix("\\"))

    def _read_line(self, prompt: str) -> str | None:
        if self.is_interactive and result_stream().isatty():
            with redirect_stdout(result_stream()):  # else `input` would not let the person edit the line
                try:
                    return input(prompt)
                except EOFError:
                    say("")
                    return None
        if self.is_interactive:
            sys.stderr.write(prompt)
            sys.stderr.flush()
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise UsageError(f"The message is not UTF-8 text: {error.reason} at byte {error.start}.") from error
        return line.rstrip("\r\n") if line else None
