"""Mistakes of model servers and of models are reported in Teamwright's own words."""

from __future__ import annotations

import json
import socket

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.error_kinds import classify
from teamwright.errors import InvalidInput, InvalidOutput, ServiceError
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ModelServer, Say, ToolCall
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.turn import Turn
from tests.agents.raw_server import DONE, STREAM, RawServer, says
from tests.agents.recording import Recording
from tests.kit.runs import run

LIBRARY = ("pydantic", "https://", "retry limit", "validation error", "Input should")
SECRET = "acme-4711-0815-abcdef"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def look_up(word: str) -> str:
    """Look a word up."""
    return word


async def failure_of(agent: ModelAgent) -> str:
    with pytest.raises(InvalidOutput) as failed:
        await agent.respond(Turn("Go."), Recording().ctx)
    text = str(failed.value)
    assert not [word for word in LIBRARY if word in text], text
    return text


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(name="look_up", args={"wrong": 1}),
        ToolCall(name="look_up", args="no JSON"),
        ToolCall(name="look_up", args="[]"),
        ToolCall(name="unknown"),
        ToolCall(name=""),
    ],
)
async def test_a_model_that_calls_tools_wrongly_again_and_again_is_reported_clearly(call: ToolCall) -> None:  # M-10
    with ModelServer(lambda _: CallTools(calls=(call,))) as server:
        model = ServerModel(url=server.url, name="tiny")
        text = await failure_of(ModelAgent("m", model=model, tools=[look_up]))
    assert "'tiny' gave no usable answer: it did not correct its mistake" in text


def test_a_malformed_response_is_no_mistake_of_the_model_and_its_places_are_named() -> None:  # M-10
    with pytest.raises(ValidationError) as invalid:
        TypeAdapter(dict[str, int]).validate_python({"prompt_tokens": "many"})
    error = UnexpectedModelBehavior("Invalid response")
    error.__cause__ = invalid.value
    text = str(classify(error, "tiny"))
    assert text == "The model 'tiny' gave no usable answer: its response is malformed: prompt_tokens"


async def test_a_model_whose_output_never_fits_is_reported_clearly() -> None:  # M-10
    with ModelServer(lambda _: Say(text='{"n": "x"}')) as server:
        text = await failure_of(ModelAgent("m", model=ServerModel(url=server.url, name="tiny"), output_schema=NUMBER))
    assert "did not correct its mistake" in text


@pytest.mark.parametrize(
    ("field", "value"), [("id", -1e308), ("id", [1]), ("model", 5), ("created", "soon"), ("choices", 7)]
)
async def test_a_stream_with_fields_of_wrong_types_is_refused_or_read_and_recorded(field: str, value: object) -> None:
    chunk = json.loads(says("Yes.", "stop").removeprefix(b"data: ")) | {field: value}  # S-01 D-02
    with RawServer(STREAM + b"data: " + json.dumps(chunk).encode() + b"\n\n" + DONE) as server:
        agent = ModelAgent("m", model=ServerModel(url=server.url, name="raw"))
        try:
            text = (await agent.respond(Turn("Go."), Recording().ctx)).text
        except InvalidOutput as error:
            text = str(error)
    assert text == "Yes." or "its response is malformed" in text
    assert not [word for word in LIBRARY if word in text], text


async def test_what_a_client_of_ones_own_raises_keeps_its_type_and_its_message() -> None:  # M-10
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise KeyError("no such deployment:\n eu-1")

    text = await failure_of(ModelAgent("m", model=FunctionModel(answer)))
    assert text.endswith("can't be read: KeyError: 'no such deployment:\\n eu-1'")


async def test_a_server_that_can_not_be_reached_is_reported_with_the_reason_of_the_system() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        for host, reason in (
            ("127.0.0.1", "Connection refused"),
            ("localhost", "Connection refused"),
            ("no-such-host.invalid", "its host is not found"),
        ):
            model = ServerModel(url=f"http://{host}:{taken.getsockname()[1]}/v1", name="tiny")
            with pytest.raises(ServiceError, match=f"^The model 'tiny' can't be reached: {reason}$"):
                await ModelAgent("m", model=model, retry=RetryPolicy(times=0)).respond(Turn("Go."), Recording().ctx)


@pytest.mark.parametrize(
    ("key", "headers"),
    [(f"{SECRET}\n", {}), (None, {"X-Key": f"{SECRET}\n"}), (None, {"X Key": SECRET}), (None, {"X-Key": "–" + SECRET})],
)
async def test_a_header_that_can_not_be_sent_is_reported_at_once_and_without_its_value(
    key: str | None, headers: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        model = ServerModel(url=f"http://127.0.0.1:{server.getsockname()[1]}/v1", name="tiny", api_key=key)
        agent = ModelAgent("m", model=model, settings={"extra_headers": headers})
        with pytest.raises(InvalidInput, match="check the API key and  extra_headers") as failed:
            await agent.respond(Turn("Go."), Recording().ctx)
    assert not failed.value.retryable
    assert SECRET not in str(failed.value)


async def test_secrets_in_what_a_client_raises_are_masked() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise RuntimeError(f"401 for the key {SECRET}")

    team = Team("t", members=[ModelAgent("m", model=FunctionModel(answer))])
    team.secrets = frozenset((SECRET,))
    result, _ = await run(team)
    assert result.failure is not None
    assert "RuntimeError: 401 for the key " in result.failure.message
    assert SECRET not in result.failure.message
