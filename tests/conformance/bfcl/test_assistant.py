"""The assistant that makes the expected calls of BFCL's tasks, with an environment in place of BFCL's."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from teamwright import Engine
from teamwright.testing.model_server import ModelServer
from tests.conformance.bfcl.assistant import Drive, Tasks


class Environment:
    """Takes the calls of a task as the service of BFCL's environments does."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    @contextmanager
    def served(self) -> Generator[str]:
        environment = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                environment.calls.append(asked)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(f"{asked['name']} is done").encode())

            def log_message(self, format: str, *args: object) -> None: ...

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


async def test_the_expected_calls_of_a_task_are_made_with_the_tools_of_each_turn_under_their_keys(
    tmp_path: Path,
) -> None:
    tool = {"description": "It does it.", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    made = [[{"name": "ls", "args": {"x": 1}}, {"name": "ls", "args": {"x": 1}}], [{"name": "wc", "args": {"x": 2}}]]
    turns = [
        {"task": "List it twice.", "tools": ["ls"], "calls": made[0]},
        {"task": "Count.", "tools": ["ls"], "calls": []},
        {"task": "You may now.", "tools": ["ls", "wc"], "calls": made[1]},
    ]
    tasks, environment = Tasks({"ls": tool, "wc": tool}, {"task_1": turns}), Environment()
    with ModelServer(tasks.answer) as model, environment.served() as url:
        for world in ("one", "other"):
            async with Engine(str(tmp_path / "journal.db")) as engine:
                drive = Drive(tasks, model.url, url)
                await drive.run(engine, "task_1", world)
                await drive.run(engine, "task_1", world)
                recorded = await drive.calls(engine, "task_1", world)
    offered = [one.tools for one in model.requests if one.messages[-1].role != "tool"]
    assert offered == [("ls",), ("ls",), ("ls", "wc")] * 2
    called = [{"name": one["name"], "args": one["args"]} for one in environment.calls]
    assert called == (made[0] + made[1]) * 2
    assert len({one["key"] for one in environment.calls}) == len(called)
    assert recorded == [
        [{**one, "result": f"{one['name']} is done"} for one in turn] for turn in (made[0], [], made[1])
    ]
