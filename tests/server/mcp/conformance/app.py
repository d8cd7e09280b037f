"""The application that the conformance suite judges: our server class, guard and task store, and fixtures beside them.

Its tasks are runs of teams, in a journal on disk. The suite shows no token, so that a wrapper adds the one of a program
with the role `run` to its requests; everything behind that is the server of the product.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.server.context import HandlerResult
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CompleteRequestParams,
    GetPromptRequestParams,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from teamwright import Engine
from teamwright.server.app import FeedServer, listen, make_app, server_config
from teamwright.server.guard import LOOPBACK
from teamwright.server.mcp.routes import McpDoor
from teamwright.server.mcp.tasks import EXTENSION
from teamwright.server.mcp.team_server import Context, ServerCall, TeamServer, takes_tasks
from teamwright.server.state import ServerState, open_state
from tests.server.mcp.conformance import fixture_tools as fixtures
from tests.server.mcp.conformance.members import TEAMS, manifest

Json = dict[str, Any]
ONLY_TASKS = "failing_job"
"""The tool that the suite declares to need tasks."""
NAMED = "test_tool_with_task"
"""The tool that asks for a name before its task begins."""
KEY = b"a key of the fixtures, which seals what their clients send back"


class ConformanceServer(TeamServer):
    """The server of the product with the suite's fixtures. A team takes the suite's arguments as its task, as JSON."""

    def __init__(self, state: ServerState) -> None:
        super().__init__(state)
        seal = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience="conformance")
        self.protocol.middleware.append(seal)
        self.protocol.add_request_handler("prompts/list", PaginatedRequestParams, self._prompts)
        self.protocol.add_request_handler("prompts/get", GetPromptRequestParams, self._prompt)
        self.protocol.add_request_handler("completion/complete", CompleteRequestParams, self._complete)

    @override
    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        return fixtures.SCHEMAS.get(name, fixtures.OBJECT)

    @override
    async def definitions(self) -> list[Json]:
        own = await super().definitions()
        teams = [{**one, "inputSchema": fixtures.OBJECT} if one["name"] in TEAMS else one for one in own]
        return [*teams, *map(self._fixture, fixtures.FIXTURES)]

    def _fixture(self, name: str) -> Json:
        schema = fixtures.SCHEMAS.get(name, fixtures.OBJECT)
        return {"name": name, "description": f"The tool {name} of the suite.", "inputSchema": schema}

    @override
    async def call(self, context: Context, name: str, arguments: Json) -> Json:
        params = cast("Json", context.params)
        if (found := fixtures.FIXTURES.get(name)) is not None:
            return await found(context, params)
        if name not in TEAMS:
            return await super().call(context, name, arguments)
        if name == ONLY_TASKS and not takes_tasks(context):
            needed: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs tasks", needed)
        if name == NAMED:
            if "user_name" not in fixtures.responses(params):
                return fixtures.ask("asked", user_name=fixtures.form("What is your name?", name="string"))
            arguments = {"name": fixtures.given(params, "user_name", "name")}
        return await self._start_task(context, name, arguments)

    async def _start_task(self, context: Context, name: str, arguments: Json) -> Json:
        """Start the run of a team as the product does, with the suite's arguments as its task."""
        call = ServerCall(self, context, "run")
        tool = await self.tools.find(name)
        assert tool is not None
        given = {"task": json.dumps(arguments)}
        run_id = await self.tools.start(tool, given, call)
        if takes_tasks(context):
            return await self.tasks.created(run_id)
        return await self.tools.call(run_id, name, given, call, has_schema=False)

    @override
    async def _list_resources(self, context: Context, params: object) -> ListResourcesResult:
        own = await super()._list_resources(context, params)
        more = [{"uri": uri, "name": uri, "mimeType": one["mimeType"]} for uri, one in fixtures.RESOURCES.items()]
        return ListResourcesResult.model_validate({"resources": [*own.model_dump()["resources"], *more]})

    @override
    async def _list_templates(self, context: Context, params: object) -> ListResourceTemplatesResult:
        own = await super()._list_templates(context, params)
        more = {"uriTemplate": fixtures.TEMPLATE, "name": "template"}
        templates = [*own.model_dump(by_alias=True)["resourceTemplates"], more]
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": templates})

    @override
    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if (found := fixtures.resource(str(params.uri))) is not None:
            return ReadResourceResult.model_validate({"contents": [found]})
        return await super()._read_resource(context, params)

    async def _prompts(self, context: Context, params: object) -> HandlerResult:
        return {"resultType": "complete", "prompts": fixtures.PROMPTS, "ttlMs": 1000, "cacheScope": "private"}

    async def _prompt(self, context: Context, params: GetPromptRequestParams) -> HandlerResult:
        return fixtures.prompt(params.name, params.arguments or {}, cast("Json", context.params))

    async def _complete(self, context: Context, params: object) -> HandlerResult:
        return {"resultType": "complete", "completion": {"values": ["paris", "park", "party"], "hasMore": False}}


class ConformanceDoor(McpDoor):
    """The door of the product, behind which the fixtures stand too."""

    @override
    def make_server(self, state: ServerState) -> TeamServer:
        return ConformanceServer(state)


class Shown:
    """Shows a token with each request that has none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._header = app, (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request."""
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        await self._app(scope, receive, send)


def write_teams(folder: Path) -> Path:
    """Write the manifests of the suite's tasks."""
    for name in TEAMS:
        (folder / "teams" / name).mkdir(parents=True, exist_ok=True)
        (folder / "teams" / name / "team.yaml").write_text(manifest(name), encoding="utf-8")
    return folder / "teams"


async def serve(folder: Path, port: int, *, fixed: bool) -> None:
    """Serve until this process ends; prints the address once it listens."""
    teams, data = write_teams(folder), folder / "data"
    async with Engine(folder / "runs.sqlite") as engine, open_state(engine, [teams], data) as state:
        door = ConformanceDoor(state) if fixed else McpDoor(state)
        token = state.tokens.create(f"suite-{len(state.tokens.all())}", "run")
        app = Shown(make_app(state, LOOPBACK, door), token)
        listener = listen("127.0.0.1", port)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await FeedServer(server_config(app), state.feeds).serve([listener])


def is_fork() -> bool:
    """Fork for each line of the input, and print its process; returns whether this is one of them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            print(os.getpid(), flush=True)
            return True
    return False


def main() -> None:
    """Serve the application, or with `--plain` the product's own `/mcp` without the fixtures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--forks", action="store_true", help="serve in another process for each line of the input")
    asked = parser.parse_args()
    if asked.forks and not is_fork():
        return
    anyio.run(lambda: serve(asked.folder, asked.port, fixed=not asked.plain))


if __name__ == "__main__":
    main()
