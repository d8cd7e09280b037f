"""The events and text of a run, as a stream.

It prints:

    sequential of poet counter
      text 'The t'
      text 'ide c'
      text 'omes '
      text 'in li'
      text 'ke a '
      text 'slow '
      text 'guest'
      text '.'
      evening/step-1 took 12 tokens
      evening/step-2 took 0 tokens
      evening took 12 tokens
    completed
"""

import anyio

from teamwright import Engine, FunctionAgent, Rule, ScriptedAgent, Team, Turn
from teamwright.events import AgentReplied, Delta, RunEnded, TeamStarted


def count(turn: Turn) -> str:
    """Count the words of the previous message."""
    return f"{len(turn.history[-1].content.split())} words"


# With a provider:  ModelAgent("poet", model="openai:gpt-5-mini", instructions="Write one line.")
poet = ScriptedAgent("poet", [Rule(reply="The tide comes in like a slow guest.", delay=0.1)])
evening = Team("evening", members=[poet, FunctionAgent("counter", count)])


async def main() -> None:
    async with Engine("memory") as engine:
        async for item in engine.stream(evening, "On tides."):
            if isinstance(item, Delta):  # a piece of a reply that is still being written
                print(f"  text {item.text!r}")
                continue
            match item.fact:  # an event that is already durable
                case TeamStarted(strategy=strategy, members=members):
                    print(strategy, "of", *members)
                case AgentReplied(usage=usage):
                    print(f"  {item.key} took {usage.total_tokens} tokens")
                case RunEnded(status=status):
                    print(status)
                case _:
                    pass


if __name__ == "__main__":
    anyio.run(main)
