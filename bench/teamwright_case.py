"""Teamwright as its documentation shows it: a team of function agents, and an engine on its journal.

Members of the chain share the whole transcript, as teams do by default; a fan-out and a graph are the strategies of
these names. The SQLite journal is WAL at synchronous=FULL; the one in Postgres has a schema of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from bench.clock import now
from bench.workload import TASK, Database, Steps, check, texts
from teamwright import Engine, FunctionAgent, Team
from teamwright.values.turns.turn import Turn


class Teamwright:
    """The engine as a user starts it."""

    async def chain(self, turns: int, database: Database) -> float:
        replies = texts(turns)
        return await _run(Team("chain", members=_members(replies), strategy="sequential"), replies, database)

    async def fan_out(self, members: int, database: Database) -> float:
        replies = texts(members)
        options: dict[str, JsonValue] = {"chunks": list(range(members)), "max_parallel": members}
        team = Team("fan-out", members=_members(replies), strategy="fan_out", options=options)
        return await _run(team, replies, database)

    async def dag(self, steps: Steps, database: Database, delays: Mapping[str, float] | None = None) -> float:
        replies = dict(zip(steps, texts(len(steps)), strict=True))
        listed: list[JsonValue] = [{"id": step, "needs": list(needs)} for step, needs in steps.items()]
        members = [FunctionAgent(step, _says(text, (delays or {}).get(step, 0))) for step, text in replies.items()]
        options: dict[str, JsonValue] = {"steps": listed, "max_parallel": len(steps)}
        team = Team("graph", members=members, strategy="dag", options=options)
        return await _run(team, list(replies.values()), database, ordered=False)


def _members(replies: list[str]) -> list[FunctionAgent]:
    """Return one member per reply, each of which replies at once."""
    return [FunctionAgent(f"member-{index}", _says(reply)) for index, reply in enumerate(replies)]


def _says(reply: str, seconds: float = 0) -> Callable[[Turn], Awaitable[str]]:
    async def answer(turn: Turn) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return reply

    return answer


async def _run(team: Team, replies: list[str], database: Database, *, ordered: bool = True) -> float:
    async with Engine(journal=database or "memory") as engine:
        started = now()
        result = await engine.run(team, TASK)
        seconds = now() - started
    check([message.content for message in result.messages], replies, ordered=ordered)
    return seconds
