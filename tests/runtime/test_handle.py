"""The handle of a run: interactive runs wait for answers, all others pause."""

from __future__ import annotations

from teamwright import Context, Engine, Event, FunctionAgent, Turn
from teamwright.events import PersonAsked
from teamwright.people import Question


async def painter(turn: Turn, ctx: Context) -> str:
    return (await ctx.ask_person(Question(text="Which colour?"), key="colour")).text


def agent() -> FunctionAgent:
    return FunctionAgent("painter", painter)


async def test_a_run_pauses_by_default_when_only_an_answer_can_continue_it() -> None:
    async with Engine("memory") as engine:
        handle = await engine.start(agent(), "Paint.")
        assert (await handle.result()).status == "paused"


async def test_an_interactive_run_waits_for_its_answer() -> None:
    async with Engine("memory") as engine:
        handle = await engine.start(agent(), "Paint.")
        handle.set_interactive(True)
        async for item in engine.runs.follow(handle.run_id):
            if isinstance(item, Event) and isinstance(item.fact, PersonAsked):
                await engine.runs.answer(handle.run_id, item.key, "blue")
        assert (await handle.result()).output == "blue"


async def test_a_run_that_is_no_longer_interactive_pauses() -> None:
    async with Engine("memory") as engine:
        handle = await engine.start(agent(), "Paint.")
        handle.set_interactive(True)
        async for item in engine.runs.follow(handle.run_id):
            if isinstance(item, Event) and isinstance(item.fact, PersonAsked):
                handle.set_interactive(False)
        assert (await handle.result()).status == "paused"
