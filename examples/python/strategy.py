"""A custom strategy: members answer in turn until one of them is sure.

It prints:

    junior: Perhaps it is a finch.
    senior: It is a brambling: look at the white rump.
"""

from teamwright import Context, Failure, Rule, ScriptedAgent, Strategy, Team, run_sync
from teamwright.strategies import Members, Outcome, Settings, Task, TeamConversation


class UntilSure(Strategy):
    """Asks the members in order and stops at the first answer that is not a guess."""

    name = "until_sure"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        """Return the problems of a configuration, before anything runs."""
        return [] if len(members) > 1 else ["'until_sure' needs at least two members"]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask one member after the other; a resumed run repeats no recorded ask."""
        talk = TeamConversation(task)
        for number, member in enumerate(members, 1):
            reply = await ctx.ask(member, talk.turn(number), key=f"step-{number}")
            if isinstance(reply, Failure):
                return talk.failed(reply)
            talk.add(reply)
            if reply.signal == "terminate" or "perhaps" not in reply.text.lower():
                break
        return talk.ended("done")


# With a provider:  ModelAgent("junior", model="openai:gpt-5-nano"), ModelAgent("senior", model="openai:gpt-5") …
members = [
    ScriptedAgent("junior", [Rule(reply="Perhaps it is a finch.")]),
    ScriptedAgent("senior", [Rule(reply="It is a brambling: look at the white rump.")]),
    ScriptedAgent("professor", [Rule(reply="Fringilla montifringilla.")]),
]

if __name__ == "__main__":
    result = run_sync(Team("birds", members=members, strategy=UntilSure()), "Which bird is it?", journal="memory")
    for message in result.messages:
        print(f"{message.name}: {message.content}")
