"""All members in order, again and again."""

from __future__ import annotations

from itertools import count

from teamwright.agents.protocol import Context
from teamwright.strategies.outlook import Outlook
from teamwright.strategies.protocol import Members, NoOptions, Settings, Talk, Task
from teamwright.strategies.sketch import Arrow, Sketch, in_line, places
from teamwright.strategies.stopping import can_terminate, out_of_turns
from teamwright.values.results import Outcome


class RoundRobin:
    """Rounds of everybody, until somebody terminates or `max_turns` full rounds are over."""

    name = "round_robin"
    version = 1
    options = NoOptions

    def problems(self, settings: Settings, members: Members) -> list[str]:
        """Without a bound, somebody must be able to end it; and everybody stands in a round once."""
        found: list[str] = []
        if settings.max_turns is None and not any(map(can_terminate, members)):
            found.append("'round_robin' needs max_turns, unless a member has the 'terminate' tool")
        if len({member.name for member in members}) < len(members):
            found.append("'round_robin' takes each member once a round, but one is listed twice")
        return found

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """A line that leads back to its beginning."""
        nodes = places(members)
        again = Arrow(source=nodes[-1].id, to=nodes[0].id, label="the next round")
        return Sketch(nodes=nodes, arrows=(*in_line(nodes), again))

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """As many rounds as there may be."""
        rounds = range(1, (settings.max_turns or 0) + 1)
        return {f"round-{round_}/{member.name}": 0 for round_ in rounds for member in members}

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Go round; the warning at the end names the limit that was reached."""
        talk = Talk(task)
        limit = task.settings.max_turns
        for number in count():
            round_, place = divmod(number, len(members))
            if limit is not None and round_ == limit:
                return out_of_turns(talk, task.settings, f"{limit} rounds")
            member = members[place]
            reply = await ctx.ask(member, talk.turn(number + 1), key=f"round-{round_ + 1}/{member.name}")
            if ended := talk.take(reply):
                return ended
        raise AssertionError("counting never ends")
