"""Turns of a model agent beside other clients and frameworks: CPU time per request to a server that answers at once.

Each contender has the same instructions of 2 KB and the same two tools, and takes the answer as text. Whole means one
body; otherwise the answer is streamed in chunks, and each piece of text is taken. Frameworks are used as their
documentation shows: an agent with tools. Every client keeps its connections.
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from bench.cases import Case
from bench.instant_server import ANSWER
from bench.workload import WrongAnswer

INSTRUCTIONS = "You are a baker who answers questions about bread, briefly and with care for detail. " * 24
QUESTION = "How does sourdough rise?"
WARM_UP = 10
AT_ONCE = 200

Ask = Callable[[], Awaitable[str]]


def look_up(word: str, language: str = "en") -> str:
    """Look a word up in the dictionary of a language."""
    return f"{word} ({language})"


def convert(amount: float, unit: str, to: str) -> float:
    """Convert an amount from one unit to another."""
    return amount


async def microseconds(case: Case, folder: Path) -> float:
    """Return the CPU time of one request in microseconds."""
    subject, size, chunks, at_once = case.subject, case.size, case.chunks, case.shape == "fan_out"
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(_server())
        if subject == "teamwright":
            return await _teamwright(url, size, chunks, at_once, folder / "runs.db" if case.store == "sqlite" else None)
        ask = await CONTENDERS[subject](url, chunks, stack)
        for _ in range(WARM_UP):
            _check(await ask())
        gc.collect()
        started = time.process_time()
        answers = await asyncio.gather(*(ask() for _ in range(size))) if at_once else [await ask() for _ in range(size)]
        spent = time.process_time() - started
        for one in answers:
            _check(one)
        return spent / size * 1e6


def _check(answer: str) -> None:
    if answer.strip() != ANSWER.strip():
        raise WrongAnswer(f"another answer came: {answer[:80]!r}")


@asynccontextmanager
async def _server() -> AsyncGenerator[str]:
    process = subprocess.Popen([sys.executable, "-m", "bench.instant_server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


def _model(chunks: int) -> str:
    return f"chunks-{chunks}" if chunks else "whole"


def _tools() -> list[Any]:
    from pydantic import TypeAdapter

    return [
        {
            "type": "function",
            "function": {
                "name": tool.__name__,
                "description": tool.__doc__,
                "parameters": TypeAdapter(tool).json_schema(),
            },
        }
        for tool in cast("tuple[Any, ...]", (look_up, convert))
    ]


def _messages() -> list[Any]:
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": QUESTION}]


async def _httpx(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    import json

    import httpx

    client = await stack.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=AT_ONCE)))
    body = {"model": _model(chunks), "messages": _messages(), "tools": _tools(), "stream": bool(chunks)}

    async def ask() -> str:
        if not chunks:
            response = await client.post(f"{url}/chat/completions", json=body)
            return str(response.json()["choices"][0]["message"]["content"])
        pieces: list[str] = []
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    pieces.append(choices[0]["delta"].get("content") or "" if choices else "")
        return "".join(pieces)

    return ask


async def _openai(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    client, tools, messages = await _openai_client(url, stack), _tools(), _messages()

    async def ask() -> str:
        if not chunks:
            response = await client.chat.completions.create(model="whole", messages=messages, tools=tools)
            return str(response.choices[0].message.content)
        options = {"include_usage": True}
        stream = await client.chat.completions.create(
            model=_model(chunks), messages=messages, tools=tools, stream=True, stream_options=options
        )
        return "".join([one.choices[0].delta.content or "" if one.choices else "" async for one in stream])

    return ask


async def _openai_client(url: str, stack: AsyncExitStack) -> Any:
    from openai import AsyncOpenAI

    return await stack.enter_async_context(AsyncOpenAI(base_url=url, api_key="none"))


async def _pydantic_model(url: str, chunks: int, stack: AsyncExitStack) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(_model(chunks), provider=OpenAIProvider(openai_client=await _openai_client(url, stack)))


async def _model_request(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    """pydantic-ai's `Model` with OpenAI's client, without an agent."""
    return _requests_of(await _pydantic_model(url, chunks, stack), chunks)


async def _own_model(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    """Teamwright's client alone, without an agent and a record."""
    from teamwright.agents.clients.model_client import open_client
    from teamwright.values.specs.models import ServerModel

    client = await stack.enter_async_context(open_client(ServerModel(url=url, name=_model(chunks))))
    return _requests_of(client.model, chunks)


def _requests_of(model: Any, chunks: int) -> Ask:
    """What a request to a `Model` takes."""
    from pydantic_ai.messages import (
        InstructionPart,
        ModelRequest,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=one["function"]["name"],
            description=one["function"]["description"],
            parameters_json_schema=one["function"]["parameters"],
        )
        for one in _tools()
    ]

    async def ask() -> str:
        messages = [ModelRequest(parts=[UserPromptPart(QUESTION)])]
        offered = ModelRequestParameters(
            function_tools=tools, instruction_parts=[InstructionPart(content=INSTRUCTIONS)]
        )
        if not chunks:
            response = await model.request(messages, None, offered)
            return "".join(part.content for part in response.parts if isinstance(part, TextPart))
        pieces: list[str] = []
        async with model.request_stream(messages, None, offered) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    pieces.append(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    pieces.append(event.delta.content_delta)
        return "".join(pieces)

    return ask


async def _pydantic_agent(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    from pydantic_ai import Agent

    agent = Agent(await _pydantic_model(url, chunks, stack), instructions=INSTRUCTIONS, tools=[look_up, convert])

    async def ask() -> str:
        if not chunks:
            return (await agent.run(QUESTION)).output
        async with agent.run_stream(QUESTION) as result:
            return "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])

    return ask


async def _langgraph(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=_model(chunks), base_url=url, api_key="none", stream_usage=True)
    agent = create_agent(model, tools=[look_up, convert], system_prompt=INSTRUCTIONS)

    async def ask() -> str:
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        if not chunks:
            return str((await agent.ainvoke(asked))["messages"][-1].content)
        return "".join([str(one.content) async for one, _ in agent.astream(asked, stream_mode="messages")])

    return ask


async def _openai_agents(url: str, chunks: int, stack: AsyncExitStack) -> Ask:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(model=_model(chunks), openai_client=await _openai_client(url, stack))
    agent = Agent(
        name="baker", instructions=INSTRUCTIONS, model=model, tools=[function_tool(look_up), function_tool(convert)]
    )

    async def ask() -> str:
        if not chunks:
            return str((await Runner.run(agent, QUESTION)).final_output)
        result = Runner.run_streamed(agent, QUESTION)
        pieces = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        return "".join(pieces)

    return ask


CONTENDERS: dict[str, Callable[[str, int, AsyncExitStack], Awaitable[Ask]]] = {
    "httpx": _httpx,
    "openai": _openai,
    "model": _model_request,
    "client": _own_model,
    "pydantic-ai": _pydantic_agent,
    "langgraph": _langgraph,
    "openai-agents": _openai_agents,
}


async def _teamwright(url: str, size: int, chunks: int, at_once: bool, database: Path | None) -> float:
    """One run of `size` turns, one after the other or 200 at once; streamed turns are followed."""
    from teamwright import Engine, ModelAgent, Team
    from teamwright.journal import MemoryJournal, SqliteJournal
    from teamwright.values.specs.models import ServerModel

    agent = ModelAgent(
        "baker",
        model=ServerModel(url=url, name=_model(chunks), max_parallel=AT_ONCE),
        instructions=INSTRUCTIONS,
        tools=[look_up, convert],
    )
    async with Engine(SqliteJournal(database) if database else MemoryJournal()) as engine:

        async def run(turns: int) -> float:
            if at_once:
                options: dict[str, JsonValue] = {
                    "chunks": list(range(turns)),
                    "max_parallel": AT_ONCE,
                }
                team = Team("t", members=[agent], strategy="fan_out", options=options)
            else:
                team = Team("t", members=[agent] * turns, share="output")
            gc.collect()
            started = time.process_time()
            handle = await engine.start(team, QUESTION)
            if chunks:
                async for _ in engine.runs.follow(handle.run_id):
                    pass
            result = await handle.result()
            spent = time.process_time() - started
            for message in result.messages:
                _check(message.content)
            if len(result.messages) != turns:
                raise WrongAnswer(f"{len(result.messages)} of {turns} turns were taken")
            return spent

        await run(WARM_UP)
        return await run(size) / size * 1e6
