"""Teams behind the Responses API on loopback, and the official client, which calls them as it is, with its retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from teamwright.journal import Journal, MemoryJournal
from teamwright.server.credentials import Role
from tests.kit.server import TestServer, serving
from tests.kit.terminal import write_team
from tests.server.a2a.conftest import ASKING
from tests.server.conftest import PAIR

RULES = """\
rules:
  - {agent: a, match: break, error: refused}
  - {agent: a, reply: one}
  - {agent: b, match: "(?s)first question.*and then", reply: "I remember."}
  - {agent: b, match: first question, reply: "I was asked."}
  - {agent: b, reply: two}
"""
FORMED = """\
agents:
  a: {model: scripted:replies.yaml}
teams:
  formed:
    members: [a]
    output_schema: {type: object, properties: {colour: {type: string}}, required: [colour]}
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
}


@dataclass
class Doors:
    """A server, and clients of it."""

    server: TestServer
    clients: list[openai.AsyncOpenAI] = field(default_factory=list[openai.AsyncOpenAI])

    def client(self, role: Role = "run", **options: Any) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(base_url=f"{self.server.url}/v1", api_key=self.server.token(role), **options)
        self.clients.append(client)
        return client

    async def settled(self, response: str) -> Response:
        """Poll a response as a client does, until it has ended or waits for someone."""
        client = self.client("read")
        async with asyncio.timeout(20):
            while (found := await client.responses.retrieve(response)).status == "in_progress":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found

    async def runs(self) -> list[str]:
        return [one.id for one in await self.server.state.engine.runs.list()]


@pytest.fixture
def response_teams(teams: Path) -> Path:
    write_team(teams / "talk", PAIR.replace("pair:", "talk:"), RULES)
    for name, function in (("asking", "ask"), ("twice", "ask_twice"), ("failing", "fail")):
        text = f"agents:\n  a: {{function: 'members:{function}'}}\nteams:\n  {name}: {{members: [a]}}\n"
        write_team(teams / name, text, "")
        (teams / name / "members.py").write_text(ASKING)
    write_team(teams / "formed", FORMED, 'rules:\n  - {agent: a, reply: \'{"colour": "red"}\'}\n')
    poor = PAIR.replace("pair: {members: [a, b]}", "poor: {members: [a, b], limits: {calls: 1}}")
    write_team(teams / "poor", poor, RULES)
    return teams


@asynccontextmanager
async def opened(folder: Path, teams: Path, journal: Journal | None = None) -> AsyncGenerator[Doors]:
    async with serving(journal or MemoryJournal(), folder, [teams]) as server:
        doors = Doors(server)
        try:
            yield doors
        finally:
            for client in doors.clients:
                await client.close()


@pytest.fixture
async def doors(tmp_path: Path, response_teams: Path) -> AsyncGenerator[Doors]:
    async with opened(tmp_path, response_teams) as found:
        yield found


def said(response: Any) -> list[tuple[str | None, str]]:
    """The phases and texts of the messages of a response."""
    return [(one.phase, one.content[0].text) for one in response.output]
