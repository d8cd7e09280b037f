"""Fake members: they record the turns they receive, and answer as a test says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.teams.team import Team
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply, Turn

DefaultAnswer = Callable[[str, Turn], str]
"""The answer of a member that was given none, by its name and the turn."""


def done(name: str, turn: Turn) -> str:
    """Answer with the name of the member."""
    return f"{name} is done"


def numbered(name: str, turn: Turn) -> str:
    """Answer with the name of the member and the number of the turn."""
    return f"{name} {turn.number}"


@dataclass
class FakeMembers:
    """Makes members, records the turns they receive in call order, and counts how many are in flight at once."""

    default: DefaultAnswer = done
    received: list[tuple[str, Turn]] = field(default_factory=list[tuple[str, Turn]])
    in_flight: int = 0
    most_in_flight: int = 0

    def member(
        self, name: str, *answers: object, signal: Literal["terminate"] | None = None, **options: Any
    ) -> FunctionAgent:
        """Make a member that returns its answer, raises it if it is an exception, or calls it with the turn.

        Several answers, or a signal, become the messages of one reply.
        """

        async def respond(turn: Turn) -> object:
            self.received.append((name, turn))
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                await asyncio.sleep(0)  # lets members that were asked at once overlap
                if len(answers) > 1 or signal:
                    texts = answers or (self.default(name, turn),)
                    return Reply(messages=tuple(Message(name=name, content=str(one)) for one in texts), signal=signal)
                return await self._answer(name, turn, *answers)
            finally:
                self.in_flight -= 1

        return FunctionAgent(name, respond, **options)

    async def _answer(self, name: str, turn: Turn, answer: object = None) -> object:
        given = answer(turn) if callable(answer) else answer
        given = await given if inspect.isawaitable(given) else given
        if isinstance(given, Exception):
            raise given
        return self.default(name, turn) if given is None else given

    def members(self, names: str) -> list[FunctionAgent]:
        """Make a member for each name, with default answers."""
        return [self.member(name) for name in names.split()]

    def chain(self, length: int, name: str = "chain") -> Team:
        """Make a sequential team of members a1, a2, …"""
        return Team(name, members=[self.member(f"a{place}") for place in range(1, length + 1)])

    @property
    def calls(self) -> list[str]:
        """The names of the members that were called, in call order."""
        return [name for name, _ in self.received]

    @property
    def turns(self) -> list[Turn]:
        """The received turns by number, because concurrent members are called in any order."""
        return sorted((turn for _, turn in self.received), key=lambda turn: turn.number)

    def last_turn(self, name: str) -> Turn:
        """The last turn that this member received."""
        return next(turn for other, turn in reversed(self.received) if other == name)

    def any_received(self, text: str) -> bool:
        """Whether the text is in the prompt of any turn."""
        return any(text in turn.prompt for _, turn in self.received)
