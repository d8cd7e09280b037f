"""A budget that stops a run, and a run that is interrupted and resumed.

It prints:

    degraded budget ['Danish', 'Welsh']
    interrupted ['Danish']
    completed ['Danish', 'Greek', 'Welsh']
"""

import anyio

from teamwright import Engine, Event, FunctionAgent, Limits, Team
from teamwright.events import AgentAsked

finished: list[str] = []
slow: set[str] = set()


def translator(language: str) -> FunctionAgent:
    """Return a member that translates, and records when it has finished."""

    async def translate(task: str) -> str:
        await anyio.sleep(60 if language in slow else 0)
        finished.append(language)
        return f"{task} in {language}"

    return FunctionAgent(language, translate)


languages = Team("languages", members=[translator(name) for name in ("Danish", "Greek", "Welsh")], share="output")


async def stop_at_budget(engine: Engine) -> None:
    """Run with a limit of two calls where three are needed: one is kept for the last member, which closes the run."""
    result = await engine.run(languages, "Good morning", limits=Limits(calls=2))
    print(result.status, result.stop_reason, [message.name for message in result.messages])


async def interrupt_and_resume(engine: Engine) -> None:
    """Interrupt a run while its second member works; on resume the first is not called again."""
    finished.clear()
    slow.add("Greek")
    handle = await engine.start(languages, "Good evening", run_id="evening")
    async for item in engine.runs.follow("evening"):
        if isinstance(item, Event) and isinstance(item.fact, AgentAsked) and item.fact.member == "Greek":
            handle.interrupt()
    print((await handle.result()).status, finished)
    slow.clear()
    result = await engine.resume("evening", team=languages)
    print(result.status, finished)


async def main() -> None:
    async with Engine("journal.db") as engine:
        await stop_at_budget(engine)
        await interrupt_and_resume(engine)


if __name__ == "__main__":
    anyio.run(main)
