"""Small strategies for tests of the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.protocol import Members, Settings, Strategy, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn


class FunctionStrategy(Strategy):
    """A strategy that is one function of a test."""

    name, version = "written", 1

    def __init__(self, run: Callable[[Task, Members, Context], Awaitable[Outcome]]) -> None:
        self._run = run

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        return await self._run(task, members, ctx)


class InOrder(Strategy):
    """Asks each member once, in order, and declares no closing ask: nothing is kept back from its budget."""

    name, version = "in_order", 1

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        for number, member in enumerate(members, start=1):
            if ended := talk.receive(await ctx.ask(member, talk.turn(number), key=f"step-{number}")):
                return ended
        return talk.ended("done")


class FirstWins(Strategy):
    """Asks all members concurrently, returns the first reply and cancels the other asks."""

    name, version = "first_wins", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(len(members)) as branches:
            for member in members:

                async def ask(inner: Context, member: Agent = member) -> Reply | Failure:
                    return await inner.ask(member, Turn(task.text), key="ask")

                branches.start(member.name, ask)
            async for branch in branches.finished():
                reply = branch.result()
                if isinstance(reply, Reply):
                    branches.cancel()
                    return Outcome(messages=reply.messages)
        return Outcome(messages=())


class ArrivalOrder(Strategy):
    """Asks all members twice, concurrently and with a lock between; returns the order in which they arrived."""

    name, version = "in_order_of_arrival", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        lock = anyio.Lock()
        order: list[str] = []

        async def twice(inner: Context, member: Agent) -> None:
            for part in ("first", "second"):
                await inner.ask(member, Turn(task.text), key=part)
                async with lock:
                    order.append(f"{member.name}-{part}")
                    await inner.ask(member, Turn(" ".join(order)), key=f"{part}-locked")

        async with ctx.branches(len(members)) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: twice(inner, member))
        return Outcome(messages=(Message(name="order", content=" ".join(order)),))


def outcome(text: str) -> Outcome:
    """The outcome of a strategy with one message."""
    return Outcome(messages=(Message(name="strategy", content=text),))
