"""One session of a coding agent: the handshake, a prompt, and what the agent sends and asks until it has answered.

A session ends a part of a turn with an answer, or with a request for permission, which waits for a decision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from pydantic import JsonValue

from teamwright.agents.acp.client_requests import (
    CANCELLED,
    OFFERED,
    PERMISSION,
    READ,
    WRITE,
    AgentFiles,
    Permission,
    chosen_option,
)
from teamwright.agents.acp.connection import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Connection,
    Incoming,
    Json,
    ProtocolViolation,
    RequestRefused,
    part_at,
    text_at,
)
from teamwright.agents.acp.process import AgentProcess
from teamwright.agents.acp.updates import PartUpdates
from teamwright.agents.contract.effect import Attempt
from teamwright.agents.functions.threads import finish
from teamwright.errors import AgentError, InvalidRequest, ToolError
from teamwright.values.limits import Usage
from teamwright.values.specs.members import AcpCommand
from teamwright.values.specs.sandbox import SandboxSettings

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
