"""Model agents through the official clients of the providers, whose servers are played on loopback."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any, cast, get_args

import pytest

from teamwright import ModelAgent
from teamwright.agents import ModelSettings
from teamwright.errors import RateLimited, Refused, ServiceError
from teamwright.values.specs.models import OutputChoice
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording
from tests.kit.wire_formats import Api, WireCall, WireError, WireReply
from tests.kit.wire_server import MODELS, PACKAGES, WireRequest, WireServer

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


APIS = [
    pytest.param(one, marks=pytest.mark.skipif(not is_installed(PACKAGES[one]), reason=f"{PACKAGES[one]} is missing"))
    for one in cast("tuple[Api, ...]", get_args(Api))
]
each_api = pytest.mark.parametrize("api", APIS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def ask(
    api: Api,
    server: WireServer,
    patch: pytest.MonkeyPatch,
    *,
    stream: bool = False,
    record: Recording | None = None,
    **more: Any,
) -> tuple[Any, Recording]:
    """Let an agent with a model of this provider answer, and replay the record of its turn: both are the same."""
    server.point_to(patch)
    record = record or Recording(is_followed=stream)
    more.setdefault("max_tokens", 500)  # without a cap, Anthropic's client streams, since a reply may take long
    agent = ModelAgent("a", model=MODELS[api], instructions="Be short.", **more)
    reply = await agent.respond(Turn("What is 1 + 2?"), record.ctx)
    count = len(server.requests)
    again = await agent.respond(Turn("What is 1 + 2?"), record.again().ctx)
    assert (again.messages, again.data, again.usage) == (reply.messages, reply.data, reply.usage)
    assert len(server.requests) == count, "a recorded request is not sent again"
    return reply, record


@each_api
@streamed
async def test_a_text_arrives_with_its_usage(api: Api, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = WireReply("It is three.", input_tokens=30, output_tokens=12, cached_tokens=10)
    with WireServer(lambda _: answer) as server:
        reply, record = await ask(api, server, monkeypatch, stream=stream)
        (request,) = server.requests
    assert (request.api, request.stream) == (api, stream)
    assert "Be short." in request
    assert reply.text == "It is three."
    assert "".join(record.deltas) == ("It is three." if stream else "")
    usage = reply.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (1, 30, 12, 10)


@each_api
@streamed
async def test_tools_are_called_side_by_side_and_their_results_go_back(
    api: Api, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: WireRequest) -> WireReply:
        assert request.tools == ["add"]
        if "call_7" in request:
            return WireReply("3 and 7777.")
        calls = WireCall("add", {"a": 1, "b": 2}, "call_7"), WireCall("add", {"a": 7000, "b": 777}, "call_8")
        return WireReply("Adding.", calls=calls)

    with WireServer(answer) as server:
        reply, record = await ask(api, server, monkeypatch, stream=stream, tools=[add])
        second = server.requests[1]
    assert reply.text == "3 and 7777."
    assert len(record.effects) == 4
    assert "7777" in second
    assert "call_8" in second


@each_api
@streamed
@pytest.mark.parametrize("mode", ["auto", "native", "tool", "prompt"])
async def test_an_answer_with_a_schema_comes_in_each_mode(
    api: Api, stream: bool, mode: OutputChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: WireRequest) -> WireReply:
        if request.tools:
            return WireReply(calls=(WireCall("final_result", {"n": 3}),))
        return WireReply(json.dumps({"n": 3}))

    with WireServer(answer) as server:
        reply, _ = await ask(api, server, monkeypatch, stream=stream, output_schema=NUMBER, output_mode=mode)
        (request,) = server.requests
    assert reply.data == {"n": 3}
    if mode != "auto":
        assert (request.has_schema, bool(request.tools)) == (mode == "native", mode == "tool")


@each_api
@streamed
async def test_what_was_thought_is_no_part_of_the_answer(
    api: Api, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = WireReply("Three.", thinking="One and two are three.", output_tokens=20, reasoning_tokens=8)
    with WireServer(lambda _: answer) as server:
        reply, record = await ask(api, server, monkeypatch, stream=stream)
    assert reply.text == "Three."
    assert "One and two" not in "".join(record.deltas)
    assert "One and two are three." in json.dumps(record.results["request-1"].value)
    assert reply.usage.output_tokens == 20
    if api != "messages":  # Anthropic does not count them apart
        assert reply.usage.reasoning_tokens == 8


@each_api
@streamed
async def test_a_cut_reply_is_marked_and_says_which_limit_cut_it(
    api: Api, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer(lambda _: WireReply("It is thr", stop="length")) as server:
        reply, _ = await ask(api, server, monkeypatch, stream=stream, max_tokens=None)
        capped, _ = await ask(api, server, monkeypatch, stream=stream, max_tokens=64)
        free, bound = server.requests
    assert (reply.text, reply.truncated) == ("It is thr", True)
    assert ["the output limit of its model" in one for one in reply.warnings] == [True]
    assert ["64 tokens (max_tokens)" in one for one in capped.warnings] == [True]
    assert bound.max_tokens == 64
    assert free.max_tokens == (128_000 if api == "messages" else None), "Anthropic wants one: the most of the model"


@each_api
@streamed
async def test_a_refusal_of_the_provider_fails_the_turn(
    api: Api, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer(lambda _: WireReply("" if api != "responses" else "I can't.", stop="refusal")) as server:
        server.point_to(monkeypatch)
        with pytest.raises(Refused):
            await ModelAgent("a", model=MODELS[api]).respond(Turn("?"), Recording(is_followed=stream).ctx)


@each_api
@streamed
@pytest.mark.parametrize(("status", "error"), [(400, Refused), (429, RateLimited), (500, ServiceError)])
async def test_an_error_of_the_server_is_one_request_and_ours(
    api: Api, stream: bool, status: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer(lambda _: WireError(status, "out of order")) as server:
        server.point_to(monkeypatch)
        with pytest.raises(error, match="out of order"):
            await ModelAgent("a", model=MODELS[api]).respond(Turn("?"), Recording(is_followed=stream).ctx)
        assert len(server.requests) == 1, "the engine retries, and no client does"


@each_api
async def test_a_mode_that_the_server_refuses_is_replaced_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: WireRequest) -> WireReply | WireError:
        if request.has_schema or request.tools:
            return WireError(400, "no structured output here")
        return WireReply('{"n": 3}')

    with WireServer(answer) as server:
        reply, record = await ask(api, server, monkeypatch, output_schema=NUMBER)
    assert reply.data == {"n": 3}
    assert list(record.effects) == ["request-1"]


SENT: dict[Api, tuple[ModelSettings, tuple[str, ...]]] = {
    "chat": (
        {"openai_reasoning_effort": "low", "seed": 4, "service_tier": "flex"},
        ('"reasoning_effort": "low"', '"seed": 4', '"service_tier": "flex"'),
    ),
    "responses": (
        {"openai_reasoning_effort": "high", "openai_reasoning_summary": "concise"},
        ('"effort": "high"', '"summary": "concise"'),
    ),
    "messages": (
        {"anthropic_metadata": {"user_id": "u7"}, "stop_sequences": ["END"]},
        ('"user_id": "u7"', '"stop_sequences": ["END"]'),
    ),
    "gemini": (
        {"google_thinking_config": {"thinking_budget": 99}, "top_p": 0.25},
        ('"thinking_budget": 99', '"topP": 0.25'),
    ),
}


@each_api
async def test_settings_arrive_as_the_provider_spells_them(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, parts = SENT[api]
    with WireServer(lambda _: WireReply("3")) as server:
        given = cast("ModelSettings", {**settings, "extra_headers": {"X-Trace": "t1"}})
        await ask(api, server, monkeypatch, settings=given)
        (request,) = server.requests
    assert [part for part in parts if part not in request] == []
    assert request.headers["x-trace"] == "t1"
