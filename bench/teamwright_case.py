"""Teamwright as its documentation shows it: a team of function agents, and an engine on a memory or a SQLite journal.

Members of the chain share the whole transcript, as teams do by default. The SQLite journal is WAL at synchronous=FULL.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.workload import TASK, check, texts
from teamwright import Engine, FunctionAgent, Team
from teamwright.agents.protocol import Agent, Context
from teamwright.strategies.protocol import Members, Settings, Task
from teamwright.values.messages import Message
from teamwright.values.results import Outcome
from teamwright.values.turns import Failure, Reply, Turn


class FanOut:
    """Asks every member the same thing side by side, and gathers what they say in their order."""

    name = "bench_fan_out"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        turn = Turn(task.text, task.history)
        async with ctx.branches(limit=len(members)) as branches:
            started = [branches.start(member.name, _asked(member, turn)) for member in members]
        messages: list[Message] = []
        for branch in started:
            reply = branch.result()
            if isinstance(reply, Failure):
                return Outcome(stop_reason="error", messages=tuple(messages), failure=reply)
            messages += reply.messages
        return Outcome(messages=tuple(messages))


def _asked(member: Agent, turn: Turn) -> Callable[[Context], Awaitable[Reply | Failure]]:
    async def ask(ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, turn, key="ask")

    return ask


class Teamwright:
    """The engine as a user starts it."""

    async def chain(self, turns: int, database: Path | None) -> float:
        replies = texts(turns)
        return await _run(Team("chain", members=_members(replies), strategy="sequential"), replies, database)

    async def fan_out(self, members: int, database: Path | None) -> float:
        replies = texts(members)
        return await _run(Team("fan-out", members=_members(replies), strategy=FanOut()), replies, database)


def _members(replies: list[str]) -> list[FunctionAgent]:
    """One member per reply, which it gives at once."""

    def says(reply: str) -> Callable[[Turn], Awaitable[str]]:
        async def answer(turn: Turn) -> str:
            return reply

        return answer

    return [FunctionAgent(f"member-{index}", says(reply)) for index, reply in enumerate(replies)]


async def _run(team: Team, replies: list[str], database: Path | None) -> float:
    async with Engine(journal=database or "memory") as engine:
        started = time.perf_counter()
        result = await engine.run(team, TASK)
        seconds = time.perf_counter() - started
    check([message.content for message in result.messages], replies)
    return seconds
