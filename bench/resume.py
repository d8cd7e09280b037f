"""Measures the resume of a long run, from opening the database to the result.

`python -m bench.resume DATABASE STEPS` is the process that is resumed: it dies at once, like under `kill -9`, when the
member after the last recorded step is called. No step that was recorded may be called again.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.workload import TASK, WrongAnswer, check, texts
from teamwright import Engine, FunctionAgent, Team, Turn

RUN = "long-run"
DIED = 9


async def seconds(steps: int, folder: Path) -> float:
    """Let a process record `steps` steps and die, and time the resume in this one."""
    database = folder / "resumed.db"
    command = [sys.executable, "-m", "bench.resume", str(database), str(steps)]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    if died.returncode != DIED:
        raise WrongAnswer(f"the run was to be cut short, and ended with {died.returncode}: {died.stderr[-300:]}")
    called: list[int] = []
    team = _team(steps, called.append)
    async with Engine(journal=folder / "first.db") as engine:  # what an engine needs is imported at its first run
        await engine.run(_team(1, called.append), TASK)
    called.clear()
    started = time.perf_counter()
    async with Engine(journal=database) as engine:
        result = await engine.resume(RUN, team=team)
    elapsed = time.perf_counter() - started
    check([message.content for message in result.messages], texts(steps + 1))
    if called != [steps]:
        raise WrongAnswer(f"{len(called)} members were called after resuming, not only the one in flight")
    return elapsed


def _team(steps: int, on_call: Callable[[int], None]) -> Team:
    def member(index: int, reply: str) -> FunctionAgent:
        async def answer(turn: Turn) -> str:
            on_call(index)
            return reply

        return FunctionAgent(f"member-{index}", answer)

    return Team("long", members=[member(*pair) for pair in enumerate(texts(steps + 1))], strategy="sequential")


async def _record_and_die(database: Path, steps: int) -> None:
    def die_after(index: int) -> None:
        if index == steps:
            os._exit(DIED)

    async with Engine(journal=database) as engine:
        await engine.run(_team(steps, die_after), TASK, run_id=RUN)


if __name__ == "__main__":
    asyncio.run(_record_and_die(Path(sys.argv[1]), int(sys.argv[2])))
