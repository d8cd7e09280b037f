"""`teamwright chat`: talks with a team at the terminal, or answers a list of messages from a pipe.

Each message runs as the next turn of a conversation. The engine works on a thread of its own, so that Ctrl-C always
reaches the person's side: it stops the answer, and the conversation goes on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.options import (
    AllowRoot,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    Quiet,
    TeamName,
    With,
    run_limits,
)
from teamwright.cli.terminal.output import (
    flush_all,
    one_line,
    redirect_prints,
    result_stream,
    say,
    write_json_line,
    write_result,
)
from teamwright.errors import ConversationBusy, NotResumable, UnknownName, UsageError, nearest
from teamwright.values.names import check_name
from teamwright.values.text.display import count_text, price_text, seconds_text

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from teamwright.cli.terminal.chat_view import ChatView
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team
    from teamwright.values.limits import Limits
    from teamwright.values.turns.results import RunResult


Manifest = Annotated[
    Path | None,
    typer.Argument(metavar="MANIFEST", help="A file or folder; by default the team of the conversation's last turn."),
]
Conversation = Annotated[
    str | None, typer.Option("--conversation", metavar="NAME", help="Continue this conversation, or begin it.")
]
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


def chat(
    manifest: Manifest = None,
    *,
    conversation: Conversation = None,
    team: TeamName = None,
    more: With = None,
    model: Model = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    allow_root: AllowRoot = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result of each turn as one line of JSON.")] = False,
) -> int:
    """Talk with a team: each line is a message, and each answer a turn of the conversation.

    Limits apply to each turn. From a pipe, one line is one message, and the chat ends with the exit code of its last
    turn, or of the first that failed. `/help` lists the commands of a chat.

    Example:
      teamwright chat team.yaml --conversation bakery
    """
    from anyio.from_thread import start_blocking_portal

    from teamwright.cli.terminal.command_setup import new_engine
    from teamwright.cli.terminal.interrupts import raise_on_interrupt
    from teamwright.cli.validate import validate_on_error
    from teamwright.runtime.tasks import has_abandoned_tasks

    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    paths = [manifest, *(more or ())] if manifest is not None else []
    roots = tuple(allow_root or ())
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    with (
        redirect_prints(),
        validate_on_error(paths, model, roots),
        raise_on_interrupt(),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(new_engine()) as engine,
    ):
        session = portal.call(_open, engine, paths, conversation, team, model, roots, limits)
        session.json, session.quiet = json, quiet
        talk = Chat(portal, session)
        if talk.is_interactive:
            portal.call(_greet, session)
        code = talk.run()
        if talk.is_interactive and not quiet and portal.call(engine.conversations.last, session.name) is not None:
            say(f"continue with: teamwright chat {manifest or ''}".rstrip() + f" --conversation {session.name}")
        if has_abandoned_tasks():
            flush_all()
            os._exit(code)
    return code


async def _open(
    engine: Engine,
    paths: list[Path],
    conversation: str | None,
    team: str | None,
    model: str | None,
    roots: tuple[Path, ...],
    limits: Limits | None,
) -> ChatSession:
    from teamwright.cli.terminal.command_setup import (
        extend_sys_path,
        last_turn,
        load_manifest,
        no_manifest,
        recorded_source,
    )
    from teamwright.runtime.recorded.reader import TeamSource
    from teamwright.runtime.run_request import new_run_id
    from teamwright.teams.preflight import check_ready
    from teamwright.teams.team_loader import source_of
    from teamwright.values.names import check_name

    places = None
    known = await last_turn(engine, conversation)
    if paths:
        loaded = load_manifest(paths, model)
        source = TeamSource(source_of(loaded, team=team, model=model, allow_roots=roots))
        places = loaded.places
    elif known is not None:
        source = await recorded_source(engine, known, model, roots)
    else:
        raise await no_manifest(engine, conversation)
    extend_sys_path()
    built = source.build(engine.models)
    await check_ready(built, engine.models, places)
    name = check_name("conversation", conversation) if conversation else f"chat-{new_run_id(time.time())}"
    return ChatSession(engine, built, name, limits)


async def _greet(session: ChatSession) -> None:
    """Print which conversation this is, and how it can be left."""
    from teamwright.errors import UnknownName
    from teamwright.values.text.display import count_text
    from teamwright.values.turns.results import FINAL

    turns = ""
    with suppress(UnknownName):
        conversation = await session.engine.conversations.read(session.name)
        turns = f", {count_text(len(conversation.turns), 'turn')} so far"
    say(f"{session.team.name} · conversation {session.name}{turns}")
    say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat")
    last = await session.engine.conversations.last(session.name)
    if last is not None and last.status not in FINAL:
        say(f"the last turn is {last.status}: /resume finishes it, /undo drops it")
    with suppress(ImportError):
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport] - lets `input` edit lines

    sys.stderr.flush()


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
        from teamwright.values.turns.results import FINAL

        self.is_stopped = False
        run = await self.engine.conversations.last(self.name)
        if run is None or run.status in FINAL:
            raise NotResumable("The last turn has ended, so there is nothing to resume.")
        return await self._finish(await self.engine.start_resume(run.id, team=self.team))

    async def _finish(self, handle: Handle) -> RunResult:
        """Show a turn until it ends, and report how."""
        from teamwright.cli.foreground_run import ViewOptions, drive
        from teamwright.cli.terminal.chat_view import ChatView, can_stream

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
        from teamwright.cli.foreground_run import is_free
        from teamwright.cli.terminal.chat_view import can_stream
        from teamwright.cli.terminal.result_wording import failure_text, status_text, usage_text

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
        from teamwright.cli.terminal.result_wording import moment_text
        from teamwright.history.event_wording import question_text

        history = await self.engine.runs.history(ended.run_id)
        asked = history.questions()
        if ended.resume_at and not asked:
            say(f"a provider takes no calls before {moment_text(ended.resume_at)}: then go on with  /resume")
            return
        for key, question in asked.items():
            say(f"question at {one_line(key)}: {question_text(question)}")
        say(f'the turn waits: answer with  teamwright runs answer {ended.run_id} "…"  and then  /resume')

    async def cost(self) -> str:
        from teamwright.cli.terminal.result_wording import usage_text

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
        from teamwright.cli.runs.conversations import undo_turn, undone_text

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
