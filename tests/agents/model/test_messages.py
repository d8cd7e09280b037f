"""Whatever a server reports of its tool calls and usage, the run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from teamwright import Engine, Limits, RetryPolicy, Team
from teamwright.agents.model import messages
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.messages import (
    compact_arguments,
    decode_response,
    to_record,
    usage_of_response,
    with_unique_ids,
)
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.people import Confirm
from teamwright.values.run_keys import escape_place
from teamwright.values.specs.models import NamedModel, ServerModel
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Price
from tests.agents.raw_server import DONE, STREAM, RawServer, says
from tests.agents.recording import Recording
from tests.kit.records import cut

IDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "x", "x/write", "x/confirm", "call-1-1", "call-1-2", "call-1-2-again", "pyd_ai_1", "..", "%"]),
    st.just("x" * 100_000),
)


@given(st.lists(st.lists(IDS, max_size=4), max_size=4))
def test_every_tool_call_of_a_turn_has_its_own_key_that_holds_no_other(ids: list[list[str]]) -> None:  # S-03
    def played() -> tuple[dict[str, str], list[str]]:
        keys: dict[str, str] = {}
        found: list[str] = []
        for number, of_response in enumerate(ids, start=1):
            parts = [ToolCallPart("tool", {}, tool_call_id=one) for one in of_response]
            recorded = json.loads(json.dumps(to_record(ModelResponse(parts))))
            response = with_unique_ids(decode_response(recorded), number, keys)
            found += [part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)]
        return keys, found

    keys, found = played()
    assert len(found) == len(set(found)) == len(keys) == sum(map(len, ids))
    assert len(set(keys.values())) == len(keys)
    assert all(escape_place(key) == key and len(key) < 64 and "/" not in key for key in keys.values())
    assert (keys, found) == played()


def test_ids_of_one_hash_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:  # S-03
    monkeypatch.setattr(messages, "KEY_DIGITS", 1)
    calls = [ToolCallPart("tool", {}, tool_call_id=str(number)) for number in range(12)]
    keys: dict[str, str] = {}
    with_unique_ids(ModelResponse(calls), 1, keys)
    assert len(set(keys.values())) == len(keys) == 12


def at(server: ModelServer) -> ServerModel:
    return ServerModel(url=server.url, name="tiny")


@pytest.mark.parametrize("ids", [("x", "x/write"), ("x/write", "x"), ("", ""), ("x", "x"), ("é" * 9000, "../..")])
async def test_a_run_whose_tool_calls_have_hostile_ids_ends_and_resumes(ids: tuple[str, str]) -> None:  # S-03
    def answer(request: ChatRequest) -> ChatAnswer:
        if any(one.role == "tool" for one in request.messages):
            return Say(text="Done.")
        wanted = [ToolCall(name="write_value", args={"name": f"n{i}", "value": i}, id=one) for i, one in enumerate(ids)]
        return CallTools(calls=tuple(wanted))

    journal = MemoryJournal()
    with ModelServer(answer) as server:
        team = Team("t", members=[ModelAgent("a", model=at(server), tools=["workspace"])])
        async with Engine(journal) as engine:
            result = await engine.run(team, "go", run_id="r")
        assert (result.status, result.output) == ("completed", "Done.")
        for number in range(1, len(await journal.read("r"))):
            async with Engine(await cut(journal, number)) as engine:
                assert (await engine.resume("r", team=team)).output == "Done."


async def test_the_approval_of_one_call_is_not_that_of_another() -> None:  # S-03
    wanted = (ToolCall(name="look", id="x"), ToolCall(name="look", id="x/confirm"))

    def look() -> str:
        return "seen"

    with ModelServer(lambda _: CallTools(calls=wanted)) as server:
        agent = ModelAgent("a", model=at(server), tools=[look], confirm=Confirm(tools=True))
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            result = await engine.run(Team("t", members=[agent]), "go", run_id="r")
    assert result.status == "paused"


def usage_event(usage: Mapping[str, object]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "raw", "choices": [], "usage": usage}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def whole_reply(usage: object) -> bytes:
    """A reply that is not streamed, as a run without a follower reads it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "raw", "choices": [choice], "usage": usage}
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    return head + json.dumps(reply).encode()


FIGURES = [10**30, 2**63, -1, -(10**30), float("nan"), float("inf"), 1.5, "12", "many", None, [], {}, True, 1e300]


@pytest.mark.parametrize("figure", FIGURES, ids=str)
@pytest.mark.parametrize("where", ["prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "usage"])
async def test_no_figure_that_a_server_reports_keeps_a_run_from_being_resumed(
    figure: object, where: str
) -> None:  # S-03
    usage: dict[str, object] = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    if where == "cached_tokens":
        usage["prompt_tokens_details"] = {where: figure}
    elif where == "reasoning_tokens":
        usage["completion_tokens_details"] = {where: figure}
    else:
        usage[where] = figure
    with RawServer(whole_reply(usage if where != "usage" else figure)) as server:
        team = Team("t", members=[ModelAgent("a", model=server.model)], limits=Limits(tokens=100_000))
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            result = await engine.run(team, "go", run_id="r")
        if type(figure) is int and where != "usage":
            assert result.status == "completed"
        assert 0 <= result.usage.total_tokens <= 10**9
        async with Engine(await cut(journal, len(await journal.read("r")) - 1)) as engine:
            assert (await engine.resume("r", team=team)).status == result.status
        async with Engine(await cut(journal, len(await journal.read("r")) - 2)) as engine:
            await engine.runs.cancel("r")


async def test_a_negative_figure_counts_as_none_and_shows_no_warning_of_a_library() -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": 4, "total_tokens": -1}
    with RawServer(STREAM + says("Hello.", "stop") + usage_event(usage) + DONE) as server:
        reply = await ModelAgent("a", model=server.model).respond(Turn("go"), Recording().ctx)
    assert (reply.text, reply.warnings) == ("Hello.", ())
    assert 0 <= reply.usage.total_tokens < 100


HOSTILE: dict[str, bytes] = {
    "lone surrogates": says("x").replace(b'"x"', rb'"\ud800 and \udfff"'),
    "surrogates in an id": b'data: {"id": "\\ud800", "choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n',
    "a time beyond time": says("x").replace(b'"created": 1', b'"created": 1e300'),
    "a model that is no text": says("x").replace(b'"model": "raw"', b'"model": {"a": [1]}'),
    "a nul": says("x\0y"),
    "choices that are none": b'data: {"choices": {"a": 1}}\n\n',
    "a choice that is a number": b'data: {"choices": [7]}\n\n',
    "text that is a number": b'data: {"choices": [{"index": 0, "delta": {"content": 7}}]}\n\n',
    "deep nesting": b'data: {"choices": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n\n",
    "a number without end": b'data: {"created": ' + b"9" * 10_000 + b', "choices": []}\n\n',
    "no JSON": b"data: nothing\n\n",
    "no text": b"data: \xff\xfe\n\n",
    "null": b"data: null\n\n",
    "an error that is a number": b'data: {"error": 7}\n\n',
    "tool calls that are none": b'data: {"choices": [{"index": 0, "delta": {"tool_calls": 7}}]}\n\n',
    "a tool call without a name": b'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0}]}}]}\n\n',
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_whatever_a_server_sends_ends_in_a_reply_or_a_failure_and_the_run_can_be_read(what: str) -> None:  # S-01
    with RawServer(STREAM + HOSTILE[what] + DONE) as server:
        team = Team("t", members=[ModelAgent("a", model=server.model, retry=RetryPolicy(backoff=0))])
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            result = await engine.run(team, "go", run_id="r")
            assert result.status in ("completed", "failed")
            assert await engine.runs.history("r") is not None


def test_the_key_is_a_hash_of_the_id() -> None:  # S-03
    keys: dict[str, str] = {}
    with_unique_ids(ModelResponse([ToolCallPart("tool", {}, tool_call_id="x/write")]), 1, keys)
    assert keys == {"x/write": f"tool-{digest('x/write')[:12]}"}


@pytest.mark.parametrize(
    ("read", "written", "saved"), [(0, 0, None), (8000, 0, 0.0216), (0, 8000, -0.006), (4000, 4000, 0.0078)]
)
def test_what_a_cache_saved_is_the_price_without_it_less_the_price_paid(
    read: int, written: int, saved: float | None
) -> None:
    usage = RequestUsage(input_tokens=10_000, output_tokens=100, cache_read_tokens=read, cache_write_tokens=written)
    response = ModelResponse(
        parts=[TextPart("Yes.")], usage=usage, model_name="claude-sonnet-4-5", provider_name="anthropic"
    )
    used = usage_of_response(response, "anthropic:claude-sonnet-4-5")
    assert (used.cached_tokens, used.saved_usd) == (read, saved)


def test_a_declared_price_says_what_cached_tokens_saved() -> None:
    model = NamedModel(model="openai:gpt-5-mini", price=Price(input=1.0, cache=0.25, output=2.0))
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0, cache_read_tokens=400_000)
    used = usage_of_response(ModelResponse(parts=[], usage=usage), model)
    assert (used.usd, used.saved_usd) == (0.7, 0.3)


@pytest.mark.parametrize("args", [None, "", "{}", {}, ' {"b": 1, "a": [2, "é"]} ', {"b": 1, "a": "é"}, "[1]", "{cut"])
def test_arguments_in_a_digest_are_what_pydantic_ai_sends(args: str | dict[str, object] | None) -> None:
    assert compact_arguments(args) == ToolCallPart("t", args).args_as_json_str()
