"""What a model agent does, while it does it: thinking, tool calls, and a structured answer that grows.

It prints:

    thinks   I need the tides first.
    calls    tide {'harbour': 'Bergen'}
    rejects  There is no tool 'tide' here; did you mean 'tides'?
    calls    tides {'harbour': 'Bergen'}
    gets     high at 06:12, low at 12:31
    draft    Quay
    draft    Quay, Lighthouse
    answer   Bergen: Quay at 06:30, Lighthouse at 09:00
"""

from collections.abc import AsyncIterator

import anyio
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from teamwright import Engine, Event, ModelAgent
from teamwright.events import AgentCalled, AgentCallRejected, AgentReturned, ThinkingDelta


class Stop(BaseModel):
    place: str
    time: str


class Trip(BaseModel):
    harbour: str
    stops: list[Stop] = []


PLAN = Trip(
    harbour="Bergen", stops=[Stop(place="Quay", time="06:30"), Stop(place="Lighthouse", time="09:00")]
).model_dump_json()


def tides(harbour: str) -> str:
    """Return the tides of a harbour.

    Args:
        harbour: The name of a town.
    """
    return {"Bergen": "high at 06:12, low at 12:31"}[harbour]


async def pilot(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
    """Stand in for a model: misspell the tool, correct the call, then answer in small pieces."""
    responses = sum(isinstance(message, ModelResponse) for message in messages)
    if responses < 2:
        if responses == 0:
            yield {0: DeltaThinkingPart(content="I need the tides first.")}
        yield {1: DeltaToolCall(name=("tide", "tides")[responses], json_args='{"harbour": "Bergen"}')}
        return
    yield {0: DeltaToolCall(name=info.output_tools[0].name, json_args="")}
    for start in range(0, len(PLAN), 12):
        await anyio.sleep(0.03)  # at the pace of a model
        yield {0: DeltaToolCall(json_args=PLAN[start : start + 12])}


# With a provider:  ModelAgent("pilot", model="openai:gpt-5-mini", tools=[tides], output_schema=Trip)
agent = ModelAgent("pilot", model=FunctionModel(stream_function=pilot), tools=[tides], output_schema=Trip)


async def show_work(engine: Engine, run_id: str) -> None:
    """Print what the agent thinks and which tools it calls."""
    async for item in engine.runs.follow(run_id, parts=True):
        if isinstance(item, ThinkingDelta):
            print("thinks  ", item.text)
        if not isinstance(item, Event):
            continue
        texts = await engine.texts(item)  # what the event refers to by hash
        match item.fact:
            case AgentCalled(effect="tool", name=name):
                print("calls   ", name, texts["arguments"])
            case AgentCallRejected(name=name, message=message):
                print("calls   ", name, texts["arguments"])
                print("rejects ", message)
            case AgentReturned() if "result" in texts:
                print("gets    ", texts["result"])
            case _:
                pass


async def show_answer(engine: Engine, run_id: str) -> None:
    """Print the answer whenever it has a further stop."""
    shown = 0
    async for part in engine.runs.follow_output(run_id, Trip):
        trip = part.value  # what has arrived, as far as it is valid
        if trip is not None and part.is_final:
            print(f"answer   {trip.harbour}:", ", ".join(f"{stop.place} at {stop.time}" for stop in trip.stops))
        elif trip is not None and len(trip.stops) > shown:
            shown = len(trip.stops)
            print("draft   ", ", ".join(stop.place for stop in trip.stops))


async def main() -> None:
    async with Engine("memory") as engine, anyio.create_task_group() as tasks:
        handle = await engine.start(agent, "Plan a day at the harbour of Bergen.")
        tasks.start_soon(show_work, engine, handle.run_id)
        tasks.start_soon(show_answer, engine, handle.run_id)
        await handle.result()


if __name__ == "__main__":
    anyio.run(main)
