"""Teams as A2A agents on loopback, and a client that calls them by either binding."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from teamwright.journal import MemoryJournal
from teamwright.server.credentials import Role
from tests.kit.server import TestServer, serving
from tests.kit.terminal import write_team
from tests.server.conftest import PAIR, REPLIES

ASKING = """\
from teamwright import Context, Turn
from teamwright.people import Question


async def ask(turn: Turn, ctx: Context) -> str:
    first = await ctx.ask_person(Question(text="Which colour?", choices=("red", "blue")), key="colour")
    second = await ctx.ask_person(Question(text="Why?"), key="why")
    await ctx.workspace.keep(b"\\x00\\x01", name="stamp.bin")
    return f"{first.text} because {second.text}"


async def ask_twice(turn: Turn, ctx: Context) -> str:
    async with ctx.branches(2) as branches:
        for name in ("left", "right"):
            branches.start(name, lambda inner, name=name: inner.ask_person(Question(text=name), key="q"))
    return "both"


def fail(turn: Turn) -> str:
    raise ValueError("no luck")
"""


@dataclass
class Caller:
    """A client of one role."""

    http: httpx2.AsyncClient
    url: str

    async def rpc(self, team: str, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
        """Call a method by JSON-RPC, and return the whole response."""
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}, **more}
        answer = await self.http.post(f"/a2a/{team}", json=body)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["id"] == 7
        return found

    async def send(self, team: str, text: str = "Go", id_: str = "m-1", **more: Any) -> dict[str, Any]:
        """Send a message, and return its task."""
        found = await self.rpc(team, "SendMessage", sending(text, id_, **more))
        return found["result"]["task"]


def sending(text: str, id_: str, configuration: Any = None, metadata: Any = None, **message: Any) -> dict[str, Any]:
    """The request with a message."""
    asked: dict[str, Any] = {
        "message": {"messageId": id_, "role": "ROLE_USER", "parts": [{"text": text}], **message},
    }
    if configuration is not None:
        asked["configuration"] = configuration
    if metadata is not None:
        asked["metadata"] = metadata
    return asked


@dataclass
class Agents:
    """A server with agents; `caller` has a token of its own."""

    server: TestServer

    def caller(self, role: Role = "run", **headers: str) -> Caller:
        client = self.server.client(role, **{"A2A-Version": "1.0", **headers})
        return Caller(client, self.server.url)


@pytest.fixture
def agent_teams(teams: Path) -> Path:
    for name, function in (("asking", "ask"), ("twice", "ask_twice"), ("failing", "fail")):
        text = f"agents:\n  a: {{function: 'members:{function}'}}\nteams:\n  {name}: {{members: [a]}}\n"
        write_team(teams / name, text, "")
        (teams / name / "members.py").write_text(ASKING)
    budget = PAIR.replace("pair: {members: [a, b]}", "poor: {members: [a, b], limits: {calls: 1}}")
    write_team(teams / "poor", budget, REPLIES)
    return teams


@pytest.fixture
async def agents(tmp_path: Path, agent_teams: Path) -> AsyncGenerator[Agents]:
    async with serving(MemoryJournal(), tmp_path, [agent_teams]) as server:
        yield Agents(server)
