"""A run whose tools pay orders at an endpoint that counts payments, driven in a child process that is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.request import Request, urlopen

from teamwright import run_sync
from teamwright.agents.agent import Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.tools.python import tool
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError
from teamwright.runtime.engine import Engine
from teamwright.values.turns.results import FINAL
from teamwright.values.turns.turn import Turn
from tests.kit.killing_journal import KillingJournal, When
from tests.laws.crash.driver import RUN_ID

ORDERS = ("a", "b", "a")
"""The orders that the member pays, all at once: the first and the last are the same action."""

FORKED = "forked"
"""The run of which the payments are a fork, if it exists."""


class Endpoint:
    """Counts the payments of each order."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.url = ""

    @contextmanager
    def served(self) -> Generator[None]:
        """Serve on loopback."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                order = self.rfile.read(size).decode()
                if len(order) < size:  # the client was killed while it sent the request
                    return
                endpoint.paid[order] += 1
                self._answer(f"paid {order}")

            def do_GET(self) -> None:
                order = self.path.removeprefix("/")
                self._answer(f"paid {order}" if endpoint.paid[order] else None)

            def _answer(self, value: str | None) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        # One request after the other, so that a check sees the payment of a process that was killed just before.
        class Server(HTTPServer):
            request_queue_size = 50

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore a client that was killed."""

        with Server(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


def payer(url: str, *, check: bool) -> FunctionAgent:
    """A member that pays the orders, and replies with the results."""

    def pay(order: str) -> str:
        """Pay an order."""
        with urlopen(Request(url, data=order.encode(), method="POST")) as response:
            return json.load(response)

    def find(order: str) -> str | None:
        with urlopen(f"{url}/{order}") as response:
            return json.load(response)

    toolbox = Toolbox([tool(pay, once=["order"], check=find if check else None)], owner="payer")

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:

            async def call(number: int, order: str) -> object:
                try:
                    return await tools.call_recorded("pay", {"order": order}, key=f"tool-{number}")
                except AgentError as error:
                    return str(error)

            return json.dumps(await asyncio.gather(*(call(number, order) for number, order in enumerate(ORDERS))))

    return FunctionAgent("payer", work)


@cache
def _play_once() -> None:
    endpoint = Endpoint()
    with endpoint.served():
        run_sync(payer(endpoint.url, check=True), "Pay.", journal="memory")


def warm_up(**_: object) -> None:
    """Make the slow imports of a run before the fork, so that a child is killed at its work."""
    _play_once()


async def delete_first_run(url: str, journal: str) -> None:
    """Record a run that paid, and a fork of it that did not; then delete the run."""

    def wait(turn: Turn) -> str:
        return "later"

    async with Engine(journal) as engine:
        await engine.run(payer(url, check=False), "Pay.", run_id="first")
        await engine.fork("first", at=2, team=FunctionAgent("payer", wait), new_id=FORKED)
        await engine.runs.delete("first")


def drive(
    url: str,
    journal: str,
    *,
    check: bool,
    write: int | None = None,
    when: When = "before",
    after: float | None = None,
) -> list[Any]:
    """Run or resume the payments, and die at a journal write or after some seconds; returns the results."""
    if after is not None:
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    return asyncio.run(_drive(payer(url, check=check), KillingJournal(journal, write, when)))


async def _drive(agent: FunctionAgent, journal: KillingJournal) -> list[Any]:
    async with Engine(journal) as engine:
        begun = await engine.journal.find(RUN_ID)
        if begun is None and await engine.journal.find(FORKED) is not None:
            result = await engine.fork(FORKED, at=2, team=agent, task="Pay anew.", new_id=RUN_ID)
        elif begun is None:
            result = await engine.run(agent, "Pay.", run_id=RUN_ID)
        elif (recorded := await engine.runs.result(RUN_ID)).status in FINAL:
            result = recorded
        else:
            result = await engine.resume(RUN_ID, team=agent)
    return json.loads(result.output or "[]")
