"""Teams behind the door of AG-UI on loopback, and a client that reads streams."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from teamwright.journal import MemoryJournal
from teamwright.server.credentials import Role
from tests.kit.server import TestServer, serving

Json = dict[str, Any]


@dataclass
class Caller:
    """A client of one role."""

    http: httpx2.AsyncClient

    async def post(self, team: str, body: Any) -> httpx2.Response:
        return await self.http.post(f"/agui/{team}", json=body)

    async def run(self, team: str, run: str = "r-1", text: str = "Go", **more: Any) -> list[Json]:
        """Ask for a run, and return the events of its stream."""
        answer = await self.post(team, asking(run, text, **more))
        assert answer.status_code == 200, answer.text
        return events_of(answer.text)


def asking(run: str = "r-1", text: str = "Go", thread: str = "t-1", **more: Any) -> Json:
    """The input of a run with one message."""
    messages = [{"id": "u-1", "role": "user", "content": text}]
    return {"threadId": thread, "runId": run, "messages": messages, **more}


def answering(events: list[Json], *payloads: Any) -> list[Json]:
    """The entries that answer the interrupts of a stream, in their order."""
    ids = [one["id"] for one in interrupts_of(events)]
    return [{"interruptId": one, "status": "resolved", "payload": given} for one, given in zip(ids, payloads)]  # noqa: B905


def interrupts_of(events: list[Json]) -> list[Json]:
    assert events[-1]["outcome"]["type"] == "interrupt", events[-1]
    return events[-1]["outcome"]["interrupts"]


def events_of(stream: str) -> list[Json]:
    frames = [one for one in stream.split("\n\n") if one and not one.startswith(":")]
    return [json.loads(one.removeprefix("data: ")) for one in frames]


def kinds(events: list[Json]) -> list[str]:
    return [one["type"] for one in events]


def said(events: list[Json]) -> dict[str, str]:
    """The texts of the messages of a stream, by their ids."""
    texts: dict[str, str] = {}
    for one in events:
        if one["type"] == "TEXT_MESSAGE_CONTENT":
            texts[one["messageId"]] = texts.get(one["messageId"], "") + one["delta"]
    return texts


@dataclass
class Door:
    """A server with teams; `caller` has a token of its own."""

    server: TestServer

    def caller(self, role: Role = "run") -> Caller:
        return Caller(self.server.client(role))


@pytest.fixture
async def door(tmp_path: Path, agent_teams: Path) -> AsyncGenerator[Door]:
    async with serving(MemoryJournal(), tmp_path, [agent_teams]) as server:
        yield Door(server)
