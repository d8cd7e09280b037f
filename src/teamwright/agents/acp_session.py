"""One session of a coding agent: the handshake, a prompt, and what the agent tells and asks until it has answered.

A session ends a part of a turn with an answer, or with a request for permission, which waits for a decision. A part of
a turn keeps no more text than a reply may have, and records no more events than readers can use. The agent may ask for
files below its folder and no others.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import anyio
from pydantic import JsonValue

from teamwright.agents.acp_connection import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    AgentProcess,
    Connection,
    Incoming,
    Json,
    ProtocolViolation,
    RequestRefused,
    items_at,
    part_at,
    text_at,
)
from teamwright.agents.effect import REPLY, THINKING, Attempt
from teamwright.agents.functions.threads import finish
from teamwright.agents.tools.files import Files
from teamwright.errors import AgentError, InvalidRequest, ToolError
from teamwright.values.events.agent import AgentProgressed
from teamwright.values.events.run import RunLogged
from teamwright.values.specs.members import AcpCommand
from teamwright.values.specs.tools import SandboxSettings
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import Usage

MOST_EVENTS = 200
"""How many events one part of a turn records."""
LONGEST_TEXT = 500
DONE, DOING = "completed", "in_progress"


class PartUpdates:
    """The updates of one part of a turn."""

    def __init__(self, attempt: Attempt, most: int) -> None:
        self._attempt, self._room = attempt, most
        self._pieces: list[str] = []
        self.is_cut = False
        """Whether the agent has said more than is kept."""
        self._is_apart = False
        """Whether something else came since the last piece of text."""
        self._events, self._plan = 0, ""
        self._usd: float | None = None
        self._kinds: dict[str, Callable[[Json], None]] = {
            "agent_message_chunk": self._add_text,
            "agent_thought_chunk": self._add_thought,
            "plan": self._add_plan,
            "tool_call": self._add_call,
            "tool_call_update": self._add_result,
            "usage_update": self._add_cost,
        }

    @property
    def text(self) -> str:
        """What the agent has said, as much as a reply may have."""
        return "".join(self._pieces)

    def add(self, update: Json) -> None:
        """Take over one update; one of a kind that is not known here is left out."""
        if (take := self._kinds.get(text_at(update, "sessionUpdate"))) is not None:
            take(update)

    def _add_text(self, update: Json) -> None:
        piece = text_at(update, "content", "text")
        if not piece or self.is_cut:
            return
        if self._is_apart and self._pieces:
            piece = f"\n\n{piece}"
        self._is_apart = False
        if (size := len(content := piece.encode("utf-8", "replace"))) > self._room:
            self.is_cut, piece = True, content[: self._room].decode("utf-8", "ignore")
        self._room -= size
        self._pieces.append(piece)
        self._attempt.delta(piece, REPLY)

    def _add_thought(self, update: Json) -> None:
        if piece := text_at(update, "content", "text"):
            self._attempt.delta(piece, THINKING)

    def _add_plan(self, update: Json) -> None:
        """Record how far the plan of the agent is, and what it does now."""
        entries = items_at(update, "entries")
        states = [text_at(one, "status") for one in entries]
        now = next((text_at(one, "content") for one in entries if text_at(one, "status") == DOING), "")
        text = f"plan: {states.count(DONE)} of {len(entries)} done" + (f", {now}" if now else "")
        if entries and text != self._plan and self._has_room():
            self._plan = text
            done = states.count(DONE) / len(entries)
            self._attempt.emit(AgentProgressed(name="plan", text=cut(text, LONGEST_TEXT), done=done))

    def _add_call(self, update: Json) -> None:
        self._is_apart = True
        kind, title = text_at(update, "kind") or "other", text_at(update, "title")
        if title and self._has_room():
            self._attempt.emit(AgentProgressed(name=cut(kind, 40), text=cut(title, LONGEST_TEXT)))

    def _add_result(self, update: Json) -> None:
        self._is_apart = True
        if text_at(update, "status") == "failed" and self._has_room():
            title = text_at(update, "title") or text_at(update, "toolCallId")
            self._attempt.emit(RunLogged(text=cut(f"a tool call failed: {title}", LONGEST_TEXT), level="warning"))

    def _add_cost(self, update: Json) -> None:
        cost = part_at(update, "cost")
        if text_at(cost, "currency").upper() == "USD":
            self._usd = amount(cost.get("amount")) or self._usd

    def _has_room(self) -> bool:
        self._events += 1
        return self._events <= MOST_EVENTS

    def usage(self, result: JsonValue) -> Usage | None:
        """Return what the session has used so far, as its agent says; `None` if it says nothing plausible.

        `result` is that of the prompt, once there is one. Gemini CLI counts in `_meta`.
        """
        input_tokens, output_tokens = token_counts(result)
        if not input_tokens and not output_tokens and self._usd is None:
            return None
        try:
            used = Usage(requests=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=self._usd)
        except ValueError:
            return None
        return used if used.is_plausible else None


def token_counts(result: JsonValue) -> tuple[int, int]:
    """Return the tokens of input and of output, which together are all that an agent reports."""
    used = part_at(result, "usage")
    if not used:
        counted = part_at(result, "_meta", "quota", "token_count")
        return count(counted.get("input_tokens")), count(counted.get("output_tokens"))
    names = ("inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens")
    inputs, outputs, thoughts, *cached = (count(used.get(name)) for name in names)
    total = count(used.get("totalTokens"))
    if total >= inputs + outputs + thoughts + sum(cached):  # thoughts are no part of the output
        outputs += thoughts
    return max(inputs, total - outputs), outputs


def count(value: JsonValue) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def amount(value: JsonValue) -> float | None:
    """Return an amount of money; `None` for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return None
    return float(value) if value >= 0 else None


PERMISSION = "session/request_permission"
LONGEST_DRAFT = 20_000
CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}
READ, WRITE = "fs/read_text_file", "fs/write_text_file"
OFFERED: Json = {"readTextFile": True, "writeTextFile": True}
"""What the client says that it can do with files."""
LONGEST_READ = 4 << 20
"""How many characters of a file are sent at once."""


class AgentFiles(Files):
    """The files below one folder, by the absolute paths that the protocol uses."""

    @property
    def folder(self) -> Path:
        return self._root

    def answer(self, method: str, params: Json) -> JsonValue:
        """Read or write a file as a request of the agent says; raises `ToolError` with why not."""
        place = self._resolve(self._below(text_at(params, "path")))
        if method == READ:
            return {"content": self._read(place, params.get("line"), params.get("limit"))}
        content = params.get("content")
        if not isinstance(content, str):
            raise ToolError("There is nothing to write: 'content' is no text.")
        self._write(place, content)
        return None

    def _below(self, path: str) -> str:
        """Return a path relative to the folder; one that leads elsewhere stays absolute, and is refused."""
        given = Path(path)
        return str(given.relative_to(self._root)) if given.is_relative_to(self._root) else path

    def _read(self, place: Path, line: JsonValue, limit: JsonValue) -> str:
        first = max(1, line) if isinstance(line, int) else 1
        last = first - 1 + max(0, limit) if isinstance(limit, int) else None
        pieces, size = list[str](), 0
        for piece in islice(self._lines(place), first - 1, last):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_READ:
                raise ToolError(f"{self._name(place)!r} is too long to be read at once; ask for some of its lines.")
        return "".join(pieces)


class Permission(NamedTuple):
    """What an agent wants to be allowed: its kind and its text, and what makes it the same request again."""

    kind: str
    text: str
    about: str

    @classmethod
    def of(cls, params: Json) -> Permission:
        call = part_at(params, "toolCall")
        kind, title = text_at(call, "kind") or "other", text_at(call, "title") or "something"
        shown = {name: call[name] for name in ("rawInput", "locations", "content") if call.get(name)}
        details = json.dumps(shown, ensure_ascii=False, indent=1, sort_keys=True) if shown else ""
        return cls(kind, cut(f"{title}\n{details}".strip(), LONGEST_DRAFT), digest(kind, title, details))


def chosen_option(params: Json, *, approved: bool) -> Json:
    """Return the answer to a request for permission: the option that says so for this once, else for always."""
    wanted = ("allow_once", "allow_always") if approved else ("reject_once", "reject_always")
    options = items_at(params, "options")
    ids = [text_at(one, "optionId") for kind in wanted for one in options if text_at(one, "kind") == kind]
    return {"outcome": {"outcome": "selected", "optionId": ids[0]}} if ids else CANCELLED


VERSION = 1
"""The version of the protocol."""
START_SECONDS = 120.0
"""How long an agent may take to open a session: `npx` and `uvx` may have to install it."""
CANCEL_SECONDS = 1.0
"""How long an agent may take to say that it has stopped."""


class PartOutcome(NamedTuple):
    """How a part of a turn ended: with a reason to stop, or with a request for permission."""

    text: str
    stop: str = ""
    asked: Permission | None = None
    usage: Usage | None = None
    is_cut: bool = False


class AgentSession:
    """A session and the process that has it; `open` makes one."""

    def __init__(self, connection: Connection, files: AgentFiles) -> None:
        self._connection, self._files = connection, files
        self.id = ""
        self.loads = False
        """Whether another process of the agent can go on with its sessions."""
        self._prompt: int | None = None
        self._waiting: deque[Incoming] = deque()
        """Its requests for permission that have no answer yet."""

    @classmethod
    async def open(
        cls,
        label: str,
        declared: AcpCommand,
        files: AgentFiles,
        sandbox: SandboxSettings | None,
        *,
        session: str = "",
    ) -> AgentSession:
        """Start an agent and open a session in a folder, or go on with an earlier one that it has kept."""
        process = await AgentProcess.start(label, declared, files.folder, sandbox)
        made = cls(Connection(label, process), files)
        try:
            with anyio.move_on_after(START_SECONDS) as scope:
                await made._shake_hands(str(files.folder), session)
            if scope.cancelled_caught:
                words = f" ({process.last_words})" if process.last_words else ""
                raise AgentError(f"The coding agent {label!r} opened no session within {START_SECONDS:g} s{words}.")
        except BaseException:
            await made.close()
            raise
        return made

    async def _shake_hands(self, folder: str, session: str) -> None:
        told: Json = {"protocolVersion": VERSION, "clientCapabilities": {"fs": OFFERED, "terminal": False}}
        made = await self._ask("initialize", {**told, "clientInfo": {"name": "teamwright", "version": "1"}})
        if (version := part_at(made).get("protocolVersion")) != VERSION:
            raise InvalidRequest(
                f"The coding agent {self._connection.label!r} speaks version {version!r:.40} of the Agent Client"
                f" Protocol, and version {VERSION} is known here."
            )
        self.loads = part_at(made, "agentCapabilities").get("loadSession") is True
        place: Json = {"cwd": folder, "mcpServers": []}
        if session and self.loads:
            with suppress(RequestRefused):
                await self._ask("session/load", {**place, "sessionId": session})
                self.id = session
                return
        self.id = text_at(await self._ask("session/new", place), "sessionId")
        if not self.id:
            raise ProtocolViolation(f"The coding agent {self._connection.label!r} opened a session without an id.")

    async def _ask(self, method: str, params: Json) -> JsonValue:
        try:
            return await self._connection.result(self._connection.request(method, params), method)
        except RequestRefused as error:
            if error.code != AUTH_REQUIRED:
                error.unknown_cost = False
                raise
            raise InvalidRequest(
                f"The coding agent {self._connection.label!r} wants a login: log in with its own program, or pass its"
                f" key in  env. It said: {error}"
            ) from error

    def prompt(self, texts: Sequence[str]) -> None:
        """Send a prompt."""
        blocks: list[JsonValue] = [{"type": "text", "text": text} for text in texts if text]
        self._prompt = self._connection.request("session/prompt", {"sessionId": self.id, "prompt": blocks})

    def decide(self, *, approved: bool) -> None:
        """Answer the request for permission that has waited longest."""
        asked = self._waiting.popleft()
        self._connection.answer(asked, chosen_option(asked.params, approved=approved))

    async def follow(self, attempt: Attempt, known: Callable[[Permission], bool | None], most: int) -> PartOutcome:
        """Follow the agent until it has answered or needs a decision that is not `known`."""
        updates = PartUpdates(attempt, most)
        while True:
            if self._waiting:
                permission = Permission.of(self._waiting[0].params)
                if (decided := known(permission)) is None:
                    return PartOutcome(updates.text, "", permission, updates.usage(None), updates.is_cut)
                self.decide(approved=decided)
                continue
            message = await self._connection.receive()
            if message.is_request:
                self._serve(message)
            elif message.method == "session/update" and text_at(message.params, "sessionId") == self.id:
                updates.add(part_at(message.params, "update"))
            elif not message.method and message.id == self._prompt:
                self._prompt = None
                result = self._connection.checked(message, "session/prompt")
                stop = text_at(result, "stopReason")
                return PartOutcome(updates.text, stop, None, updates.usage(result), updates.is_cut)

    def _serve(self, asked: Incoming) -> None:
        """Answer a request of the agent, or let it wait for a decision."""
        if text_at(asked.params, "sessionId") != self.id:
            self._connection.refuse(asked, INVALID_PARAMS, "there is no such session")
        elif asked.method == PERMISSION:
            self._waiting.append(asked)
        elif asked.method in (READ, WRITE):
            try:
                self._connection.answer(asked, self._files.answer(asked.method, asked.params))
            except ToolError as error:
                self._connection.refuse(asked, INVALID_PARAMS, str(error))
        else:
            self._connection.refuse(asked, METHOD_NOT_FOUND, f"{asked.method!r} is not offered here")

    async def close(self) -> None:
        """Tell the agent to stop if it is at work, and end its process, also if the caller is cancelled meanwhile."""
        await finish(self._close())

    async def _close(self) -> None:
        try:
            with anyio.move_on_after(CANCEL_SECONDS), suppress(AgentError, OSError):
                await self._cancel()
        finally:
            await self._connection.process.end()

    async def _cancel(self) -> None:
        if self._prompt is None:
            return
        self._connection.notify("session/cancel", {"sessionId": self.id})
        while True:
            while self._waiting:
                self._connection.answer(self._waiting.popleft(), CANCELLED)
            message = await self._connection.receive()
            if not message.method and message.id == self._prompt:
                return
            if message.is_request and message.method == PERMISSION:
                self._waiting.append(message)
