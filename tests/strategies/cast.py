"""Members for tests of work side by side: they remember what they were told, and answer when the test says so."""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.memory import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.results import RunResult
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn
from tests.kit.effects import yield_to_loop

TASK = "Bring the harbour into order."
RUN_ID = "r"
QUIET = 80
"""Turns of the event loop after which everything that one answer sets off has happened."""


@dataclass
class Cast:
    """Members, what they were told in the order they were asked, and how many were at work at once."""

    told: list[tuple[str, Turn]] = field(default_factory=list[tuple[str, Turn]])
    at_work: int = 0
    most_at_work: int = 0

    def member(self, name: str, answer: object = None, **more: Any) -> FunctionAgent:
        """A member that gives this answer, raises it, or calls it with the turn; else it says its name."""

        async def respond(turn: Turn) -> object:
            self.told.append((name, turn))
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            try:
                await asyncio.sleep(0)
                given = answer(turn) if callable(answer) else answer
                given = await given if inspect.isawaitable(given) else given
                if isinstance(given, Exception):
                    raise given
                return f"{name} is done" if given is None else given
            finally:
                self.at_work -= 1

        return FunctionAgent(name, respond, **more)

    def members(self, names: str) -> list[FunctionAgent]:
        return [self.member(name) for name in names.split()]

    @property
    def asked(self) -> list[str]:
        """Who was asked, in order."""
        return [name for name, _ in self.told]

    @property
    def turns(self) -> list[Turn]:
        """What was told, by the numbers of the turns: who is called first of several at once is chance."""
        return sorted((turn for _, turn in self.told), key=lambda turn: turn.number)

    def turn_of(self, name: str) -> Turn:
        """What this member was told, the last time."""
        return next(turn for other, turn in reversed(self.told) if other == name)

    def told_anybody(self, words: str) -> bool:
        return any(words in turn.prompt for _, turn in self.told)


async def run(team: Team, history: Sequence[Message] = ()) -> tuple[RunResult, list[Event]]:
    """What a run came to, and its events."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID, history=history)
    return result, list(await journal.read(RUN_ID))


def speakers(result: RunResult) -> list[str]:
    return [message.name for message in result.messages]


def contents(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages]


class VirtualTime:
    """Time that stands still while anything can happen, and jumps to the next who waits when nothing can."""

    def __init__(self) -> None:
        self.now = 0
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Event]] = []

    async def sleep(self, duration: int) -> None:
        """Wait until so much time has gone by."""
        rings = asyncio.Event()
        heapq.heappush(self._waiting, (self.now + duration, next(self._numbers), rings))
        await rings.wait()

    @contextmanager
    def passing(self) -> Generator[None]:
        """Let time go by while the block runs."""
        task = asyncio.ensure_future(self._pass())
        try:
            yield
        finally:
            task.cancel()

    async def _pass(self) -> None:
        while True:
            await yield_to_loop(QUIET)
            if self._waiting:
                self.now, _, rings = heapq.heappop(self._waiting)
                rings.set()


def after(time: VirtualTime, duration: int) -> Callable[[Turn], Any]:
    """An answer that takes so much virtual time."""

    async def answer(_: Turn) -> None:
        await time.sleep(duration)

    return answer
