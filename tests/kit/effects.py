"""Members whose effects return in an order that a test decides."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import Refused
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage

ORDER_TIMEOUT = 0.2
PATIENCE = 30.0
GAP = 60


@dataclass
class ReturnSchedule:
    """Decides when each effect returns: after a number of event loop iterations, taken from `delays` in turn.

    With `order` effects return in the order of an earlier run; an effect that did not return there never returns. With
    `spaced` two effects never return so close together that the length of a loop iteration matters.
    """

    delays: Sequence[int] = (0,)
    spaced: bool = False
    order: Sequence[str] | None = None
    recorded: frozenset[str] = frozenset()
    called: list[str] = field(default_factory=list[str])
    prompts: list[str] = field(default_factory=list[str])
    _returned: set[str] = field(default_factory=set[str])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _gap: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, value: str, usage: Usage, attempt: Attempt) -> Returned:
        """Record the call of an effect, and return its value when it is due."""
        effect = attempt.idempotency_key
        self.called.append(effect)
        try:
            if self.order is None:
                await yield_to_loop(self.delays[len(self.called) % len(self.delays)])
            else:
                await self._wait_for_predecessors(effect)
            if self.spaced:
                async with self._gap:
                    await yield_to_loop(GAP)
        finally:
            self._returned.add(effect)
            self._changed.set()
        return Returned(value, usage)

    async def _wait_for_predecessors(self, effect: str) -> None:
        assert self.order is not None
        if effect not in self.order:
            await asyncio.get_running_loop().create_future()
        before = set(self.order[: self.order.index(effect)]) - self.recorded
        with anyio.move_on_after(ORDER_TIMEOUT):
            while not before <= self._returned:
                self._changed.clear()
                await self._changed.wait()


def effect_member(
    name: str, schedule: ReturnSchedule, effects: int = 1, error: str | None = None, **options: Any
) -> FunctionAgent:
    """Make a member that calls some effects and answers with the digest of its turn, or fails with the given error."""

    async def respond(turn: Turn, ctx: Context) -> str:
        schedule.prompts.append(turn.prompt)
        for number in range(1, effects + 1):
            usage = Usage(requests=1, input_tokens=len(name), output_tokens=number)
            call = partial(schedule.call, f"{name} {number}", usage)
            await ctx.effect(f"e{number}", Effect("model", "effects", digest(turn.prompt, str(number)), call))
        if error is not None:
            raise Refused(error)
        return f"{name} heard {turn.digest[:8]}"

    return FunctionAgent(name, respond, **options)


async def yield_to_loop(count: int) -> None:
    """Let the event loop make this many iterations."""
    for _ in range(count):
        await asyncio.sleep(0)


async def wait_until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Poll until a condition holds; fail after half a minute, since others may use the machine."""
    end = time.monotonic() + PATIENCE
    while not await happened():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.005)


async def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that is only to be collected has."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return Path("/proc/self").exists()
