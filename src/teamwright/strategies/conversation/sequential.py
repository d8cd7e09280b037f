"""Asks each member once, in order."""

from __future__ import annotations

from teamwright.agents.contract.context import Context
from teamwright.strategies.diagram import Sketch, chain_arrows, places
from teamwright.strategies.protocol import Members, NoOptions, Outlook, Settings, Strategy, Task
from teamwright.strategies.talk import Talk
from teamwright.values.results import Outcome


class Sequential(Strategy):
    """A pipeline of members. A member may occur in it several times."""

    name = "sequential"
    version = 1
    options = NoOptions
    unused = ("max_turns", "on_max_turns")

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """Return the members in a line."""
        nodes = places(members)
        return Sketch(nodes=nodes, arrows=chain_arrows(nodes))

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """Return one ask for each member."""
        return {f"step-{number}": 0 for number in range(1, len(members) + 1)}

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask the members in order, until one fails or terminates."""
        talk = Talk(task, alone=len(members) == 1)
        for number, member in enumerate(members, start=1):
            reply = await ctx.ask(member, talk.turn(number), key=f"step-{number}")
            if ended := talk.receive(reply):
                return ended
        return talk.ended("done")
