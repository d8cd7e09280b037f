"""What strangers and clients send to the doors of a server: requests of MCP, whole, mutated and broken."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import JsonValue

from teamwright import Engine
from teamwright.journal import MemoryJournal
from teamwright.server.app import make_app
from teamwright.server.state import ServerState, open_state
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_json, mutated_tree
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.protocol import CORPUS, check_size, check_words
from tests.kit.server import NO_CERTIFICATES
from tests.kit.terminal import write_team

TEAM = """\
agents: {a: {model: scripted:replies.yaml}}
teams: {one: {members: [a]}}
"""
META = "io.modelcontextprotocol/"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
TOKENS = ('"method": "tools/call"', '"id": null', '"jsonrpc": "2.0"', "}{", "[", "\\ud800", '"taskId": "x"', "1" * 5000)
ROLES = ("read", "answer", "run")
NAMED = ("name", "uri", "taskId")


class Mcp:
    """The door of MCP. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "mcp"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = "mcp.server.streamable_http_manager"

    def __init__(self, folder: Path) -> None:
        self._texts = [file.read_text() for file in sorted((CORPUS / self.name).iterdir())]
        write_team(folder / "teams" / "one", TEAM, "rules:\n  - {agent: a, reply: done}\n")
        self._opened = start_blocking_portal()
        self._portal: BlockingPortal = self._opened.__enter__()
        self._served = self._portal.wrap_async_context_manager(_served(folder))
        self._state, self._http = self._served.__enter__()
        self._tokens = {role: self._state.tokens.create(role, role) for role in ROLES}

    def corpus(self) -> list[JsonValue]:
        return [_payload(text, role, version) for text in self._texts for role in ROLES for version in (MODERN, LEGACY)]

    def draw(self, random: Random) -> JsonValue:
        text = random.choice(self._texts)
        text = mutated_json(random, text, TOKENS, self._texts)
        version = random.choice((MODERN, MODERN, LEGACY, odd_text(random)[:40]))
        payload = _payload(text, random.choice(ROLES), version)
        return mutated_tree(random, payload) if random.random() < 0.1 else payload

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
        text, role = str(given.get("text", "")), str(given.get("role", "read"))
        token = self._tokens.get(role, "tw_unknown")
        headers = given.get("headers")
        headers = headers if isinstance(headers, dict) else {}
        shown = [(str(name), str(value)) for name, value in headers.items() if _can_be_sent(f"{name}{value}")]
        before = self._portal.call(self._count)
        answer = self._portal.call(self._send, text, token, shown)
        _check(answer, text)
        if role != "run" and self._portal.call(self._count) != before:
            raise Violation("started", f"a visitor with the role {role} has started a run", text[:500])
        return "accepted" if answer.status_code < 300 and b'"error"' not in answer.content else "refused"

    async def _send(self, text: str, token: str, headers: list[tuple[str, str]]) -> httpx2.Response:
        content = text.encode("utf-8", "surrogatepass")
        fixed = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
        return await self._http.post("/mcp", content=content, headers=[*headers, *fixed])

    async def _count(self) -> int:
        return len(await self._state.engine.runs.list())

    def close(self) -> None:
        self._served.__exit__(None, None, None)
        self._opened.__exit__(None, None, None)


@asynccontextmanager
async def _served(folder: Path) -> AsyncGenerator[tuple[ServerState, httpx2.AsyncClient]]:
    async with Engine(MemoryJournal()) as engine, open_state(engine, [folder / "teams"], folder) as state:
        inside = httpx2.ASGITransport(app=make_app(state), raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=inside, base_url="http://localhost", timeout=15, verify=NO_CERTIFICATES
        ) as http:
            yield state, http


def _payload(text: str, role: str, version: str) -> JsonValue:
    """Return a request with the headers that belong to its body, where that can be read."""
    headers: dict[str, JsonValue] = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and isinstance(body.get("method"), str):
        headers["Mcp-Method"] = body["method"]
        params = body.get("params")
        named = [params[name] for name in NAMED if isinstance(params, dict) and isinstance(params.get(name), str)]
        if named:
            headers["Mcp-Name"] = named[0]
    return {"text": text, "role": role, "headers": headers}


def _can_be_sent(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _check(answer: httpx2.Response, text: str) -> None:
    if answer.status_code >= 500:
        raise Violation("broken", f"the status is {answer.status_code}", answer.text[:1000])
    check_size(answer.text)
    if not answer.content:
        return
    found = _message(answer)
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        if error.get("code") == -32603:
            raise Violation("broken", "the error is one of the server itself", answer.text[:1000])
        check_words(str(error.get("message", "")), text)


def _message(answer: httpx2.Response) -> Any:
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line for line in text.split("\n") if line.startswith("data:")][-1].removeprefix("data:")
    try:
        return json.loads(text)
    except ValueError:
        raise Violation("unreadable", "the answer is no JSON", text[:500]) from None
