"""A strategy that interprets a small program, so that tests use all of a context in any nesting.

A program is JSON: a list of a word and its arguments. The order of arrival is part of every later turn, so a replay in
another order is detected by the digest of the next turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import anyio

from teamwright.agents.agent import Agent, Context
from teamwright.errors import AgentTimeout, NotOwned, StaleWrite
from teamwright.strategies.protocol import Members, Settings, Strategy, Task
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.owned_paths import overlap
from teamwright.values.people import Question
from teamwright.values.turns.messages import Conversation, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Turn

Node = Sequence[Any]
Levels = tuple[tuple[str, ...], ...]
"""The owned keys of nested scopes, outermost first."""


def program_team(name: str, program: Node, members: Sequence[Agent], **more: Any) -> Team:
    """Make a team that interprets a program."""
    return Team(name, members=members, strategy=Program(), options={"program": cast("Any", program)}, **more)


def _conflict(one: Levels, other: Levels) -> bool:
    """Whether two owning scopes conflict: neither contains the other, and their keys overlap."""
    shared = min(len(one), len(other))
    if one[:shared] == other[:shared] and len(one) != len(other):
        return False
    return any(overlap(key, another) for key in one[-1] for another in other[-1])


class Program(Strategy):
    """Interprets the program in the team's options."""

    name = "program"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        program_run = ProgramRun(task, members)
        await program_run.do(cast("Node", task.settings.options["program"]), ctx, "p")
        said = program_run.said.since(0)
        return Outcome(messages=said)


class ProgramRun:
    """One run of a program: the conversation so far, and the state that its branches share."""

    def __init__(self, task: Task, members: Members) -> None:
        self._task = task
        self._members = {member.name: member for member in members}
        self._mutex = anyio.Lock()
        self._taken: set[str] = set()
        self._owned: list[Levels] = []
        self.said = Conversation()

    async def do(self, node: Node, ctx: Context, path: str) -> None:
        word, *arguments = node
        handler = cast("Callable[..., Awaitable[None]]", getattr(self, f"_{word}"))
        await handler(ctx, path, *arguments)

    def note(self, name: str, text: str) -> None:
        self.said.append(Message(name=name, content=text))

    async def _ask(self, ctx: Context, path: str, name: str) -> None:
        """Ask a member with the whole conversation so far as its history."""
        reply = await ctx.ask(self._members[name], Turn(self._task.text, self.said.history()), key=path)
        if isinstance(reply, Failure):
            self.note("program", f"{name} gave no answer")
        else:
            self.said.extend(reply.messages)

    async def _seq(self, ctx: Context, path: str, *nodes: Node) -> None:
        """Run nodes in sequence."""
        for index, node in enumerate(nodes):
            await self.do(node, ctx, f"{path}{index}")

    async def _all(self, ctx: Context, path: str, limit: int, *nodes: Node) -> None:
        """Run nodes concurrently and note the order in which they finish."""
        await self._side_by_side(ctx, path, limit, len(nodes), nodes)

    async def _race(self, ctx: Context, path: str, take: int, *nodes: Node) -> None:
        """Run nodes concurrently until `take` of them have finished, and cancel the rest."""
        await self._side_by_side(ctx, path, len(nodes), take, nodes)

    async def _side_by_side(self, ctx: Context, path: str, limit: int, take: int, nodes: Sequence[Node]) -> None:
        done: list[str] = []
        async with ctx.branches(limit) as branches:
            for index, node in enumerate(nodes):

                async def work(inner: Context, node: Node = node) -> None:
                    await self.do(node, inner, "p")

                branches.start(f"{path}b{index}", work)
            async for branch in branches.finished():
                branch.result()
                done.append(branch.name)
                if len(done) == take:
                    branches.cancel()
                    break
        self.note("program", f"{path}: {' '.join(done)}")

    async def _lock(self, ctx: Context, path: str, node: Node) -> None:
        """Run a node under a lock and note the owner."""
        async with self._mutex:
            self.note("program", f"{path} has the lock")
            await self.do(node, ctx, f"{path}l")

    async def _own(self, ctx: Context, path: str, keys: Sequence[str], priority: int, node: Node) -> None:
        """Run a node as owner of these keys, or without them where they can't be owned."""
        try:
            async with ctx.scope(f"{path}o", owns=keys, priority=priority) as inner:
                self.note("program", f"{path} owns {' '.join(keys)}")
                overlapping = [one for one in self._owned if _conflict(inner.owned.levels, one)]
                assert not overlapping, f"{inner.owned.levels} beside {overlapping}"
                self._owned.append(inner.owned.levels)
                try:
                    await self.do(node, inner, "p")
                finally:
                    self._owned.remove(inner.owned.levels)
        except NotOwned:
            self.note("program", f"{path} owns nothing more")
            await self.do(node, ctx, f"{path}n")

    async def _claim(self, ctx: Context, path: str, what: str) -> None:
        """Claim a name; only the first claim wins."""
        self.note("program", f"{path} {'lost' if what in self._taken else 'won'} {what}")
        self._taken.add(what)

    async def _swap(self, ctx: Context, path: str, name: str, node: Node) -> None:
        """Compare and set a shared value around a node; a stale write is noted and then made unconditionally."""
        held = ctx.workspace.get(name)
        await self.do(node, ctx, f"{path}s")
        try:
            version = await ctx.workspace.put(name, path, version=held.version if held else 0)
        except StaleWrite as stale:
            self.note("program", f"{path} was overtaken by version {stale.version}")
            version = await ctx.workspace.put(name, path)
        self.note("program", f"{path} wrote version {version}")

    async def _sleep(self, ctx: Context, path: str, seconds: float) -> None:
        await ctx.clock.sleep(seconds)
        self.note("program", f"{path} woke")

    async def _draw(self, ctx: Context, path: str) -> None:
        """Note a random number and an id."""
        self.note("program", f"{path} drew {ctx.clock.random():.6f} {ctx.clock.new_id()}")

    async def _person(self, ctx: Context, path: str, text: str) -> None:
        answer = await ctx.ask_person(Question(text=text), key=path)
        self.note("person", answer.text)

    async def _hurry(self, ctx: Context, path: str, seconds: float, node: Node) -> None:
        """Run a node with a deadline."""
        try:
            async with ctx.scope(f"{path}h", Limits(seconds=seconds)) as inner:
                await self.do(node, inner, "p")
        except AgentTimeout:
            self.note("program", f"{path} was late")

    async def _within(self, ctx: Context, path: str, limits: dict[str, int], node: Node) -> None:
        """Run a node with limits."""
        async with ctx.scope(f"{path}w", Limits.model_validate(limits)) as inner:
            await self.do(node, inner, "p")
