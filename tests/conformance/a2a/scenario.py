"""A team for the compatibility kit of A2A: each message names a scenario of the kit, which this member plays."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright import Context, Message, Reply, Turn
from teamwright.people import Question

LARGE = 50_000
"""How often the content of a file is repeated that is larger than a task contains, so that its part is an address."""


async def answer(turn: Turn, ctx: Context) -> Reply:
    """Play the scenario that the first word of a task names."""
    word = turn.task.split(maxsplit=1)[0]
    data: JsonValue = None
    if word.startswith("tck-input-required"):
        said = await ctx.ask_person(Question(text="What else?"), key="ask-0")
        count = 0
        while "tck-complete-task" not in said.text and "complete" not in said.text.lower():
            count += 1
            said = await ctx.ask_person(Question(text="What else?"), key=f"ask-{count}")
    if word.startswith(("tck-artifact-file", "tck-stream-artifact-file")):
        content = "content" * (LARGE if "file-url" in word else 1)
        await ctx.workspace.keep(content, name="output.txt", media_type="text/plain")
        return Reply(messages=(Message(name="scenario", content=""),))
    if word.startswith("tck-artifact-data"):
        data = {"key": "value", "count": 42}
    if word.startswith(("tck-stream", "test-resubscribe")):
        await ctx.clock.sleep(0.3)
    text = "Generated text content" if "artifact" in word else "Hello from TCK"
    return Reply(messages=(Message(name="scenario", content=text),), data=data)
