"""What strangers and clients send to the doors of a server: requests of MCP, whole, mutated and broken."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any, ClassVar, cast

import httpx2
from pydantic import JsonValue

from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_json, mutated_tree
from tests.fuzz.odd_values import odd_text
from tests.fuzz.targets.protocol import check_size
from tests.fuzz.targets.served import ROLES, ServedTarget, check_error

META = "io.modelcontextprotocol/"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
TOKENS = ('"method": "tools/call"', '"id": null', '"jsonrpc": "2.0"', "}{", "[", "\\ud800", '"taskId": "x"', "1" * 5000)
NAMED = ("name", "uri", "taskId")


class Mcp(ServedTarget):
    """The door of MCP. A request never breaks the server, and who may only read or answer starts nothing."""

    name: ClassVar[str] = "mcp"
    heavy: ClassVar[str] = "mcp.server.streamable_http_manager"

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
        headers = given.get("headers")
        headers = headers if isinstance(headers, dict) else {}
        shown = [(str(name), str(value)) for name, value in headers.items() if _can_be_sent(f"{name}{value}")]
        return self.send(role, text, partial(self._send, text, shown))

    async def _send(self, text: str, headers: list[tuple[str, str]], token: str) -> httpx2.Response:
        content = text.encode("utf-8", "surrogatepass")
        fixed = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
        return await self._http.post("/mcp", content=content, headers=[*headers, *fixed])

    def check(self, answer: httpx2.Response, given: str) -> None:
        if answer.status_code >= 500:
            raise Violation("broken", f"the status is {answer.status_code}", answer.text[:1000])
        check_size(answer.text)
        if answer.content:
            check_error(_message(answer), given)


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


def _message(answer: httpx2.Response) -> Any:
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line for line in text.split("\n") if line.startswith("data:")][-1].removeprefix("data:")
    try:
        return json.loads(text)
    except ValueError:
        raise Violation("unreadable", "the answer is no JSON", text[:500]) from None
