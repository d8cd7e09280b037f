"""A team that stood in for its own member, which an earlier version let it do: `standing_in.json` is its record."""

from __future__ import annotations

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import Refused
from teamwright.teams.team import Team
from teamwright.values.limits.retry import Recovery
from teamwright.values.turns.turn import Turn


def standing_in(refusals: int, called: list[str]) -> Team:
    """A team whose `rescue` stands in for all members, its own included; one of these refuses so often at first."""
    left = [refusals]

    def member(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            called.append(name)
            if name == "flaky" and left[0] > 0:
                left[0] -= 1
                raise Refused("not the first time")
            return f"{name} has an opinion"

        return FunctionAgent(name, respond)

    rescue = Team("rescue", members=[member("flaky"), member("steady")])
    return Team("root", members=[rescue, member("last")], recovery=Recovery(fallback="rescue"))
