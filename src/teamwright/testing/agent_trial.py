"""Observes an agent under test, and injects faults into its calls."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

from msgspec import structs

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.errors import Refused
from teamwright.testing.strategy_trial import TrialLog
from teamwright.values.turns.turn import Failure, Reply, Turn

INJECTED_ERROR = "an error that the conformance suite injects"
GRACE = 5.0
"""Seconds within which a cancelled agent has to end."""


class FaultInjector:
    """Lets the calls and asks of an agent pass, fail or hang."""

    def __init__(self, mode: Literal["pass", "fail", "hang"] = "pass") -> None:
        self.mode = mode
        self.injected = asyncio.Event()

    @property
    def has_injected(self) -> bool:
        """Whether a call or an ask failed or hung."""
        return self.injected.is_set()

    async def apply(self) -> None:
        """Raise, hang or return, as the mode says."""
        if self.mode == "pass":
            return
        self.injected.set()
        if self.mode == "fail":
            raise Refused(INJECTED_ERROR)
        await asyncio.get_running_loop().create_future()


class FaultyContext:
    """The context of a turn with faults injected into its effects and asks, which also records the calls made."""

    def __init__(self, inner: Context, faults: FaultInjector, calls: set[str]) -> None:
        self._inner, self._faults, self._calls = inner, faults, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def effect(self, key: str, effect: Effect) -> Returned:
        """Make the effect, unless a fault is injected."""
        await self._faults.apply()

        async def call(attempt: Attempt) -> Returned:
            self._calls.add(attempt.key)
            return await effect.call(attempt)

        return await self._inner.effect(key, structs.replace(effect, call=call))

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Ask the member, unless a fault is injected; an injected failure is a value."""
        try:
            await self._faults.apply()
        except Refused as error:
            return Failure(member=member.name, error=error.kind, message=str(error))
        return await self._inner.ask(member, turn, key=key)


class ObservedAgent(Agent):
    """Wraps the agent under test, and records its reply or error, its calls, and the tasks it leaks."""

    def __init__(self, agent: Agent, faults: FaultInjector | None = None) -> None:
        self.name, self.kind, self.policy = agent.name, agent.kind, agent.policy
        self.description = agent.description
        self.faults = faults or FaultInjector()
        self.reply: object = None
        self.error: Exception | None = None
        self.ended = self.cancelled = False
        self.leaked_tasks: tuple[str, ...] = ()
        self.calls: set[str] = set()
        self._agent = agent

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Run the agent's turn; if its calls hang, cancel it."""
        guarded = cast("Context", FaultyContext(ctx, self.faults, self.calls))
        before = asyncio.all_tasks()
        try:
            if self.faults.mode == "hang":
                await self._cancelled_turn(turn, guarded)
                return Reply.of(self.name, "cancelled")
            self.reply = reply = await self._agent.respond(turn, guarded)
            return reply
        except Exception as error:
            self.error = error
            raise
        finally:
            self.leaked_tasks = await _leaked_tasks(before)

    async def _cancelled_turn(self, turn: Turn, ctx: Context) -> None:
        turn_task = asyncio.ensure_future(self._agent.respond(turn, ctx))
        hanging = asyncio.ensure_future(self.faults.injected.wait())
        await asyncio.wait((turn_task, hanging), return_when=asyncio.FIRST_COMPLETED)
        hanging.cancel()
        turn_task.cancel()
        await asyncio.wait((turn_task, hanging), timeout=GRACE)
        self.ended, self.cancelled = turn_task.done(), turn_task.done() and turn_task.cancelled()
        if turn_task.done() and not turn_task.cancelled():
            turn_task.exception()  # retrieved, so that asyncio logs no warning

    def recorded_calls(self, log: TrialLog, number: int) -> set[str]:
        """The keys of its calls whose results are recorded up to this event."""
        return {event.key for event in log.events[:number] if event.kind == "agent.returned"} & self.calls


async def _leaked_tasks(before: set[asyncio.Task[Any]]) -> tuple[str, ...]:
    """The names of the tasks that were started since `before` and still run a few iterations later."""
    for _ in range(10):
        await asyncio.sleep(0)
    return tuple(sorted(task.get_name() for task in asyncio.all_tasks() - before if not task.done()))
