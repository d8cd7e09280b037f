"""Runs in virtual time, which jumps to the next timer, and a provider that counts its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio

from teamwright import Context, Engine, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.testing.virtual_loop import VirtualLoop
from teamwright.values.events.event import Event
from teamwright.values.limits import Limits, Pace
from teamwright.values.retries import DEFAULT_RETRY, RetryPolicy
from teamwright.values.usage_and_prices import Usage
from tests.kit.strategies import FunctionStrategy, outcome

T = TypeVar("T")
SPENT = Usage(requests=1, input_tokens=10, output_tokens=10)
MINUTE = 60.0

Answering = Callable[[int], float | Exception]
"""The result of a call, by its number: the seconds that it takes, or an error."""


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end, and check that no task and no timer is left behind."""

    async def alone() -> T:
        made = await main()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        loop: Any = asyncio.get_running_loop()
        assert not [timer for timer in loop._scheduled if not timer.cancelled()]
        return made

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(alone())


def now() -> float:
    """The time of the running loop."""
    return asyncio.get_running_loop().time()


@dataclass
class Provider:
    """Answers calls, and records which were in flight when.

    `answer(number)` decides the result of the call with that number, counted from 1.
    """

    answer: Answering = lambda number: 1.0
    usage: Usage = SPENT
    fails_after: float = 0.0
    out: int = 0
    peak: int = 0
    began: list[float] = field(default_factory=list[float])
    cost: list[int] = field(default_factory=list[int])
    who: list[str] = field(default_factory=list[str])

    async def call(self, attempt: Attempt, own: Answering | None = None) -> Returned:
        """Answer a call, as `own` says for this attempt if it is given."""
        self.out += 1
        self.peak = max(self.peak, self.out)
        self.began.append(now())
        self.cost.append(0)
        number = len(self.cost)
        self.who.append(f"{attempt.run_id}:{attempt.key}")
        try:
            answer = own(attempt.number) if own else self.answer(number)
            await asyncio.sleep(self.fails_after if isinstance(answer, Exception) else answer)
            if isinstance(answer, Exception):
                raise answer
        finally:
            self.out -= 1
        self.cost[number - 1] = self.usage.total_tokens
        return Returned("fine", self.usage)


@dataclass
class Caller(Agent):
    """A member that makes `times` model requests."""

    name: str
    provider: Provider
    pace: Pace | None = None
    model: str = "m"
    times: int = 1
    cap: int | None = 100
    retry: RetryPolicy | None = None
    timeout: float | None = None
    own_limits: Limits | None = None
    own: Answering | None = None
    kind: str = "model"

    @property
    def policy(self) -> Policy:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Policy(limits=self.own_limits, retry=self.retry or DEFAULT_RETRY)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        effect = Effect(
            "model", self.model, "request", partial(self.provider.call, own=self.own), 84, 1, self.cap, self.retry,
            self.timeout, self.model, self.pace,
        )  # fmt: skip
        for number in range(self.times):
            await ctx.effect(f"request-{number}", effect)
        return Reply.of(self.name, "fine")


def most_in_a_minute(times: Sequence[float], weights: Sequence[int] | None = None) -> int:
    """The maximum within any sixty seconds, excluding calls that begin exactly sixty seconds later."""
    amounts = weights or [1] * len(times)
    return max(
        (
            sum(amount for time, amount in zip(times, amounts, strict=True) if start <= time < start + MINUTE)
            for start in times
        ),
        default=0,
    )


def side_by_side(name: str, members: Sequence[Agent], width: int = 1000) -> Team:
    """Make a team that asks all members concurrently."""

    async def run(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(width) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn(task.text), key="ask"))
            endings = [branch.result() async for branch in branches.finished()]
        return outcome(" ".join(type(ending).__name__ for ending in endings))

    return Team(name, members=members, strategy=FunctionStrategy(run))


async def run(team: Team, journal: MemoryJournal | None = None, run_id: str = "r") -> tuple[RunResult, list[Event]]:
    journal = journal or MemoryJournal()
    async with Engine(journal, wall=now) as engine:
        with anyio.fail_after(100_000):
            result = await engine.run(team, "go", run_id=run_id)
    return result, await journal.read(run_id)
