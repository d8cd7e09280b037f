"""A strategy as a third party would write it: two sides argue, then a judge decides."""

from teamwright import Context, Failure, Outcome, Talk, Task
from teamwright.strategies.protocol import Members, Settings


class Debate:
    """Everyone but the last speaks side by side, for `max_turns` rounds; the last one has heard it all and decides."""

    name = "debate"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return [] if len(members) >= 3 else ["a debate needs two sides and a judge"]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = Talk(task)
        *sides, judge = members
        for number in range(1, (task.settings.max_turns or 1) + 1):
            turn = talk.turn(number)
            async with ctx.branches(limit=len(sides)) as branches:
                started = [
                    branches.start(
                        f"round-{number}-{side.name}", lambda inner, side=side: inner.ask(side, turn, key="argue")
                    )
                    for side in sides
                ]
            for branch in started:
                reply = branch.result()
                if isinstance(reply, Failure):
                    return talk.failed(reply)
                talk.add(reply)
            if any(reply.signal == "terminate" for reply in map(_reply, started)):
                return talk.ended("terminated")
        verdict = await ctx.ask(judge, talk.turn(1), key="decide")
        if isinstance(verdict, Failure):
            return talk.failed(verdict)
        talk.add(verdict)
        return talk.ended("terminated" if verdict.signal == "terminate" else "done")


def _reply(branch):
    return branch.result()
