"""A team as the agent of an editor: the methods of the Agent Client Protocol that editors call.

Every session is a conversation in the journal, so that a session which the editor loads again shows what was said.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.acp.connection import INVALID_PARAMS, Json, items_at, text_at
from teamwright.runtime.run_request import new_run_id
from teamwright.server.acp.input import prompt_text
from teamwright.server.acp.peer import Peer, RefusedCall, unknown_method
from teamwright.server.acp.session import EditorSession
from teamwright.server.state import ServerState
from teamwright.values.text.display import name_text

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.teams.team import Team

VERSION = 1
PREFIX = "acp-"
"""What the names of conversations begin with that are sessions of editors."""
NOT_FOUND = -32002


class EditorAgent:
    """The agent that one editor has started."""

    def __init__(self, server: ServerState, team: Team, visitor: Visitor, peer: Peer) -> None:
        self._server, self._team, self._visitor, self._peer = server, team, visitor, peer
        self._sessions: dict[str, EditorSession] = {}

    async def answer(self, method: str, params: Json) -> JsonValue:
        """Return the result of a request."""
        match method:
            case "initialize":
                return self._introduce()
            case "session/new":
                self._check_folder(params)
                return {"sessionId": self._open(f"{PREFIX}{new_run_id(time.time())}").id}
            case "session/load":
                self._check_folder(params)
                await (await self._known(text_at(params, "sessionId"))).replay()
                return {}
            case "session/prompt":
                if not items_at(params, "prompt"):
                    raise RefusedCall(INVALID_PARAMS, "'prompt' has to be a list of blocks")
                return await self._session(params).prompt(prompt_text(params))
            case _:
                raise unknown_method(method)

    async def note(self, method: str, params: Json) -> None:
        """Take a notification; the only one that there is cancels a prompt."""
        if method == "session/cancel" and (session := self._sessions.get(text_at(params, "sessionId"))) is not None:
            await session.cancel()

    def _introduce(self) -> Json:
        abilities: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        }
        name: Json = {"name": "teamwright", "title": self._team.name, "version": version("teamwright")}
        return {"protocolVersion": VERSION, "agentCapabilities": abilities, "agentInfo": name, "authMethods": []}

    def _check_folder(self, params: Json) -> None:
        if not text_at(params, "cwd"):
            raise RefusedCall(INVALID_PARAMS, "'cwd' has to be the path of a folder")

    def _open(self, id_: str) -> EditorSession:
        made = self._sessions.get(id_) or EditorSession(id_, self._server, self._team, self._visitor, self._peer)
        self._sessions[id_] = made
        return made

    def _session(self, params: Json) -> EditorSession:
        id_ = text_at(params, "sessionId")
        if id_ not in self._sessions:
            raise RefusedCall(NOT_FOUND, f"there is no session {name_text(id_)}; open one with session/new")
        return self._sessions[id_]

    async def _known(self, id_: str) -> EditorSession:
        """Return a session of this team that was opened before, perhaps by another process."""
        if id_ in self._sessions:
            return self._sessions[id_]
        last = await self._server.engine.conversations.last(id_) if id_.startswith(PREFIX) else None
        if last is None or last.team != self._team.name:
            raise RefusedCall(NOT_FOUND, f"there is no session {name_text(id_)} of the team {self._team.name!r}")
        return self._open(id_)
