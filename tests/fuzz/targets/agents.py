"""What clients send to the agents of A2A: requests by both bindings, whole, mutated and broken."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import ClassVar, cast

import httpx2
from pydantic import JsonValue

from tests.fuzz.case import Outcome
from tests.fuzz.mutation import mutated_json
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.served import ROLES, ServedTarget

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
PATHS = ("/a2a/one", "/a2a/one/message:send", "/a2a/one/message:stream", "/a2a/one/tasks/x/pushNotificationConfigs")


class Agents(ServedTarget):
    """The door of A2A. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "a2a"

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
        request = partial(self._send, given["path"], given["text"], given["version"])
        return self.send(given["role"], given["text"], request)

    async def _send(self, path: str, text: str, version: str, token: str) -> httpx2.Response:
        content = text.encode("utf-8", "surrogatepass")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if version.isascii() and version.isprintable():
            headers["A2A-Version"] = version
        return await self._http.post(path, content=content, headers=headers)
