"""The serving processes of `bench.server`: ours over a journal on disk, and a bare uvicorn that echoes."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from teamwright import Engine, FunctionAgent, Team
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.run_request import RunRequest
from teamwright.server.app import FeedServer, listen, make_app, server_config
from teamwright.server.frames import RecentBodies
from teamwright.server.state import open_state
from teamwright.values.events.event import AnyDelta, Event

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
TURNS = 100_000
TEXT = "The harbour wall was looked at, stone by stone, and two of forty are loose. " * 4


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def answer_commands(answer: Answer) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(await answer(json.loads(line)))


class Work:
    """Turns that wait: all members of all runs take their turn after the pause of the present step."""

    def __init__(self) -> None:
        self.pause: float | None = None
        self.changed = asyncio.Event()
        self._draw = random.Random(17)

    async def turn(self, text: str) -> str:
        while self.pause is None:
            await self.changed.wait()
        await asyncio.sleep(self.pause * self._draw.uniform(0.5, 1.5))  # else all runs would speak at once
        return TEXT

    def set(self, pause: float | None) -> None:
        self.pause = pause
        self.changed.set() if pause is not None else self.changed.clear()


def new_team(work: Work) -> Team:
    members = [FunctionAgent(f"m{place}", work.turn) for place in range(3)]
    return Team("bench", members=members, strategy="round_robin", max_turns=TURNS, share="output")


async def serve() -> None:
    listener = listen("127.0.0.1", 0)
    work, commits = Work(), []

    def committed(item: Event | AnyDelta) -> None:
        if isinstance(item, Event):
            commits.append((item.run_id, item.number, time.time()))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            Engine(RecentBodies(SqliteJournal(folder / "journal.db"))) as engine,
            open_state(engine, [], folder) as state,
        ):
            server = FeedServer(server_config(make_app(state)), state.feeds)
            task = asyncio.create_task(server.serve([listener]))
            numbers: dict[str, int] = {}

            async def answer(command: dict[str, Any]) -> dict[str, Any]:
                match command["do"]:
                    case "start":
                        for number in range(command["runs"]):
                            asked = RunRequest(new_team(work), "Look at the wall.", run_id=f"run-{number}")
                            await state.driven.start(asked)
                            numbers[f"run-{number}"] = 0
                        return {"ids": list(numbers)}
                    case "work":
                        commits.clear()
                        before = cpu()
                        work.set(command["pause"])
                        await asyncio.sleep(command["seconds"])
                        work.set(None)
                        used = cpu() - before
                        await asyncio.sleep(command["pause"] * 1.5 + 0.5)
                        return {"cpu": used, "commits": list(commits)}
                    case "numbers":
                        for run_id in numbers:
                            numbers[run_id] = len(await engine.journal.read(run_id))
                        return {"numbers": numbers}
                    case _:
                        return {"cpu": cpu(), "rss": rss()}

            with engine.bus.listening(committed):
                say({"port": listener.getsockname()[1], "token": state.tokens.create("bench", "read")})
                await answer_commands(answer)
            server.should_exit = True
            await task


async def echo_app(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def echo() -> None:
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(server_config(echo_app))
    task = asyncio.create_task(server.serve([listener]))
    say({"port": listener.getsockname()[1]})

    async def answer(command: dict[str, Any]) -> dict[str, Any]:
        return {"cpu": cpu(), "rss": rss()}

    await answer_commands(answer)
    server.should_exit = True
    await task


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1] == "serve" else echo())
