"""`teamwright chat`: talks with a team at the terminal, or answers a list of messages from a pipe."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
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
from teamwright.cli.terminal.output import flush_all, redirect_prints, say

if TYPE_CHECKING:
    from teamwright.cli.interactive.chat import ChatSession
    from teamwright.runtime.engine import Engine
    from teamwright.values.limits.limits import Limits

Manifest = Annotated[
    Path | None,
    typer.Argument(metavar="MANIFEST", help="A file or folder; by default the team of the conversation's last turn."),
]
Conversation = Annotated[
    str | None, typer.Option("--conversation", metavar="NAME", help="Continue this conversation, or begin it.")
]


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
    """
    from anyio.from_thread import start_blocking_portal

    from teamwright.cli.interactive.chat import Chat
    from teamwright.cli.interactive.open import new_engine
    from teamwright.cli.terminal.interrupts import raise_on_interrupt
    from teamwright.cli.validate import validate_on_error
    from teamwright.runtime.driver.cancellation import has_abandoned_tasks

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
    """Load the team and return the session of a conversation."""
    from teamwright.cli.interactive.chat import ChatSession
    from teamwright.cli.interactive.sys_path import extend_sys_path
    from teamwright.cli.interactive.team_source import last_turn, load_manifest, no_manifest, recorded_source
    from teamwright.runtime.driver.run_id import new_run_id
    from teamwright.runtime.team_source import TeamSource
    from teamwright.teams.load import source_of
    from teamwright.teams.preflight import check_ready
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
    from teamwright.values.results import FINAL
    from teamwright.values.text.display import count_text

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
