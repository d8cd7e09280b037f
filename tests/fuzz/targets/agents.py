"""What clients send to the agents of A2A: requests by both bindings, whole, mutated and broken."""

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
from teamwright.server.security.credentials import Role
from teamwright.server.security.request_limits import RateLimit
from teamwright.server.state import ServerState, open_state
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_json
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.protocol import CORPUS, check_size, check_words
from tests.kit.server import NO_CERTIFICATES
from tests.kit.terminal import write_team

TEAM = "agents: {a: {model: scripted:replies.yaml}}\nteams: {one: {members: [a]}}\n"
TOKENS = (
    '"method": "SendMessage"',
    '"id": null',
    '"jsonrpc": "2.0"',
    "}{",
    "[",
    "\\ud800",
    '"taskId": "x"',
    "1" * 5000,
)
ROLES: tuple[Role, ...] = ("read", "answer", "run")
PATHS = ("/a2a/one", "/a2a/one/message:send", "/a2a/one/message:stream", "/a2a/one/tasks/x/pushNotificationConfigs")


class Agents:
    """The door of A2A. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "a2a"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = "teamwright.server.app"

    def __init__(self, folder: Path) -> None:
        self._texts = [file.read_text() for file in sorted((CORPUS / self.name).iterdir())]
        write_team(folder / "teams" / "one", TEAM, "rules:\n  - {agent: a, reply: done}\n")
        self._opened = start_blocking_portal()
        self._portal: BlockingPortal = self._opened.__enter__()
        self._served = self._portal.wrap_async_context_manager(served(folder))
        self._state, self._http = self._served.__enter__()
        self._tokens: dict[str, str] = {role: self._state.tokens.create(role, role) for role in ROLES}

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "role": role, "path": path, "version": "1.0"}
                for text in self._texts for role in ROLES for path in PATHS]  # fmt: skip

    def draw(self, random: Random) -> JsonValue:
        text, path = random.choice(self._texts), random.choice((*PATHS, *PATHS[:1] * 3))
        if path != PATHS[0]:
            text = json.dumps(json.loads(text)["params"])
        text = mutated_json(random, text, TOKENS, self._texts)
        version = "1.0" if random.random() < 0.9 else odd_text(random)[:40]
        return {"text": text, "role": random.choice((*ROLES, "run", "run")), "path": path, "version": version}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, str]", payload)
        text, role = given["text"], given["role"]
        before = self._portal.call(self._count)
        answer = self._portal.call(self._send, given["path"], text, self._tokens[role], given["version"])
        check_answer(answer, text)
        if role != "run" and self._portal.call(self._count) != before:
            raise Violation("started", f"a visitor with the role {role} has started a run", text[:500])
        return "accepted" if answer.status_code < 300 and b'"error"' not in answer.content else "refused"

    async def _send(self, path: str, text: str, token: str, version: str) -> httpx2.Response:
        content = text.encode("utf-8", "surrogatepass")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if version.isascii() and version.isprintable():
            headers["A2A-Version"] = version
        return await self._http.post(path, content=content, headers=headers)

    async def _count(self) -> int:
        return len(await self._state.engine.runs.list())

    def close(self) -> None:
        self._served.__exit__(None, None, None)
        self._opened.__exit__(None, None, None)


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[ServerState, httpx2.AsyncClient]]:
    async with Engine(MemoryJournal()) as engine, open_state(engine, [folder / "teams"], folder) as state:
        guard = make_app(state)
        guard._calls = RateLimit(1e9, 1e9)  # pyright: ignore[reportPrivateUsage] - the rate is not the question
        inside = httpx2.ASGITransport(app=guard, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=inside, base_url="http://localhost", timeout=15, verify=NO_CERTIFICATES
        ) as http:
            yield state, http


def check_answer(answer: httpx2.Response, text: str) -> None:
    """A refusal is JSON with words of ours, and never an error of the server itself."""
    if answer.status_code >= 500:
        raise Violation("broken", f"the status is {answer.status_code}", answer.text[:1000])
    check_size(answer.text)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return
    try:
        found: Any = answer.json()
    except ValueError:
        raise Violation("unreadable", "the answer is no JSON", answer.text[:500]) from None
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        if error.get("code") == -32603:
            raise Violation("broken", "the error is one of the server itself", answer.text[:1000])
        check_words(str(error.get("message", "")), text)
