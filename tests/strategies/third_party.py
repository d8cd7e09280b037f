"""Strategies as third parties would write them: one with options of every sort, one that takes anything."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from teamwright.agents.agent import Context
from teamwright.strategies.protocol import Issue, Members, Settings, Strategy, Task
from teamwright.strategies.sequential import Sequential
from teamwright.values.specs.tools import AgentName, MemberName
from teamwright.values.turns.results import Outcome
from teamwright.values.value import Value


class Leg(Value):
    """From whom to whom the baton goes."""

    start: MemberName = Field(alias="from")
    to: MemberName
    metres: int = Field(default=100, ge=1, lt=1000)


class RelayOptions(Value):
    """Who runs with whom."""

    agent: AgentName | None = Field(default=None, description="who starts the race")
    legs: tuple[Leg, ...] = Field(description="the way of the baton")
    shirts: dict[MemberName, str] = Field(default={}, description="who wears what")
    coaches: tuple[AgentName, ...] = ()
    pace: Annotated[float, Field(multiple_of=0.5)] | None = None


class Relay(Strategy):
    """Runs in order, whatever the legs say."""

    name = "relay_race"
    version = 1
    options = RelayOptions
    share = "output"

    def problems(self, settings: Settings, members: Members) -> list[Issue | str]:
        """Some of what a strategy may object to."""
        found: list[Issue | str] = []
        options = settings.read(RelayOptions)
        for place, leg in enumerate(options.legs):
            if members.named(leg.start) is members.named(leg.to):
                found.append(Issue(f"{leg.to!r} hands the baton to itself", ("legs", place, "to")))
        if len({member.name for member in members}) < len(members):
            found.append("nobody runs twice")
        if settings.max_turns == 13:
            found.append("max_turns brings bad luck")
        if settings.share == "transcript":
            found.append("nobody but the next hears of the baton")
        starter = options.agent and members.named(options.agent)
        if starter and starter.kind != "model":
            found.append(f"{starter.name!r} is of the kind {starter.kind!r} and described as {_words(starter)!r}")
        return found

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run in order."""
        return await Sequential().run(task, members, ctx)


class Anything(Strategy):
    """Takes whatever it is given."""

    name = "anything"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        """Anything goes."""
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run in order."""
        return await Sequential().run(task, members, ctx)


def _words(agent: object) -> str:
    return getattr(agent, "description", "")
