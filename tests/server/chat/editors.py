"""A team as the agent of an editor, and an editor that keeps what it gets and takes the choice that it is set to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from teamwright.journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.server.chat.acp import EditorAgent
from teamwright.server.chat.acp_peer import Peer
from teamwright.server.credentials import Allowance, Visitor
from teamwright.server.state import ServerState, open_state
from tests.kit.terminal import write_team

PLANNED = """\
agents:
  a: {model: scripted:replies.yaml, tools: [workspace]}
  b: {model: scripted:replies.yaml}
teams:
  planned:
    members: [a, b]
    strategy: dag
    dag: {steps: [{id: first, agent: a, task: Look.}, {id: second, agent: b, task: Say., needs: [first]}]}
"""
PLANNED_REPLIES = """\
rules:
  - {agent: a, tool: {name: write_value, args: {name: x, value: 5}}, times: 1}
  - {agent: a, reply: looked}
  - {agent: b, reply: said}
"""


@dataclass
class Editor(Peer):
    """The editor of one agent; `choice` is the kind of option that its user takes, or what cancels."""

    agent: EditorAgent = field(init=False)
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    choice: str = "allow_once"
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def tell(self, method: str, params: Any) -> None:
        assert method == "session/update"
        self.told.append(params["update"])

    async def ask(self, method: str, params: Any) -> Any:
        assert method == "session/request_permission"
        self.asked.append(params)
        self.waits.set()
        ids = [one["optionId"] for one in params["options"] if one["kind"] == self.choice]
        return {"outcome": {"outcome": "selected", "optionId": ids[0]} if ids else {"outcome": "cancelled"}}

    async def open(self) -> str:
        return (await self.call("session/new", cwd="/", mcpServers=[]))["sessionId"]

    async def call(self, method: str, **params: Any) -> Any:
        return await self.agent.answer(method, params)

    async def say(self, session: str, text: str) -> Any:
        return await self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def texts(self, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"]["text"] for one in self.told if one["sessionUpdate"] == kind)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [one for one in self.told if one["sessionUpdate"] in kinds]


Editors = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
def editors(tmp_path: Path, agent_teams: Path) -> Editors:
    """Open an editor on a team, over a journal that outlives it."""
    write_team(agent_teams / "planned", PLANNED, PLANNED_REPLIES)
    journal = MemoryJournal()

    @asynccontextmanager
    async def opened(team: str, allowance: Allowance | None = None) -> AsyncGenerator[Editor]:
        async with Engine(journal) as engine, open_state(engine, [agent_teams / team], tmp_path) as state:
            yield _editor(state, team, allowance)

    return opened


def _editor(state: ServerState, team: str, allowance: Allowance | None) -> Editor:
    editor = Editor()
    visitor = Visitor("ada", "admin", allowance or Allowance())
    editor.agent = EditorAgent(state, state.catalogue.load(team), visitor, editor)
    return editor
