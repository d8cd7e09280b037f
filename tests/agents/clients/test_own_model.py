from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

from teamwright import Engine, Team
from teamwright.agents import ServerModel
from teamwright.agents.clients.models import Models
from teamwright.agents.clients.own_model import own_model_name
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import AgentError, NotResumable, RateLimited, Refused, ServiceError, UsageError
from teamwright.testing.chat import Say
from teamwright.testing.model_server import ModelServer
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording


def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart("<think>hm</think>forty-two")])


async def say_slowly(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    yield "forty-"
    yield "two"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_function_model_answers_and_a_follower_gets_its_text_in_one_piece() -> None:
    record = Recording()
    reply = await ModelAgent("oracle", model=FunctionModel(say)).respond(Turn("?"), record.ctx)
    assert reply.text == "forty-two"
    assert record.deltas == ["forty-two"]
    assert record.effects["request-1"].name == "function:say"
    assert record.effects["request-1"].model == "function:say"


async def test_a_model_that_only_streams_is_streamed() -> None:
    record = Recording()
    model = WrapperModel(FunctionModel(stream_function=say_slowly))
    reply = await ModelAgent("oracle", model=model).respond(Turn("?"), record.ctx)
    assert reply.text == "forty-two"
    assert record.deltas == ["forty-", "two"]


async def test_a_function_model_calls_tools_and_fills_a_schema() -> None:
    def call(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("add", {"a": 1, "b": 2})])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"n": 3})])

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = ModelAgent("adder", model=FunctionModel(call), tools=[add], output_schema=schema)
    record = Recording()
    assert (await agent.respond(Turn("1 + 2?"), record.ctx)).data == {"n": 3}
    assert (await agent.respond(Turn("1 + 2?"), record.again().ctx)).data == {"n": 3}


async def test_the_models_of_an_engine_open_one_client_for_each_model() -> None:
    model, other = TestModel(), TestModel()
    async with Models() as models:
        assert await models.own_client(model) is await models.own_client(model)
        assert await models.own_client(model) is not await models.own_client(other)
        assert await ModelAgent("tester", model=model).preflight(models) == []


async def test_an_openai_client_of_ones_own_is_used_and_left_open() -> None:
    with ModelServer(lambda _: Say(text="hello")) as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="k")
        model = OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=client))
        reply = await ModelAgent("greeter", model=model).respond(Turn("?"), Recording().ctx)
        assert not client.is_closed()
        await client.close()
    assert reply.text == "hello"
    assert own_model_name(model) == "openai:tiny"


async def test_a_run_with_a_model_of_ones_own_resumes_with_its_team_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    def count(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append("oracle")
        return say(messages, info)

    team = Team("desk", members=[ModelAgent("oracle", model=FunctionModel(count))])
    async with Engine(tmp_path / "runs.db") as engine:
        assert (await engine.run(team, "What?", run_id="r1")).output == "forty-two"
        with pytest.raises(NotResumable, match=r"'oracle' was created in Python .* pass the team"):
            await engine.fork("r1", at="step-1")
        assert (await engine.fork("r1", at="step-1", team=team)).output == "forty-two"
    assert asked == ["oracle"]


async def test_a_model_of_ones_own_as_a_fallback_is_never_left_out_of_a_resume(tmp_path: Path) -> None:
    with ModelServer(lambda _: Say(text="hello")) as server:
        spare = ModelAgent("oracle", model=FunctionModel(say))
        agent = ModelAgent("oracle", model=ServerModel(url=server.url, name="tiny"), fallback=spare)
        async with Engine(tmp_path / "runs.db") as engine:
            await engine.run(Team("desk", members=[agent]), "What?", run_id="r1")
            with pytest.raises(NotResumable, match="pass the team"):
                await engine.fork("r1", at="step-1")


def test_anything_else_is_no_model() -> None:
    with pytest.raises(UsageError, match=r"model of the agent 'a' must be 'provider:name', .* not 42"):
        ModelAgent("a", model=42)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="'a' needs a model"):
        ModelAgent("a", model="")


def test_an_agent_is_made_without_an_import_of_pydantic_ai() -> None:
    code = (
        "import sys; from teamwright import ModelAgent; ModelAgent('a', model='openai:x');"
        "print('pydantic_ai' in sys.modules)"
    )
    assert json.loads(subprocess.check_output([sys.executable, "-c", code], text=True).lower()) is False


@pytest.mark.parametrize(
    ("status", "error"), [(429, RateLimited), (503, ServiceError), (401, Refused)], ids=["limit", "server", "key"]
)
async def test_models_that_all_fail_fail_as_the_last_one_did(status: int, error: type[AgentError]) -> None:
    def refuse(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(status, "m", None)

    def down(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(500, "m", None)

    agent = ModelAgent("a", model=FallbackModel(FunctionModel(down), FunctionModel(refuse)))
    with pytest.raises(error):
        await agent.respond(Turn("?"), Recording().ctx)


async def test_the_next_model_of_a_fallback_answers() -> None:
    def down(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(500, "m", None)

    record = Recording()
    agent = ModelAgent("a", model=FallbackModel(FunctionModel(down), FunctionModel(say)))
    assert (await agent.respond(Turn("?"), record.ctx)).text == "forty-two"
    assert (await agent.respond(Turn("?"), record.again().ctx)).text == "forty-two"
