"""What clients send to the Responses API: requests, whole, mutated and broken, and the ids of responses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import ClassVar, cast
from urllib.parse import quote

import httpx2
from pydantic import JsonValue

from tests.fuzz.case import Outcome
from tests.fuzz.mutation import mutated_json
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.served import ONE, ROLES, ServedTarget
from tests.kit.server import PATIENCE

ASKING = """\
agents: {a: {model: scripted:replies.yaml, confirm: {after: true}}}
teams: {asking: {members: [a]}}
"""
FORMED = """\
agents: {a: {model: scripted:replies.yaml}}
teams: {formed: {members: [a], output_schema: {type: object}}}
"""
TOKENS = ('"input": "Go"', '"model": "asking"', '"stream": true', "}{", "[", "\\ud800", "1" * 5000, "data:;base64,")
READ = "GET"


class Responses(ServedTarget):
    """The Responses API. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "responses"
    teams: ClassVar[Mapping[str, str]] = {"one": ONE, "asking": ASKING, "formed": FORMED}
    accepted_without: ClassVar[bytes] = b'"code"'

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
        text = given["text"]
        request = partial(self._send, given["method"], given["id"], text)
        return self.send(given["role"], text + given["id"], request)

    async def _send(self, method: str, id_: str, text: str, token: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        path = "/v1/responses"
        if id_:
            path += "/" + quote(id_.encode("utf-8", "surrogatepass"), safe="") + ("" if method == READ else "/cancel")
        content = text.encode("utf-8", "surrogatepass")
        return await self._http.request(method, path, content=content, headers=headers, timeout=PATIENCE)
