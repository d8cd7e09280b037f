"""Data that an asker would like: models give it where they can, and words are no failure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, assert_type

import pytest
from pydantic import BaseModel, field_validator
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from teamwright.agents.clients.client_pool import Models
from teamwright.agents.clients.model_client import ModelClient
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import InvalidOutput, RateLimited
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import (
    CallTools,
    ChatAnswer,
    ChatRequest,
    Fail,
    ModelServer,
    Say,
    SayJson,
    ToolCall,
)
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording

NUMBER: JsonSchema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LIST: JsonSchema = {"type": "array", "items": {"type": "string"}}
COUNT = Turn("Count.", output_schema=NUMBER)


def answers(*given: ChatAnswer) -> Callable[[ChatRequest], ChatAnswer]:
    """Answer the requests in order."""
    left: Iterator[ChatAnswer] = iter(given)
    return lambda _: next(left)


def counter(server: ModelServer, models: Models | None = None, schema: JsonSchema | None = None) -> ModelAgent:
    spec = ServerModel(url=server.url, name="tiny")
    return ModelAgent("counter", model=spec, models=models, output_schema=schema)


@asynccontextmanager
async def profiled(server: ModelServer, profile: OpenAIModelProfile) -> AsyncGenerator[Models]:
    """The clients of an engine, in which the server's model has this profile."""
    spec = ServerModel(url=server.url, name="tiny")
    provider = OpenAICompatibleProvider("server", base_url=server.url, api_key="none", profile=profile)
    async with Models() as models, OpenAIChatModel("tiny", provider=provider) as model:
        models._clients[spec] = ModelClient("tiny", model)
        yield models


async def test_preferred_data_is_requested_and_returned() -> None:
    with ModelServer(answers(SayJson(data={"n": 3}))) as server:
        reply = await counter(server).respond(COUNT, Recording().ctx)
        assert "response_format" in server.requests[0].body
    assert (reply.data, reply.text) == ({"n": 3}, '{"n": 3}')


async def test_a_value_that_is_no_object_is_given_as_well() -> None:
    with ModelServer(answers(SayJson(data={"value": ["a"]}))) as server:
        reply = await counter(server).respond(Turn("List.", output_schema=LIST), Recording().ctx)
    assert reply.data == ["a"]


async def test_words_instead_of_data_are_the_answer_at_once() -> None:
    record = Recording()
    with ModelServer(answers(Say(text="I would say three."))) as server:
        reply = await counter(server).respond(COUNT, record.ctx)
        assert server.count == 1
    assert (reply.data, reply.text, reply.usage.requests) == (None, "I would say three.", 1)
    assert await counter(server).respond(COUNT, record.again().ctx) == reply


async def test_data_that_is_cut_off_is_words() -> None:
    with ModelServer(answers(SayJson(data={"n": 123456789}))) as server:
        reply = await counter(server).respond(COUNT, Recording(max_output=2).ctx)
    assert (reply.data, reply.truncated) == (None, True)


async def test_data_that_does_not_fit_is_sent_back_before_it_is_only_words() -> None:
    with ModelServer(answers(SayJson(data={"n": "three"}), SayJson(data={"n": 3}))) as server:
        assert (await counter(server).respond(COUNT, Recording().ctx)).data == {"n": 3}
        assert "'three' is not of type 'integer'" in server.requests[1].prompt
    with ModelServer(lambda _: SayJson(data={"n": "three"})) as server:
        reply = await counter(server).respond(COUNT, Recording().ctx)
        assert server.count == 3
    assert (reply.data, reply.text, reply.usage.requests) == (None, '{"n": "three"}', 3)


async def test_the_agents_own_schema_comes_first_and_is_a_duty() -> None:  # P-01
    own: JsonSchema = {"type": "object", "properties": {"m": {"type": "integer"}}, "required": ["m"]}
    with ModelServer(answers(SayJson(data={"m": 1}))) as server:
        assert (await counter(server, schema=own).respond(COUNT, Recording().ctx)).data == {"m": 1}
    with ModelServer(lambda _: Say(text="three")) as server, pytest.raises(InvalidOutput):
        await counter(server, schema=own).respond(COUNT, Recording().ctx)


@dataclass
class Count:
    n: int
    unit: Literal["things", "people"] = "things"


async def test_a_schema_that_is_a_class_gives_data_of_that_class_in_replies_and_results() -> None:  # P-01
    said = answers(Say(text="Hm."), SayJson(data={"n": 3}), SayJson(data={"n": 4, "unit": "people"}))
    with ModelServer(said) as server:
        spec = ServerModel(url=server.url, name="tiny")
        typed = ModelAgent("counter", model=spec, output_schema=Count)
        team = Team("team", members=[ModelAgent("thinker", model=spec), typed])
        async with Engine("memory") as engine:
            counted = (await engine.run(team, "Count.")).data_as(Count)
        assert_type(counted, Count)
        assert counted == Count(3)
        reply = await typed.respond(Turn("Count."), Recording().ctx)
        assert reply.data_as(Count) == Count(4, "people")


async def test_an_answer_that_breaks_the_rules_of_a_class_is_reported_clearly() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def _is_even(cls, value: int) -> int:
            if value % 2:
                raise ValueError(f"{value} is odd")
            return value

    with ModelServer(answers(SayJson(data={"n": 3}), SayJson(data={"n": 4}))) as server:
        agent = ModelAgent("counter", model=ServerModel(url=server.url, name="tiny"), output_schema=Even)
        assert (await agent.respond(Turn("Count."), Recording().ctx)).data == {"n": 4}
        assert "The answer of 'counter' does not fit 'Even': n: 3 is odd." in server.requests[1].prompt


async def test_a_model_that_fails_or_says_nothing_fails_all_the_same() -> None:
    with ModelServer(lambda _: Say(text="")) as server, pytest.raises(InvalidOutput):
        await counter(server).respond(COUNT, Recording().ctx)
    with ModelServer(lambda _: Fail(status=429)) as server, pytest.raises(RateLimited):
        await counter(server).respond(COUNT, Recording().ctx)


@pytest.mark.parametrize(
    ("said", "data", "text"),
    [
        (CallTools(calls=(ToolCall(name="final_result", args={"n": 3}),)), {"n": 3}, '{"n": 3}'),
        (Say(text="three, I think"), None, "three, I think"),
        (Say(text='{"n": 3}'), {"n": 3}, '{"n": 3}'),
    ],
)
async def test_a_model_with_tools_gives_it_as_a_call(said: ChatAnswer, data: object, text: str) -> None:
    with ModelServer(lambda _: said) as server:
        async with profiled(server, OpenAIModelProfile()) as models:
            reply = await counter(server, models).respond(COUNT, Recording().ctx)
        assert (server.requests[0].tools, server.count) == (("final_result",), 1)
    assert (reply.data, reply.text) == (data, text)


async def test_a_call_that_never_fits_is_only_words() -> None:
    with ModelServer(lambda _: CallTools(calls=(ToolCall(name="final_result", args={"n": "x"}),))) as server:
        async with profiled(server, OpenAIModelProfile()) as models:
            reply = await counter(server, models).respond(COUNT, Recording().ctx)
        assert server.count == 3
    assert (reply.data, reply.text) == (None, '{"n": "x"}')


@pytest.mark.parametrize(
    ("profile", "sent"),
    [
        (OpenAIModelProfile(supports_tools=False, supports_json_schema_output=True), "json_schema"),
        (OpenAIModelProfile(supports_tools=False, supports_json_object_output=True), "json_object"),
        (OpenAIModelProfile(supports_tools=False), None),
    ],
)
@pytest.mark.parametrize(("text", "data"), [("three", None), ('{"n": 3}', {"n": 3})])
async def test_the_models_profile_decides_how_it_is_asked(
    profile: OpenAIModelProfile, sent: str | None, text: str, data: object
) -> None:
    plain: OpenAIModelProfile = {"supports_json_schema_output": False, "supports_json_object_output": False, **profile}
    with ModelServer(lambda _: Say(text=text)) as server:
        async with profiled(server, plain) as models:
            reply = await counter(server, models).respond(COUNT, Recording().ctx)
        (request,) = server.requests
    asked = request.body.get("response_format")
    assert (asked["type"] if isinstance(asked, dict) else None) == sent
    assert request.tools == ()
    assert (reply.data, reply.text) == (data, text)


async def test_terminating_gives_what_data_there_is() -> None:
    def says(response: str) -> ChatAnswer:
        return CallTools(calls=(ToolCall(name="terminate", args={"response": response}),))

    for response, data in (('{"n": 3}', {"n": 3}), ("Enough.", None)):
        with ModelServer(answers(says(response))) as server:
            agent = ModelAgent("a", model=ServerModel(url=server.url, name="tiny"), tools=["terminate"])
            reply = await agent.respond(COUNT, Recording().ctx)
        assert (reply.signal, reply.text, reply.data) == ("terminate", response, data)
