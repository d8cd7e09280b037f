"""Small teams that the runtime's tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from msgspec.structs import replace

from teamwright import Context, Engine, FunctionAgent, Message, Reply, RunResult, Team, Turn
from teamwright.agents.protocol import Agent
from teamwright.journal.memory import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members, Settings
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.turns.turn import Failure


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

                async def ask(inner: Context, member: Agent = member) -> Reply | Failure:
                    return await inner.ask(member, Turn(task.text), key="ask")

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

        async def twice(inner: Context, member: Agent) -> None:
            for part in ("first", "second"):
                await inner.ask(member, Turn(task.text), key=part)
                async with lock:
                    order.append(f"{member.name}-{part}")
                    await inner.ask(member, Turn(" ".join(order)), key=f"{part}-locked")

        async with ctx.branches(len(members)) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: twice(inner, member))
        text = " ".join(order)
        return Outcome(messages=(Message(name="order", content=text),))


class Written:
    """A strategy that is one function, written out in a test."""

    name, version = "written", 1

    def __init__(self, run: Callable[[Task, Members, Context], Awaitable[Outcome]]) -> None:
        self._run = run

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        return await self._run(task, members, ctx)


def says(text: str) -> Outcome:
    """The outcome of a strategy that says this."""
    return Outcome(messages=(Message(name="strategy", content=text),))


async def cut(journal: MemoryJournal, at: int, run_id: str = "r") -> MemoryJournal:
    """A journal of its own with the first `at` events of a run, and its whole inbox: what a crash leaves."""
    copy = MemoryJournal()
    events = (await journal.read(run_id))[:at]
    copy.append(Batch(events, await journal.bodies(list(journal._bodies))), lambda error: None)
    for item in await journal.inbox(run_id):
        await copy.send(run_id, item.intervention)
    return copy


async def begun_as(journal: MemoryJournal, format: int, *, at: int | None = None, run_id: str = "r") -> MemoryJournal:
    """A journal of its own with the first `at` events of a run, as a version that records this format began it."""
    copy = await cut(journal, at or len(await journal.read(run_id)), run_id)
    first, *rest = await copy.read(run_id)
    assert isinstance(first.fact, RunStarted)
    older = MemoryJournal()
    events = [replace(first, fact=first.fact.changed(format=format)), *rest]
    older.append(Batch(events, await journal.bodies(list(journal._bodies))), lambda error: None)
    return older


async def cut_and_resume(
    team: Agent, at: int, journal: MemoryJournal, run_id: str = "r"
) -> tuple[RunResult, list[str]]:
    """Resume a run from the first `at` events of its record; returns its result and the kinds of all its events."""
    copy = await cut(journal, at, run_id)
    async with Engine(copy) as engine:
        with anyio.fail_after(10):
            result = await engine.resume(run_id, team=team)
        return result, [event.kind for event in await copy.read(run_id)]


async def until_asked(engine: Engine, run_id: str = "r") -> str:
    """Wait until a live run asks a person, and return the key of the question."""
    async for item in engine.runs.follow(run_id):
        if isinstance(item, Event) and item.kind == "person.asked":
            return item.key
    raise AssertionError("nobody was asked")


def answers(task: str) -> str:
    """A member that a manifest can name."""
    return "answered"
