"""What user code passes to a run never makes its record unreadable: a wrong value fails the call, in our words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Answer, Context, Engine, FunctionAgent, Message, ModelAgent, Reply, Team, Turn
from teamwright.agents import Attempt, Effect, Returned, ToolContext, ToolDefinition, ToolSource
from teamwright.agents.agent import Agent
from teamwright.errors import UsageError
from teamwright.events import Custom
from teamwright.people import Question
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members, Strategy
from teamwright.values.turns.results import RunResult
from teamwright.values.usage_and_prices import Usage

WRONG: dict[str, dict[str, Any]] = {
    "content": {"messages": (Message(name="a", content=cast("Any", 3)),)},
    "role": {"messages": (Message(name="a", content="x", role=cast("Any", "boss")),)},
    "attachments": {"messages": (Message(name="a", content="x", attachments=cast("Any", ("x",))),)},
    "signal": {"signal": "bogus"},
    "stop_reason": {"stop_reason": 3},
    "truncated": {"truncated": "yes"},
    "warnings": {"warnings": (3,)},
    "artifacts": {"artifacts": (3,)},
    "envelope_note": {"envelope_note": 3},
    "data": {"data": object()},
    "updates": {"context_updates": {3: object()}},
}


async def recorded(tmp_path: Path, team: Team) -> RunResult:
    """Run a team, and read its record as another process would."""
    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(team, "go", run_id="r")
    async with Engine(tmp_path / "j.db") as engine:
        history = await engine.runs.history("r")
        history.conversation()
        assert history.result("completed").status == result.status
    return result


class OwnAgent(Agent):
    """An agent of a user's own class."""

    kind = "own"
    name = "a"

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return self._reply


def wrong_reply(name: str) -> Reply:
    fields: dict[str, Any] = {"messages": (Message(name="a", content="x"),), **WRONG[name]}
    return Reply(**fields)


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_reply_of_an_agent_of_ones_own(tmp_path: Path, wrong: str) -> None:
    result = await recorded(tmp_path, Team("t", members=[OwnAgent(wrong_reply(wrong))]))
    assert result.failure is not None
    assert result.failure.message.startswith(("'a' failed: 'a' must answer with a Reply", "'a' failed: 'a' gave data"))


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_reply_of_a_function(tmp_path: Path, wrong: str) -> None:
    agent = FunctionAgent("a", lambda _: wrong_reply(wrong))
    result = await recorded(tmp_path, Team("t", members=[agent]))
    assert result.failure is not None
    assert result.failure.message.startswith("'a' failed: 'a' returned ")


class Calling(Agent):
    """An agent of a user's own class that makes one call."""

    kind = "own"
    name = "a"

    def __init__(self, effect: dict[str, Any], returned: Any = None, seconds: Any = 0.0) -> None:
        self._effect, self._seconds = effect, seconds
        self._returned = Returned("x") if returned is None else returned

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        await ctx.clock.sleep(self._seconds)
        made: dict[str, Any] = {"kind": "function", "name": "n", "request": "r", "call": self._call}
        await ctx.effect("k", Effect(**{**made, **self._effect}))
        return Reply.of("a", "x")

    async def _call(self, _: Attempt) -> Returned:
        return self._returned


CALLS: dict[str, Calling] = {
    **{
        f"an effect's {next(iter(wrong))}": Calling(wrong)
        for wrong in ({"kind": "bogus"}, {"name": 3}, {"request": 3}, {"max_output": "x"}, {"method": "x"})
    },
    "no result": Calling({}, 3),
    "a value that is no JSON": Calling({}, Returned(cast("Any", object()))),
    **{
        f"a result's {next(iter(wrong))}": Calling({}, Returned("x", **cast("Any", wrong)))
        for wrong in (
            {"mark": 3}, {"form": "bogus"}, {"truncated": 3}, {"capped": "x"}, {"artifacts": (3,)}, {"usage": 3},
            {"partial_usage": "bogus"}, {"files": (3,)},
        )
    },
    "a fraction of a token": Calling({}, Returned("x", usage=Usage(input_tokens=cast("Any", 1.5)))),
    "a wait for a text": Calling({}, seconds="x"),
    "a wait for no number": Calling({}, seconds=float("nan")),
}  # fmt: skip


@pytest.mark.parametrize("wrong", CALLS)
async def test_a_call_of_an_agent_of_ones_own(tmp_path: Path, wrong: str) -> None:
    assert (await recorded(tmp_path, Team("t", members=[CALLS[wrong]]))).failure is not None


def test_the_kind_of_an_agent_of_ones_own() -> None:
    agent = OwnAgent(Reply())
    agent.kind = cast("Any", 3)
    with pytest.raises(UsageError, match="The kind of the agent 'a' must be a text, and is 3"):
        Team("t", members=[agent])


async def test_data_of_an_agent_of_ones_own_is_json(tmp_path: Path) -> None:
    reply = Reply(messages=(Message(name="a", content="x"),), data=cast("Any", {1: {2}}))
    assert (await recorded(tmp_path, Team("t", members=[OwnAgent(reply)]))).data == {"1": [2]}


Act = Callable[[Context, Members], Awaitable[Outcome]]


class OwnStrategy(Strategy):
    """A strategy of a user's own class."""

    name, version = "own", 1

    def __init__(self, act: Act) -> None:
        self._act = act

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        return await self._act(ctx, members)


DONE = Outcome(messages=(Message(name="a", content="x"),))
MISUSES: dict[str, Callable[[Any, Members], Awaitable[object]]] = {
    "a question": lambda ctx, _: ctx.ask_person("Which?", key="k"),
    "its choices": lambda ctx, _: ctx.ask_person(Question(text="Which?", choices=cast("Any", (1, 2))), key="k"),
    "an event": lambda ctx, _: ctx.emit("event"),
    "its domain": lambda ctx, _: ctx.emit(Custom(domain=cast("Any", 3), name="x")),
    "its name": lambda ctx, _: ctx.emit(Custom(domain="x", name=cast("Any", None))),
    "a name in the workspace": lambda ctx, _: ctx.workspace.put(3, 1),
    "a version in the workspace": lambda ctx, _: ctx.workspace.put("a", 1, version="x"),
    "the type of an artifact": lambda ctx, _: ctx.workspace.keep("x", media_type=3),
    "the name of an artifact": lambda ctx, _: ctx.workspace.keep("x", name=3),
    "a turn": lambda ctx, members: ctx.ask(members[0], "task", key="k"),
    "its task": lambda ctx, members: ctx.ask(members[0], Turn(cast("Any", 3)), key="k"),
    "its purpose": lambda ctx, members: ctx.ask(members[0], Turn("x", purpose=cast("Any", "fun")), key="k"),
    "its number": lambda ctx, members: ctx.ask(members[0], Turn("x", number=cast("Any", "1")), key="k"),
}


@pytest.mark.parametrize("misuse", MISUSES)
async def test_what_a_strategy_of_ones_own_does(tmp_path: Path, misuse: str) -> None:
    async def act(ctx: Context, members: Members) -> Outcome:
        await MISUSES[misuse](ctx, members)
        return DONE

    team = Team("t", members=[FunctionAgent("a", lambda _: "x")], strategy=OwnStrategy(act))
    result = await recorded(tmp_path, team)
    assert result.failure is not None
    assert result.failure.message.startswith("UsageError: ")


@pytest.mark.parametrize(
    "wrong",
    [{"stop_reason": "bogus"}, {"warnings": (3,)}, {"data": object()}, {"status": "fine"}, {"messages": ("x",)}],
)
async def test_the_outcome_of_a_strategy_of_ones_own(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def act(_: Context, __: Members) -> Outcome:
        return DONE.changed(**wrong)

    team = Team("t", members=[FunctionAgent("a", lambda _: "x")], strategy=OwnStrategy(act))
    assert (await recorded(tmp_path, team)).failure is not None


def call_and_tell(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool `use`, and answer with its result."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(str(last.content))])
    return ModelResponse(parts=[ToolCallPart("use", {}, "c")])


def log_a_number(ctx: Any) -> None:
    ctx.log(3)


def log_at_no_level(ctx: Any) -> None:
    ctx.log("x", "loud")


def progress_of_a_number(ctx: Any) -> None:
    ctx.progress(3, True)


def progress_of_no_share(ctx: Any) -> None:
    ctx.progress("x", "half")


async def write_no_name(ctx: Any) -> None:
    await ctx.workspace.put(3, 1)


async def ask_a_number(ctx: Any) -> None:
    await ctx.ask_person(3)


async def offer_numbers(ctx: Any) -> None:
    await ctx.ask_person("Which?", choices=(1, 2))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (log_a_number, "success"),
        (log_at_no_level, "A log line has the level debug, info, warning, error, not 'loud'."),
        (progress_of_a_number, "success"),
        (progress_of_no_share, "Progress is a share from 0 to 1, not 'half'."),
        (write_no_name, "The argument 'name' must be a text, and is 3."),
        (ask_a_number, "A person is asked a Question, not 3"),
        (offer_numbers, "The question to a person can't be recorded: choices[0]: expects str, found int"),
    ],
)
async def test_what_a_tool_does_with_its_context(tmp_path: Path, act: Callable[[Any], Any], said: str) -> None:
    async def use(ctx: ToolContext) -> str:
        made = act(ctx)
        if made is not None:
            await made
        return "success"

    result = await recorded(
        tmp_path, Team("t", members=[ModelAgent("a", model=FunctionModel(call_and_tell), tools=[use])])
    )
    assert said in (result.output or "")


class OwnTools(ToolSource):
    """A source of tools of a user's own class."""

    name = "own"

    def __init__(self, result: Any) -> None:
        self._result = result

    async def definitions(self, ctx: Context) -> list[ToolDefinition]:
        return [ToolDefinition("use", "Use it.", {"type": "object", "properties": {}})]

    async def call(self, name: str, arguments: Any, context: ToolContext) -> Any:
        return self._result


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (object(), "The tool 'use' returned something that is not JSON"),
        ({1: 2}, "{'1': 2}"),
        ({"a": {3}}, "{'a': [3]}"),
        (float("inf"), "None"),
    ],
    ids=["an object", "numbers as names", "a set", "no number"],
)
async def test_the_result_of_a_tool_of_ones_own(tmp_path: Path, result: Any, said: str) -> None:
    agent = ModelAgent("a", model=FunctionModel(call_and_tell), tools=[OwnTools(result)])
    output = (await recorded(tmp_path, Team("t", members=[agent]))).output
    assert output is not None
    assert output.startswith(said)


async def test_the_history_of_a_run(tmp_path: Path) -> None:
    async with Engine(tmp_path / "j.db") as engine:
        with pytest.raises(UsageError, match="A message of the history can't be used: content: expects str, found int"):
            await engine.run(
                Team("t", members=[FunctionAgent("a", lambda _: "x")]),
                "go",
                history=[Message(name="a", content=cast("Any", 3))],
            )


async def test_what_a_person_sends(tmp_path: Path) -> None:
    async def ask(_: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="Which?"), key="k")).text

    team, wrong = Team("t", members=[FunctionAgent("a", ask)]), cast("Any", 3)
    async with Engine(tmp_path / "j.db") as engine:
        await engine.run(team, "go", run_id="r", conversation="c")
        sent = (
            lambda: engine.runs.answer("r", "t/step-1/k", Answer(text=wrong)),
            lambda: engine.runs.answer("r", "t/step-1/k", Answer(text="x", by=wrong)),
            lambda: engine.runs.cancel("r", wrong),
            lambda: engine.runs.checkpoint("r", "point", by=wrong),
            lambda: engine.conversations.undo("c", by=wrong),
        )
        for send in sent:
            with pytest.raises(UsageError, match=r"expects str, found int|must be a text, and is 3"):
                await send()
        assert await engine.journal.inbox("r") == []
