"""What the settings of an agent and of its model do to its requests, its turns and their record."""

from __future__ import annotations

import pytest

from teamwright import ModelAgent
from teamwright.agents import NamedModel, ServerModel
from teamwright.errors import InvalidOutput, UsageError
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
from teamwright.values.specs.model_settings import ModelSettings
from teamwright.values.specs.models import OutputChoice
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def at(server: ModelServer, settings: ModelSettings | None = None, mode: OutputChoice | None = None) -> ServerModel:
    return ServerModel(url=server.url, name="tiny", settings=settings, output_mode=mode)


async def request_digest(agent: ModelAgent) -> str:
    record = Recording()
    await agent.respond(Turn("?"), record.ctx)
    return record.effects["request-1"].request


async def test_settings_of_the_agent_take_precedence_over_those_of_its_model_and_all_are_sent() -> None:
    with ModelServer() as server:
        model = at(server, {"top_p": 0.5, "seed": 1, "max_tokens": 77, "extra_headers": {"X-Team": "red"}})
        agent = ModelAgent(
            "a",
            model=model,
            settings={
                "temperature": 0.1,
                "seed": 2,
                "stop_sequences": ["END"],
                "openai_reasoning_effort": "low",
                "extra_body": {"k": 1},
            },
        )
        await agent.respond(Turn("?"), Recording().ctx)
        (request,) = server.requests
    assert request.headers["x-team"] == "red"
    sent = {name: request.body[name] for name in ("top_p", "seed", "stop", "reasoning_effort", "temperature", "k")}
    assert sent == {
        "top_p": 0.5, "seed": 2, "stop": ["END"], "reasoning_effort": "low", "temperature": 0.1, "k": 1,
    }  # fmt: skip
    assert request.max_tokens == 77


async def test_settings_are_part_of_a_request_only_where_they_are_given_and_headers_never() -> None:
    with ModelServer() as server:
        plain = await request_digest(ModelAgent("a", model=at(server)))
        headers = {"extra_headers": {"Authorization": "Bearer of-today"}}
        assert await request_digest(ModelAgent("a", model=at(server, {**headers}))) == plain  # pyright: ignore[reportArgumentType]
        assert await request_digest(ModelAgent("a", model=at(server), max_tokens=9)) == plain
        seeded = await request_digest(ModelAgent("a", model=at(server, {"seed": 1})))
        assert seeded != plain
        assert await request_digest(ModelAgent("a", model=at(server), settings={"seed": 1})) == seeded
        assert await request_digest(ModelAgent("a", model=at(server), output_mode="tool")) != plain


async def test_agents_with_different_settings_share_the_client_of_their_model() -> None:
    from teamwright.agents.clients.client_pool import Models

    with ModelServer() as server:
        async with Models() as models:
            assert await models.client(at(server, {"seed": 1})) is await models.client(at(server, {"seed": 2}))


@pytest.mark.parametrize(
    ("mode", "sent"), [("native", "response_format"), ("tool", "tools"), ("prompt", None), ("auto", "response_format")]
)
@pytest.mark.parametrize("owner", ["agent", "model"])
async def test_an_answer_is_given_in_the_prescribed_mode(mode: OutputChoice, sent: str | None, owner: str) -> None:
    def answer(request: ChatRequest) -> ChatAnswer:
        if "tools" in request.body:
            return CallTools(calls=(ToolCall(name="final_result", args={"n": 3}),))
        return SayJson(data={"n": 3})

    with ModelServer(answer) as server:
        by_agent = mode if owner == "agent" else None
        model = at(server, mode=None if owner == "agent" else mode)
        record = Recording()
        agent = ModelAgent("a", model=model, output_schema=NUMBER, output_mode=by_agent)
        assert (await agent.respond(Turn("1 + 2?"), record.ctx)).data == {"n": 3}
        (request,) = server.requests
        assert (await agent.respond(Turn("1 + 2?"), record.again().ctx)).data == {"n": 3}
        assert len(server.requests) == 1
    assert request.body.keys() & {"response_format", "tools"} == ({sent} if sent else set())
    assert ("JSON" in str(request.body["messages"])) == (mode == "prompt")


async def test_a_mode_that_is_prescribed_and_refused_fails_the_turn() -> None:
    with ModelServer(lambda _: Fail(status=400)) as server:
        agent = ModelAgent("a", model=at(server), output_schema=NUMBER, output_mode="native")
        with pytest.raises(Exception, match="scripted failure"):
            await agent.respond(Turn("?"), Recording().ctx)
        assert len(server.requests) == 1


async def test_a_mode_that_a_server_refuses_is_replaced_once_and_the_record_replays() -> None:
    def answer(request: ChatRequest) -> ChatAnswer:
        if "response_format" in request.body:
            return Fail(status=400, message="response_format is not supported")
        if request.prompt == "2":
            return CallTools(calls=(ToolCall(name="final_result", args={"n": 2}),))
        return CallTools(calls=(ToolCall(name="final_result", args={"n": "none"}),))

    from teamwright.agents.clients.client_pool import Models

    with ModelServer(answer) as server:
        async with Models() as models:
            agent = ModelAgent("a", model=at(server), output_schema=NUMBER, models=models)
            first, second = Recording(), Recording()
            with pytest.raises(InvalidOutput):
                await agent.respond(Turn("1"), first.ctx)
            assert [("response_format" in one.body, "tools" in one.body) for one in server.requests] == [
                (True, False), (False, True), (False, True), (False, True),
            ]  # fmt: skip
            assert (await agent.respond(Turn("2"), second.ctx)).data == {"n": 2}
            assert len(server.requests) == 5
            assert list(second.effects) == ["request-1"]
    elsewhere = ModelAgent("a", model=ServerModel(url=server.url, name="tiny"), output_schema=NUMBER)
    assert (await elsewhere.respond(Turn("2"), second.again().ctx)).data == {"n": 2}


async def test_a_turn_makes_as_many_requests_as_it_may() -> None:
    def add(a: int) -> int:
        return a

    with ModelServer(lambda _: CallTools(calls=(ToolCall(name="add", args={"a": 1}),))) as server:
        agent = ModelAgent("a", model=at(server), tools=[add], max_requests=3)
        with pytest.raises(InvalidOutput, match=r"'a' made 3 requests and still had no answer; raise  max_requests"):
            await agent.respond(Turn("?"), Recording().ctx)
        assert len(server.requests) == 3


def test_the_declaration_of_an_agent_has_its_settings_and_without_any_it_is_as_before() -> None:
    given: ModelSettings = {"seed": 1}
    agent = ModelAgent("a", model="openai:x", settings=given, output_mode="tool", max_requests=7)
    assert agent.spec.model_dump(exclude_unset=True) == {
        "model": "openai:x", "settings": {"seed": 1}, "output_mode": "tool", "max_requests": 7,
    }  # fmt: skip
    assert ModelAgent("a", model="openai:x").spec.model_dump(exclude_unset=True) == {"model": "openai:x"}


def test_the_first_that_says_something_decides() -> None:
    model = NamedModel(model="openai:x", settings={"seed": 1, "temperature": 1.0}, output_mode="prompt")
    agent = ModelAgent("a", model=model, settings={"temperature": 0.0})
    assert agent.settings_for(model) == {"seed": 1, "temperature": 0.0}
    assert agent.output_mode_for(model) == "prompt"
    assert ModelAgent("a", model=model, output_mode="auto").output_mode_for(model) is None


@pytest.mark.parametrize("wrong", [{"max_requests": 0}, {"max_requests": True}, {"output_mode": "x"}, {"settings": 3}])
def test_wrong_settings_in_python_are_refused_at_construction(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="agent 'a'"):
        ModelAgent("a", model="openai:x", **wrong)  # pyright: ignore[reportArgumentType]


def test_the_output_cap_is_a_field_of_the_agent_alone() -> None:
    with pytest.raises(UsageError, match=r"'max_tokens' is no setting of the agent 'a' but a field"):
        ModelAgent("a", model="openai:x", settings={"max_tokens": 2})


async def test_a_text_needs_no_mode() -> None:
    with ModelServer(lambda _: Say(text="hi")) as server:
        reply = await ModelAgent("a", model=at(server), output_mode="tool").respond(Turn("?"), Recording().ctx)
    assert reply.text == "hi"
