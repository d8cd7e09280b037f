"""A strategy as a third party would write it: several sides argue at the same time, then a judge decides."""

from functools import partial

from teamwright import Agent, Context, Failure, Reply, Turn
from teamwright.strategies import Outcome, Task, TeamConversation
from teamwright.strategies.protocol import Members, Settings, Strategy


class Debate(Strategy):
    """All members but the last argue for `max_turns` rounds; the last receives everything and decides."""

    name = "debate"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return [] if len(members) >= 3 else ["'debate' needs two sides and a judge"]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk, judge = TeamConversation(task), members[-1]
        for number in range(1, (task.settings.max_turns or 1) + 1):
            async with ctx.branches(limit=len(members)) as branches:
                turn = talk.turn(number)
                argue = [
                    branches.start(f"round-{number}-{side.name}", partial(_argue, side, turn)) for side in members[:-1]
                ]
            replies = [branch.result() for branch in argue]
            for reply in replies:
                if isinstance(reply, Failure):
                    return talk.failed(reply)
                talk.add(reply)
            if any(isinstance(reply, Reply) and reply.signal for reply in replies):
                return talk.ended("terminated")
        verdict = await ctx.ask(judge, talk.turn(1), key="verdict")
        if isinstance(verdict, Failure):
            return talk.failed(verdict)
        talk.add(verdict)
        return talk.ended("terminated" if verdict.signal else "done")


async def _argue(side: Agent, turn: Turn, ctx: Context) -> Reply | Failure:
    return await ctx.ask(side, turn, key="argue")
