from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelServerError, UnexpectedModelBehavior
from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

from teamwright.agents.clients.chat_response import usage_of
from teamwright.agents.model.error_kinds import classify
from tests.agents.clients.both_chat_clients import answer, body, both, chunk, ours, stream

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}}
DETAILS = {
    "prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 10, "audio_tokens": 2, "cache_write_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 8, "accepted_prediction_tokens": 4},
}  # fmt: skip
LOGPROB = {"token": "Hi", "bytes": [72, 105], "logprob": -0.1, "top_logprobs": []}
BODIES: dict[str, dict[str, Any]] = {
    "a text": body({"content": "Hi."}),
    "a text in parts": body({"content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}]}),
    "calls": body({"content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}, "tool_calls"),
    "text and calls": body({"content": "Adding.", "tool_calls": [CALL]}, "tool_calls"),
    "a signature of a call": body({"tool_calls": [{**CALL, "extra_content": {"signature": "s"}}]}),
    "what was thought": body({"content": "Hi.", "reasoning_content": "Hm."}),
    "what was thought, elsewhere": body({"content": "Hi.", "reasoning": "Hm."}),
    "a cut text": body({"content": "Hi"}, "length"),
    "a filtered text": body({"content": None}, "content_filter"),
    "a refusal": body({"content": None, "refusal": "I can't."}),
    "a reason of its own": body({"content": "Hi."}, "guardrail_intervened"),
    "no reason": body({"content": "Hi."}, None),
    "an empty answer": body({"content": ""}),
    "no usage": body({"content": "Hi."}, usage=None),
    "detailed usage": body({"content": "Hi."}, usage=DETAILS),
    "negative usage": body({"content": "Hi."}, usage={"prompt_tokens": -3, "completion_tokens": 2, "total_tokens": 1}),
    "no time and no id": body({"content": "Hi."}, created=None, id=""),
    "a tier": body({"content": "Hi."}, service_tier="flex"),
}


@pytest.mark.filterwarnings("ignore::pydantic_ai.exceptions.UsageExtractionFailedWarning")
@pytest.mark.parametrize("sent", BODIES.values(), ids=BODIES)
async def test_a_response_is_read_as_openais_client_reads_it(sent: dict[str, Any]) -> None:
    mine, theirs = await both(answer(sent))
    assert mine.response == theirs.response


async def test_probabilities_of_tokens_are_kept() -> None:
    sent = body({"content": "Hi"})
    sent["choices"][0]["logprobs"] = {"content": [LOGPROB], "refusal": None}
    mine, theirs = await both(answer(sent))
    assert mine.response == theirs.response


@pytest.mark.parametrize(
    ("given", "taken"), [({"n": 1}, '{"n":1}'), ([1], "[1]"), (7, "7"), (True, "true"), ({}, ""), (None, "")], ids=str
)
async def test_arguments_that_are_no_text_become_text(given: Any, taken: str) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": given}}
    whole = await ours(answer(body({"tool_calls": [called]})))
    piece = chunk({"tool_calls": [{"index": 0, **called}]})
    streamed = await ours(stream(piece, chunk({}, "stop")), streams=True)
    assert whole.parts == streamed.parts == [ToolCallPart("add", taken, tool_call_id="c1")]


async def test_a_text_that_mentions_thinking_tags_stays_whole() -> None:
    (part,) = (await ours(answer(body({"content": "Write <think> and </think>."})))).parts
    assert part == TextPart("Write <think> and </think>.")


async def test_what_was_thought_is_marked_with_its_field() -> None:
    thought, _ = (await ours(answer(BODIES["what was thought"]))).parts
    assert thought == ThinkingPart("Hm.", id="reasoning_content", provider_name="server")


MALFORMED: dict[str, tuple[Any, str]] = {
    "no object": ([], "choices"),
    "no choices": ({"id": "r"}, "choices"),
    "empty choices": (body({}) | {"choices": []}, "choices"),
    "no message": (body({}) | {"choices": [{"finish_reason": "stop"}]}, "choices.0.message"),
    "content of another kind": (body({"content": 7}), "choices.0.message.content"),
    "calls of another kind": (body({"tool_calls": "add"}), "choices.0.message.tool_calls"),
    "a call without a function": (body({"tool_calls": [{"id": "c"}]}), "choices.0.message.tool_calls.0.function"),
    "a function without a name": (body({"tool_calls": [{"function": {}}]}), "choices.0.message.tool_calls.0.function"),
}


@pytest.mark.parametrize(("sent", "place"), MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_response_is_an_error_that_names_the_place(sent: Any, place: str) -> None:
    error = (await ours(answer(sent))).error
    assert isinstance(error, UnexpectedModelBehavior)
    assert error.message == f"its response is malformed: {place}"


FAILED = {"message": "Provider returned error", "code": 502}
REPORTED: dict[str, Any] = {
    "an error object": {"error": FAILED},
    "an error object in a list": [{"error": FAILED}],
    "an error object of its own": {"object": "error", **FAILED},
    "an error of the choice": body({"content": "Hi"}) | {"choices": [{"error": FAILED, "message": {"content": "Hi"}}]},
    "an error for a message": body({}) | {"choices": [{"error": FAILED, "message": None}]},
}


@pytest.mark.parametrize("sent", REPORTED.values(), ids=REPORTED)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_an_error_with_the_status_of_a_success_is_that_error(sent: Any, streams: bool) -> None:
    error = (await ours(answer(sent), streams=streams)).error
    assert isinstance(error, ModelServerError)
    assert str(classify(error, "tiny")) == "The model 'tiny' failed on its side, HTTP 502: Provider returned error"


@pytest.mark.parametrize("sent", ["", "  ", "<html>", '{"choices": ['])
async def test_a_response_that_is_no_json_is_an_error_of_the_server(sent: str) -> None:
    error = (await ours(answer(sent))).error
    assert type(error) is ModelAPIError
    assert "not JSON" in error.message


@pytest.mark.parametrize(
    "reported", [7, "many", {"prompt_tokens": "3", "completion_tokens": 2}, {"prompt_tokens": 3}, {}]
)
def test_usage_that_is_no_usage_counts_as_none(reported: object) -> None:
    assert (usage_of(reported).input_tokens, usage_of(reported).output_tokens) == (0, 0)
