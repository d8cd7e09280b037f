"""Small teams that the runtime's tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from teamwright import Context, FunctionAgent, Message, Outcome, Reply, Task, Team, Turn
from teamwright.strategies.protocol import Members, Settings


class Counting:
    """Agents that count how often they really were called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def agent(self, name: str, answer: str | Callable[[Turn], Awaitable[object]] | None = None) -> FunctionAgent:
        """An agent that says its name and what it was told, or what `answer` says."""

        async def respond(turn: Turn) -> object:
            self.calls.append(name)
            if callable(answer):
                return await answer(turn)
            return answer if answer is not None else f"{name} heard {len(turn.history)} and {turn.task!r}"

        return FunctionAgent(name, respond)

    def chain(self, length: int, name: str = "chain") -> Team:
        """A sequential team of agents a1, a2, …"""
        return Team(name, members=[self.agent(f"a{place}") for place in range(1, length + 1)])


class FirstWins:
    """Asks everybody at once and keeps whoever is first; the others are stopped."""

    name, version = "first_wins", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(len(members)) as branches:
            for member in members:

                async def ask(inner: Context, member: object = member) -> object:
                    return await inner.ask(member, Turn(task.text), key="ask")  # pyright: ignore[reportArgumentType]

                branches.start(member.name, ask)
            async for branch in branches.finished():
                reply = branch.result()
                if isinstance(reply, Reply):
                    branches.cancel()
                    return Outcome(messages=reply.messages)
        return Outcome(messages=())


class InOrderOfArrival:
    """Asks everybody twice, side by side, with a lock between; says who came in which order."""

    name, version = "in_order_of_arrival", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        lock = anyio.Lock()
        order: list[str] = []

        async def twice(inner: Context, member: object) -> None:
            for part in ("first", "second"):
                await inner.ask(member, Turn(task.text), key=part)  # pyright: ignore[reportArgumentType]
                async with lock:
                    order.append(f"{member.name}-{part}")  # pyright: ignore[reportAttributeAccessIssue]
                    await inner.ask(member, Turn(" ".join(order)), key=f"{part}-locked")  # pyright: ignore[reportArgumentType]

        async with ctx.branches(len(members)) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: twice(inner, member))
        text = " ".join(order)
        return Outcome(messages=(Message(name="order", content=text),))
