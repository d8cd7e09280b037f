"""An agent on trial: a witness asks it in place of the engine, and a door stands between it and the world."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

from msgspec import structs

from teamwright.agents.context import AgentLike, Context
from teamwright.agents.contract import description_of, policy_of
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.protocol import Agent
from teamwright.errors import Refused
from teamwright.testing.strategy_trial import Log
from teamwright.values.turns import Failure, Reply, Turn

TROUBLE = "the trouble on trial"
GRACE = 5.0
"""Seconds within which a cancelled agent has to end."""


class Door:
    """What happens to the calls and asks of an agent: they are made, fail or hang."""

    def __init__(self, how: Literal["opens", "fails", "hangs"] = "opens") -> None:
        self.how = how
        self.reached = asyncio.Event()

    @property
    def used(self) -> bool:
        """Whether a call or an ask was kept from being made."""
        return self.reached.is_set()

    async def hold(self) -> None:
        """Fail or hang, unless it is open."""
        if self.how == "opens":
            return
        self.reached.set()
        if self.how == "fails":
            raise Refused(TROUBLE)
        await asyncio.get_running_loop().create_future()


class GuardedContext:
    """The context of a turn, with a door before its calls and asks. All else is as the engine gives it."""

    def __init__(self, inner: Context, door: Door, called: set[str]) -> None:
        self._inner, self._door, self._called = inner, door, called

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def effect(self, key: str, effect: Effect) -> Returned:
        """Touch the world once, if the door is open."""
        await self._door.hold()

        async def call(attempt: Attempt) -> Returned:
            self._called.add(attempt.key)
            return await effect.call(attempt)

        return await self._inner.effect(key, structs.replace(effect, call=call))

    async def ask(self, member: AgentLike, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn, if the door is open; a member that fails is a value."""
        try:
            await self._door.hold()
        except Refused as error:
            return Failure(member=member.name, error=error.kind, message=str(error))
        return await self._inner.ask(member, turn, key=key)


class Witness(Agent):
    """Stands where the agent on trial would, lets it take its turn, and keeps what came of that."""

    def __init__(self, agent: AgentLike, door: Door | None = None) -> None:
        self.name, self.kind, self.policy = agent.name, agent.kind, policy_of(agent)
        self.description = description_of(agent)
        self.door = door or Door()
        self.reply: object = None
        self.error: Exception | None = None
        self.ended = self.cancelled = False
        self.left_behind: tuple[str, ...] = ()
        self.called: set[str] = set()
        self._agent = agent

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Let the agent take the turn; one whose call hangs is cancelled."""
        guarded = cast("Context", GuardedContext(ctx, self.door, self.called))
        before = asyncio.all_tasks()
        try:
            if self.door.how == "hangs":
                await self._cancelled_turn(turn, guarded)
                return Reply.of(self.name, "cancelled")
            self.reply = reply = await self._agent.respond(turn, guarded)
            return reply
        except Exception as error:
            self.error = error
            raise
        finally:
            self.left_behind = await _left_behind(before)

    async def _cancelled_turn(self, turn: Turn, ctx: Context) -> None:
        turn_task = asyncio.ensure_future(self._agent.respond(turn, ctx))
        reached = asyncio.ensure_future(self.door.reached.wait())
        await asyncio.wait((turn_task, reached), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        turn_task.cancel()
        await asyncio.wait((turn_task, reached), timeout=GRACE)
        self.ended, self.cancelled = turn_task.done(), turn_task.done() and turn_task.cancelled()
        if turn_task.done() and not turn_task.cancelled():
            turn_task.exception()  # retrieved, so that asyncio logs no warning

    def recorded_calls(self, log: Log, number: int) -> set[str]:
        """The keys of its calls whose results are in the record up to this event."""
        return {event.key for event in log.events[:number] if event.kind == "agent.returned"} & self.called


async def _left_behind(before: set[asyncio.Task[Any]]) -> tuple[str, ...]:
    """The tasks that were started since then and still run a moment later."""
    for _ in range(10):
        await asyncio.sleep(0)
    return tuple(sorted(task.get_name() for task in asyncio.all_tasks() - before if not task.done()))
