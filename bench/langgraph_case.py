"""LangGraph as its documentation shows it: a `StateGraph` with a list of messages, a reducer, and nodes that append.

Of the ways tried, these were the faster ones at 1000 turns: a chain is one node on a loop (a node per member took about
twice as long), a fan-out is `Send`, messages are typed dicts (not `AIMessage`, not `add_messages`). A graph has a node
per step and its edges. In memory means no checkpointer. Durable is `AsyncSqliteSaver` (which sets WAL and leaves SQLite
at synchronous=FULL) or `AsyncPostgresSaver`, with `durability="sync"`: each step is stored before the next one starts,
which is what Teamwright promises too.
"""

import asyncio
import operator
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from bench.clock import now
from bench.workload import TASK, Database, Steps, check, texts


class Message(TypedDict):
    """One message of the conversation."""

    name: str
    content: str


class Whole(TypedDict):
    """The state of the documentation: every checkpoint holds the whole list."""

    messages: Annotated[list[Message], operator.add]


def extend(messages: list[Message], batches: Sequence[list[Message]]) -> list[Message]:
    """The reducer of a delta channel: the list so far and the writes of one or more steps."""
    return [*messages, *(message for batch in batches for message in batch)]


class Delta(TypedDict):
    """The same state on the beta channel that stores what was added, with a snapshot every hundred updates."""

    messages: Annotated[list[Message], DeltaChannel(extend)]


# What nodes of either state are given. (LangGraph takes a typed dict in a node's signature for one more schema.)
State = Mapping[str, list[Message]]


class Piece(TypedDict):
    """What one member of a fan-out is sent."""

    index: int


class WholeState:
    """LangGraph with the ordinary list reducer."""

    state: type[Any] = Whole

    async def chain(self, turns: int, database: Database) -> float:
        replies = texts(turns)
        return await _run(_loop(self.state, replies), replies, database)

    async def fan_out(self, members: int, database: Database) -> float:
        replies = texts(members)
        return await _run(_map(self.state, replies), replies, database)

    async def dag(self, steps: Steps, database: Database, delays: Mapping[str, float] | None = None) -> float:
        replies = dict(zip(steps, texts(len(steps)), strict=True))
        built = _graph(self.state, steps, replies, delays or {})
        return await _run(built, list(replies.values()), database, ordered=False)


class DeltaState(WholeState):
    """LangGraph with a delta channel, for those who accept a beta to keep the database small."""

    state = Delta


def _loop(state: type[Any], replies: list[str]) -> StateGraph[Any, Any, Any, Any]:
    async def member(state: State) -> dict[str, list[Message]]:
        index = len(state["messages"]) - 1
        return {"messages": [{"name": f"member-{index}", "content": replies[index]}]}

    def onward(state: State) -> str:
        return "member" if len(state["messages"]) <= len(replies) else END

    graph = StateGraph(state)
    graph.add_node("member", member)
    graph.add_edge(START, "member")
    graph.add_conditional_edges("member", onward, ["member", END])
    return graph


def _map(state: type[Any], replies: list[str]) -> StateGraph[Any, Any, Any, Any]:
    async def member(piece: Piece) -> dict[str, list[Message]]:
        index = piece["index"]
        return {"messages": [{"name": f"member-{index}", "content": replies[index]}]}

    def everybody(state: State) -> list[Send]:
        return [Send("member", Piece(index=index)) for index in range(len(replies))]

    graph = StateGraph(state)
    graph.add_node("member", member)
    graph.add_conditional_edges(START, everybody, ["member"])
    graph.add_edge("member", END)
    return graph


def _graph(
    state: type[Any], steps: Steps, replies: Mapping[str, str], delays: Mapping[str, float]
) -> StateGraph[Any, Any, Any, Any]:
    def member(step: str) -> Callable[[State], Awaitable[dict[str, list[Message]]]]:
        async def answer(state: State) -> dict[str, list[Message]]:
            if step in delays:
                await asyncio.sleep(delays[step])
            return {"messages": [{"name": step, "content": replies[step]}]}

        return answer

    graph = StateGraph(state)
    for step, needs in steps.items():
        graph.add_node(step, member(step))
        if len(needs) > 1:
            graph.add_edge(list(needs), step)
        else:
            graph.add_edge(needs[0] if needs else START, step)
    return graph


@asynccontextmanager
async def _saver(database: Path | str) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    """The saver of a file or of a server, with its tables."""
    if isinstance(database, str):
        async with AsyncPostgresSaver.from_conn_string(database) as saver:
            await saver.setup()
            yield saver
    else:
        async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
            await saver.setup()
            yield saver


async def _run(
    graph: StateGraph[Any, Any, Any, Any], replies: list[str], database: Database, *, ordered: bool = True
) -> float:
    task: Any = {"messages": [{"name": "user", "content": TASK}]}
    config: RunnableConfig = {"recursion_limit": len(replies) + 10, "configurable": {"thread_id": str(uuid.uuid4())}}
    if database is None:
        compiled = graph.compile()
        started = now()
        state = await compiled.ainvoke(task, config)
        seconds = now() - started
    else:
        async with _saver(database) as saver:
            compiled = graph.compile(checkpointer=saver)
            started = now()
            state = await compiled.ainvoke(task, config, durability="sync")
            seconds = now() - started
    check([message["content"] for message in state["messages"][1:]], replies, ordered=ordered)
    return seconds
