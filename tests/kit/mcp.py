"""Official clients of the Model Context Protocol for a server of ours, and a plain way to send what they would not."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Request, Result, TextContent
from pydantic import ConfigDict, Field

from teamwright.server.mcp.tasks import EXTENSION
from tests.kit.server import NO_CERTIFICATES, PATIENCE

Json = dict[str, Any]
REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"


class CreatedTask(Result):
    """The answer to a call that has become a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")


class TakesTasks(ClientExtension):
    """Declares that a client takes tasks; a call returns the id of its task as text."""

    identifier = EXTENSION

    def claims(self) -> list[ResultClaim[CreatedTask]]:
        async def named(task: CreatedTask, context: ClaimContext) -> CallToolResult:
            return CallToolResult(content=[TextContent(type="text", text=task.task_id)])

        return [ResultClaim(result_type="task", model=CreatedTask, resolve=named)]


class TaskState(Result):
    """The present state of a task."""

    model_config = ConfigDict(extra="allow")
    status: str


class TaskRequest(Request[Json, str]):
    """A request about a task."""

    method: str
    params: Json
    name_param = "taskId"


@asynccontextmanager
async def connected(url: str, token: str, **options: Any) -> AsyncGenerator[Client]:
    """Yield the official client, which shows a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, verify=NO_CERTIFICATES) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client,
    ):
        yield client


class Wire:
    """Sends requests as they are on the wire, and returns what comes back."""

    def __init__(self, http: httpx2.AsyncClient, *, takes_tasks: bool = True, asks_people: bool = False) -> None:
        self._http, self._count = http, 0
        self._capabilities: Json = {"extensions": {EXTENSION: {}}} if takes_tasks else {}
        if asks_people:
            self._capabilities["elicitation"] = {}

    async def send(self, method: str, params: Json | None = None, **headers: str) -> httpx2.Response:
        """Send a request in the form of the present revision."""
        self._count += 1
        params = params or {}
        name = params.get("name") or params.get("uri") or params.get("taskId")
        envelope = {
            META + "protocolVersion": REVISION,
            META + "clientCapabilities": self._capabilities,
            META + "clientInfo": {"name": "test", "version": "1"},
        }
        body: Json = {"jsonrpc": "2.0", "id": self._count, "method": method}
        body["params"] = {**params, "_meta": {**envelope, **params.get("_meta", {})}}
        shown = {
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": REVISION,
            "Mcp-Method": method,
            **({"Mcp-Name": str(name)} if name else {}),
            **headers,
        }
        return await self._http.post("/mcp", json=body, headers=shown)

    async def call(self, method: str, **params: Any) -> Json:
        """Send a request and return its result; raises `AssertionError` with its error."""
        found = answer(await self.send(method, params))
        assert "result" in found, found
        return found["result"]

    async def error(self, method: str, **params: Any) -> Json:
        """Send a request and return its error."""
        found = answer(await self.send(method, params))
        assert "error" in found, found
        return found["error"]


def answer(response: httpx2.Response) -> Json:
    """Return the message of JSON-RPC that answers a request."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line for line in response.text.split("\n") if line.startswith("data:")]
        return json.loads(lines[-1].removeprefix("data:"))
    return response.json()
