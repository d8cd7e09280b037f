"""An assistant with the tools of BFCL's environments, and a model that makes the expected calls of each task.

A task is a conversation, and each of its turns a run of a team, which is offered the tools that BFCL offers in that
turn. The tools call the service of `environment.py`, with the idempotency key of the call. A child process may drive a
task and die at a write of the journal.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

from pydantic import JsonValue
from typing_extensions import override

from teamwright.agents.agent import Context
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentCalled, AgentReturned
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.results import FINAL
from tests.laws.crash.driver import KillingJournal, When

MODEL = "expected-calls"
MOST_TOKENS = 200
"""The most that a model writes for a call."""


def ask(url: str, what: str, asked: Mapping[str, Any]) -> Any:
    """Ask the service of the environments."""
    with urlopen(Request(f"{url}/{what}", json.dumps(asked).encode()), timeout=120) as answer:
        return json.load(answer)


@dataclass(frozen=True)
class Tasks:
    """The tasks and tools that the service has exported."""

    tools: Mapping[str, Any]
    tasks: Mapping[str, Sequence[Mapping[str, Any]]]
    """The turns of each task by its id."""

    @classmethod
    def load(cls, file: str) -> Tasks:
        read = json.loads(Path(file).read_text(encoding="utf-8"))
        return cls(read["tools"], {one["id"]: one["turns"] for one in read["tasks"]})

    def answer(self, request: ChatRequest) -> ChatAnswer:
        """Make the next expected call of the turn that the instructions name, or end it."""
        task, turn = request.messages[0].content.split()[-2:]
        calls = self.tasks[task][int(turn)]["calls"]
        after = [one.role for one in request.messages]
        made = after[len(after) - after[::-1].index("user") :].count("tool")
        if made < len(calls):
            return CallTools(calls=(ToolCall(name=calls[made]["name"], args=calls[made]["args"]),))
        return Say(text="Done." if calls else "This can't be done yet: something is missing.")


load_tasks = cache(Tasks.load)


class EnvironmentTools(ToolSource):
    """The tools of one turn; `where` names the world of their calls.

    Unless they are keyed, each attempt of a call has a key of its own.
    """

    name = "environment"

    def __init__(
        self, tools: Mapping[str, Any], names: Sequence[str], url: str, where: Mapping[str, str], *, is_keyed: bool
    ) -> None:
        self._tools, self._names, self._url, self._where, self._is_keyed = tools, names, url, where, is_keyed

    @override
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition(name, **self._tools[name]) for name in self._names]

    @override
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        key = context.idempotency_key if self._is_keyed else uuid4().hex
        asked = {**self._where, "key": key, "name": name, "args": arguments}
        return await asyncio.to_thread(ask, self._url, "call", asked)


@dataclass(frozen=True)
class Drive:
    """Drives tasks to their ends; those that were killed are resumed."""

    tasks: Tasks
    model: str
    environment: str
    is_keyed: bool = True

    def team(self, task: str, turn: int, world: str) -> Team:
        names, where = self.tasks.tasks[task][turn]["tools"], {"world": world, "task": task}
        offered = EnvironmentTools(self.tasks.tools, names, self.environment, where, is_keyed=self.is_keyed)
        model = ServerModel(url=self.model, name=MODEL)
        agent = ModelAgent("assistant", model=model, instructions=f"Task and turn: {task} {turn}", tools=[offered])
        return Team("desk", members=[agent])

    async def run(self, engine: Engine, task: str, world: str) -> None:
        """Run or resume each turn of a task; raises if one does not complete."""
        for turn, one in enumerate(self.tasks.tasks[task]):
            run_id, team = f"{world}-{turn}", self.team(task, turn, world)
            if await engine.journal.find(run_id) is None:
                result = await engine.run(team, one["task"], run_id=run_id, conversation=world)
            elif (result := await engine.runs.result(run_id)).status not in FINAL:
                result = await engine.resume(run_id, team=team)
            if result.status != "completed":
                raise AssertionError(f"{run_id} is {result.status}: {result.failure}")

    async def calls(self, engine: Engine, task: str, world: str) -> list[list[dict[str, JsonValue]]]:
        """The tool calls of each turn with their results, as recorded."""
        return [await recorded_calls(engine, f"{world}-{turn}") for turn in range(len(self.tasks.tasks[task]))]


async def recorded_calls(engine: Engine, run_id: str, *, requests: float = math.inf) -> list[dict[str, JsonValue]]:
    """The recorded tool calls of a run, or of its first requests, in order: their names, arguments and results."""
    called: dict[str, dict[str, JsonValue]] = {}
    found: list[dict[str, JsonValue]] = []
    for event in await engine.journal.read(run_id):
        match event.fact:
            case AgentCalled(effect="model"):
                if requests == 0:
                    break
                requests -= 1
            case AgentCalled(effect="tool", name=name):
                called[event.key] = {"name": name, "args": (await engine.texts(event))["arguments"]}
            case AgentReturned() if event.key in called:
                found.append({**called.pop(event.key), **await engine.texts(event)})
            case _:
                pass
    return found


class RecordedTools(ToolSource):
    """Tools that do nothing but take a call."""

    name = "recorded"

    def __init__(self, tools: Mapping[str, Any]) -> None:
        self._tools = tools

    @override
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition(name, **tool) for name, tool in self._tools.items()]

    @override
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        return "done"


async def first_calls(engine: Engine, model: str, single: Mapping[str, Any]) -> list[dict[str, JsonValue]]:
    """The calls that a model makes at its first request in a task of one call, also where its turn fails later."""
    agent = ModelAgent(
        "assistant", model=model, tools=[RecordedTools(single["tools"])], max_requests=1, max_tokens=MOST_TOKENS
    )
    result = await engine.run(Team("desk", members=[agent]), single["task"], run_id=single["id"])
    return await recorded_calls(engine, result.run_id, requests=1)


def warm_up(*, tasks: str, **_: object) -> None:
    """Read the tasks, and make the slow imports of a run, before a child is forked."""
    _drive_once(tasks)


@cache
def _drive_once(tasks: str) -> None:
    loaded = load_tasks(tasks)
    empty = next(name for name, turns in loaded.tasks.items() if not turns[0]["calls"])
    turns = {empty: loaded.tasks[empty][:1]}

    async def first_turn() -> None:
        async with Engine("memory") as engine:
            await Drive(Tasks(loaded.tools, turns), server.url, "").run(engine, empty, "first")

    with ModelServer(loaded.answer) as server:
        asyncio.run(first_turn())


def drive(
    tasks: str, model: str, environment: str, journal: str, *,
    task: str, world: str, is_keyed: bool = True, write: int | None = None, when: When = "before",
) -> list[list[dict[str, JsonValue]]]:  # fmt: skip
    """Run or resume a task, and die at a journal write; returns the recorded calls of each turn."""
    made = Drive(load_tasks(tasks), model, environment, is_keyed)
    return asyncio.run(_drive(made, KillingJournal(journal, write, when), task, world))


async def _drive(made: Drive, journal: KillingJournal, task: str, world: str) -> list[list[dict[str, JsonValue]]]:
    async with Engine(journal) as engine:
        await made.run(engine, task, world)
        return await made.calls(engine, task, world)
