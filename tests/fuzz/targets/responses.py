"""What clients send to the Responses API: requests, whole, mutated and broken, and the ids of responses."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import ClassVar, cast
from urllib.parse import quote

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import JsonValue

from teamwright.server.security.credentials import Role
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_json
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.agents import TEAM, check_answer, served
from tests.fuzz.targets.protocol import CORPUS
from tests.kit.server import PATIENCE
from tests.kit.terminal import write_team

ASKING = """\
agents: {a: {model: scripted:replies.yaml, confirm: {after: true}}}
teams: {asking: {members: [a]}}
"""
TOKENS = ('"input": "Go"', '"model": "asking"', '"stream": true', "}{", "[", "\\ud800", "1" * 5000, "data:;base64,")
ROLES: tuple[Role, ...] = ("read", "answer", "run")
READ = "GET"


class Responses:
    """The Responses API. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "responses"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = "teamwright.server.app"

    def __init__(self, folder: Path) -> None:
        self._texts = [file.read_text() for file in sorted((CORPUS / self.name).iterdir())]
        for name, team in (("one", TEAM), ("asking", ASKING)):
            write_team(folder / "teams" / name, team, "rules:\n  - {agent: a, reply: done}\n")
        self._opened = start_blocking_portal()
        self._portal: BlockingPortal = self._opened.__enter__()
        self._served = self._portal.wrap_async_context_manager(served(folder))
        self._state, self._http = self._served.__enter__()
        self._tokens: dict[str, str] = {role: self._state.tokens.create(role, role) for role in ROLES}

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "role": role, "method": "POST", "id": ""} for text in self._texts for role in ROLES]

    def draw(self, random: Random) -> JsonValue:
        text, role = random.choice(self._texts), random.choice((*ROLES, "run", "run"))
        text = mutated_json(random, text, TOKENS, self._texts)
        if random.random() < 0.85:
            return {"text": text, "role": role, "method": "POST", "id": ""}
        id_ = random.choice(("resp_", "x")) + odd_text(random)[:60].replace("/", "~")
        return {"text": text, "role": role, "method": random.choice((READ, "POST")), "id": id_}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, str]", payload)
        text, role = given["text"], given["role"]
        before = self._portal.call(self._count)
        answer = self._portal.call(self._send, given["method"], given["id"], text, self._tokens[role])
        check_answer(answer, text + given["id"])
        if role != "run" and self._portal.call(self._count) != before:
            raise Violation("started", f"a visitor with the role {role} has started a run", text[:500])
        return "accepted" if answer.status_code < 300 and b'"code"' not in answer.content else "refused"

    async def _send(self, method: str, id_: str, text: str, token: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        path = "/v1/responses"
        if id_:
            path += "/" + quote(id_.encode("utf-8", "surrogatepass"), safe="") + ("" if method == READ else "/cancel")
        content = text.encode("utf-8", "surrogatepass")
        return await self._http.request(method, path, content=content, headers=headers, timeout=PATIENCE)

    async def _count(self) -> int:
        return len(await self._state.engine.runs.list())

    def close(self) -> None:
        self._served.__exit__(None, None, None)
        self._opened.__exit__(None, None, None)
