"""Members of the runs of `bench.cluster`, and a process that drives many runs: `python -m bench.cluster_members`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from bench.workload import TASK, texts
from teamwright import Engine, FunctionAgent, Team
from teamwright.values.turns.turn import Turn

TURNS, SECONDS = 5, 0.2
"""The turns of a run that waits, and how long each takes."""
REPLIES = texts(200)


async def answer(turn: Turn) -> str:
    """Answer at once."""
    return REPLIES[0]


async def wait(turn: Turn) -> str:
    """Answer after a while, as a model does."""
    await asyncio.sleep(SECONDS)
    return f"{turn.task}: {REPLIES[0]}"


async def drive(url: str, runs: int, turns: int) -> None:
    """Drive runs of this many turns at once, when told on the input; print the CPU time that it took."""
    members = [FunctionAgent(f"member-{index}", _says(text)) for index, text in enumerate(REPLIES[:turns])]
    team = Team("chain", members=members, strategy="sequential")
    loop = asyncio.get_running_loop()
    async with Engine(url) as engine:
        await engine.run(team, TASK)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        started = time.process_time()
        await asyncio.gather(*(engine.run(team, f"{TASK} {number}") for number in range(runs)))
        print(time.process_time() - started, flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)


def _says(reply: str) -> Callable[[Turn], Awaitable[str]]:
    async def say(turn: Turn) -> str:
        return f"{turn.task} {reply}"

    return say


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
