from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRateLimitError, UnexpectedModelBehavior
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, ToolCallPart

from tests.agents.clients.both_chat_clients import Exchange, answer, body, both, chunk, ours, stream

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
END = (chunk({}, "stop"), chunk(None, usage=USAGE), b"data: [DONE]\n\n")
DONE = b"data: [DONE]\n\n"


def call(index: int | None = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name", "arguments") if key in more}
    return {"tool_calls": [{**({} if index is None else {"index": index}), "function": function, **more}]}


STREAMS: dict[str, tuple[bytes, ...]] = {
    "a text": (chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo."}), *END),
    "a call in pieces": (
        chunk(call(0, id="c1", type="function", name="add", arguments="")),
        chunk(call(0, arguments='{"n"')),
        chunk(call(0, arguments=": 1}")),
        chunk({}, "tool_calls"),
        DONE,
    ),
    "two calls that alternate": (
        chunk(call(0, id="c1", type="function", name="add", arguments="{")),
        chunk(call(1, id="c2", type="function", name="look", arguments="{")),
        chunk(call(0, arguments="}")),
        chunk(call(1, arguments="}")),
        *END,
    ),
    "thinking, text and a call": (
        chunk({"reasoning_content": "H"}),
        chunk({"reasoning_content": "m."}),
        chunk({"content": "Adding."}),
        chunk(call(0, id="c1", type="function", name="add", arguments="{}")),
        *END,
    ),
    "text between thoughts": (
        chunk({"reasoning": "One."}),
        chunk({"content": "A"}),
        chunk({"reasoning": "Two."}),
        chunk({"content": "B"}),
        *END,
    ),
    "a cut text": (chunk({"content": "Hel"}), chunk({}, "length"), DONE),
    "a refusal": (chunk({"refusal": "I "}), chunk({"refusal": "can't."}), *END),
    "a filter": (chunk({}, "content_filter"), DONE),
    "no reason and no usage": (chunk({"content": "Hi."}), DONE),
    "a reason of its own": (chunk({"content": "Hi."}), chunk({}, "weird"), DONE),
    "chunks without choices": (chunk(None), chunk({"content": "Hi."}), chunk(None), *END),
    "comments and names": (b": keep-alive\n\n", b"event: message\n" + chunk({"content": "Hi."}), *END),
    "a signature of a call": (
        chunk(call(0, id="c1", type="function", name="add", arguments="{}", extra_content={"s": 1})),
        *END,
    ),
}


@pytest.mark.parametrize("pieces", STREAMS.values(), ids=STREAMS)
async def test_a_stream_is_read_as_openais_client_reads_it(pieces: tuple[bytes, ...]) -> None:
    mine, theirs = await both(stream(*pieces), streams=True)
    assert mine.response == theirs.response


@given(st.sampled_from(sorted(STREAMS)), st.integers(1, 40), st.booleans())
async def test_a_stream_may_be_divided_anywhere(name: str, size: int, windows: bool) -> None:
    pieces = STREAMS[name]
    sent = b"".join(pieces).replace(b"\n", b"\r\n" if windows else b"\n")
    divided = [sent[at : at + size] for at in range(0, len(sent), size)]
    whole, parted = await ours(stream(*pieces), streams=True), await ours(stream(*divided), streams=True)
    assert parted.response == whole.response
    assert texts(parted) == texts(whole)


def texts(exchange: Exchange) -> list[str]:
    """What a follower sees, in order."""
    seen: list[str] = []
    for event in exchange.events:
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            seen.append(event.part.content)
        elif isinstance(event, PartDeltaEvent):
            seen.append(str(getattr(event.delta, "content_delta", None) or getattr(event.delta, "args_delta", "")))
    return seen


async def test_pieces_are_given_on_as_they_arrive() -> None:
    assert texts(await ours(stream(*STREAMS["a text"]), streams=True)) == ["Hel", "lo."]


@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n"])
async def test_the_last_event_needs_no_blank_line(last: bytes) -> None:
    sent = chunk({"content": "Hi."}) + chunk({}, "length").rstrip() + last
    assert (await ours(stream(sent), streams=True)).response == (
        await ours(stream(chunk({"content": "Hi."}), chunk({}, "length")), streams=True)
    ).response


async def test_usage_that_is_reported_with_every_chunk_is_not_added_up() -> None:
    sent = [chunk({"content": str(n)}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in range(1, 4)]
    response = (await ours(stream(*sent, DONE), streams=True)).response
    assert response is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (9, 3)


async def test_the_data_of_an_event_may_take_several_lines() -> None:
    sent = b'data: {"choices": [{"delta":\ndata: {"content": "Hi."}}]}\n\n'
    assert (await ours(stream(sent, DONE), streams=True)).parts == [TextPart("Hi.")]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/event-stream", ""])
@pytest.mark.parametrize("before", ["", " \n "])
async def test_a_server_that_does_not_stream_is_read_as_a_whole(kind: str, before: str) -> None:
    sent = before + json.dumps(body({"content": "Hi."}, "length"), indent=2)
    mine = await ours(answer(sent, 200, **{"content-type": kind}), streams=True)
    assert mine.parts == [TextPart("Hi.")]
    assert texts(mine) == ["Hi."]
    assert mine.response is not None
    assert (mine.response.finish_reason, mine.response.usage.input_tokens) == ("length", 30)


async def test_a_stream_that_calls_itself_a_document_is_read_as_a_stream() -> None:
    assert (await ours(answer(b"".join(STREAMS["a text"])), streams=True)).parts == [TextPart("Hello.")]


CALLS: dict[str, tuple[dict[str, Any], ...]] = {
    "without an index": (call(id="c1", name="add", arguments="{}"), call(id="c2", name="look", arguments="{}")),
    "with one index for all": (
        call(0, id="c1", name="add", arguments="{}"),
        call(0, id="c2", name="look", arguments="{}"),
    ),
    "without an index, with an id in every piece": (
        call(id="c1", name="add", arguments="{"),
        call(id="c1", arguments="}"),
        call(id="c2", name="look", arguments="{"),
        call(id="c2", arguments="}"),
    ),
    "with a name that comes late": (
        call(0, id="c1", arguments="{"),
        call(0, arguments="}"),
        call(0, name="add"),
        call(1, id="c2", name="look", arguments="{}"),
    ),
    "with a name that is repeated": (
        call(0, id="c1", name="add", arguments="{"),
        call(0, id="c1", name="add", arguments="}"),
        call(1, id="c2", name="look", arguments="{}"),
    ),
    "with a name in pieces": (
        call(0, id="c1", name="ad"),
        call(0, name="d", arguments="{}"),
        call(1, id="c2", name="look", arguments="{}"),
    ),
    "with arguments that are no text": (
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": {}}}]},
        call(0, arguments="{}"),
        call(1, id="c2", name="look", arguments="{}"),
    ),
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
async def test_calls_of_servers_that_count_otherwise_are_told_apart(calls: tuple[dict[str, Any], ...]) -> None:
    mine = await ours(stream(*map(chunk, calls), *END), streams=True)
    assert mine.parts == [ToolCallPart("add", "{}", tool_call_id="c1"), ToolCallPart("look", "{}", tool_call_id="c2")]


@pytest.mark.parametrize("empty", [{}, {"index": 0}, {"index": 0, "id": "c1", "function": {"arguments": ""}}], ids=str)
async def test_a_call_of_nothing_with_nothing_is_no_call(empty: dict[str, Any]) -> None:
    mine, theirs = await both(stream(chunk({"content": "Hi.", "tool_calls": [empty]}), *END), streams=True)
    assert mine.parts == theirs.parts == [TextPart("Hi.")]


@pytest.mark.parametrize("index", [0, None])
async def test_calls_without_ids_are_told_apart_by_what_follows_whole_arguments(index: int | None) -> None:
    one, two, other = '{"n": 1}', '{"n": 2}', '{"m": {}}'
    calls = [call(index, name="add", arguments=one), call(index, name="add", arguments=two)]
    calls += [call(index, name="look", arguments=other)]
    parts = (await ours(stream(*map(chunk, calls), *END), streams=True)).parts
    assert [(part.tool_name, part.args) for part in parts] == [("add", one), ("add", two), ("look", other)]


async def test_a_call_is_announced_once_its_tool_is_known() -> None:
    calls = call(0, id="c1"), call(0, name="add"), call(0, arguments="{}")
    events = (await ours(stream(*map(chunk, calls), *END), streams=True)).events
    assert [type(event) for event in events] == [PartStartEvent, PartDeltaEvent]
    (start, _) = events
    assert isinstance(start, PartStartEvent)
    assert isinstance(start.part, ToolCallPart)
    assert start.part.tool_name == "add"


async def test_an_error_in_the_middle_is_the_one_that_it_would_have_been_before() -> None:
    sent = chunk({"content": "Hi"}), b'data: {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}\n\n'
    mine, theirs = await both(stream(*sent), streams=True)
    assert isinstance(mine.error, ModelRateLimitError)
    assert isinstance(mine.error, ModelHTTPError)
    assert (type(mine.error), mine.error.in_stream) == (type(theirs.error), True)


@pytest.mark.parametrize("code", ["503", "529", "overloaded", "server_error", "context_length_exceeded", "odd", None])
async def test_errors_in_a_stream_are_told_apart_by_their_code(code: str | None) -> None:
    error = b'data: {"error": {"message": "no", "code": %s}}\n\n' % (f'"{code}"'.encode() if code else b"null")
    mine, theirs = await both(stream(error), streams=True)
    assert type(mine.error) is type(theirs.error)


async def test_an_error_of_llama_cpp_is_an_error() -> None:
    mine = await ours(
        stream(b'error: {"code": 500, "message": "out of memory", "type": "server_error"}\n\n'), streams=True
    )
    assert isinstance(mine.error, ModelHTTPError)
    assert mine.error.status_code == 500


REPORTED = {
    "beside a text": {"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": {"message": "died"}}]},
    "as a reason alone": {"choices": [{"delta": {"content": ""}, "finish_reason": "error"}]},
    "as an object of its own": {"object": "error", "message": "died", "code": 500},
}


@pytest.mark.parametrize("sent", REPORTED.values(), ids=REPORTED)
async def test_half_an_answer_and_an_error_are_an_error(sent: dict[str, Any]) -> None:
    data = b"data: " + json.dumps(sent).encode() + b"\n\n"
    error = (await ours(stream(chunk({"content": "Half"}), data, DONE), streams=True)).error
    assert isinstance(error, ModelAPIError)
    assert error.in_stream


@pytest.mark.parametrize("sent", [b"data: {\n\n", b"data: nonsense\n\n"])
async def test_a_chunk_that_is_no_json_is_an_error_of_the_server(sent: bytes) -> None:
    error = (await ours(stream(chunk({"content": "Hi"}), sent), streams=True)).error
    assert type(error) is ModelAPIError


@pytest.mark.parametrize("delta", [{"tool_calls": "add"}, {"tool_calls": [7]}, {"content": 7}])
async def test_a_malformed_chunk_is_an_error(delta: dict[str, Any]) -> None:
    assert isinstance((await ours(stream(chunk(delta)), streams=True)).error, UnexpectedModelBehavior)


@pytest.mark.parametrize("sent", [b"data: 7\n\n", b'data: {"choices": 7}\n\n', b'data: {"choices": [7]}\n\n'])
async def test_a_chunk_of_another_form_is_an_error(sent: bytes) -> None:
    assert isinstance((await ours(stream(sent), streams=True)).error, UnexpectedModelBehavior)
