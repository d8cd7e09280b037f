"""The loopback model server, asked by the standard library, by bare sockets and by the real OpenAI client."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from teamwright.testing.model_server import (
    CallTools,
    ChatAnswer,
    ChatRequest,
    Drop,
    Fail,
    ModelServer,
    Say,
    SayJson,
    ToolCall,
)

TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}


def post(url: str, body: Any, **headers: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = urllib.request.Request(url, content, {"Content-Type": "application/json"} | headers)
    with urllib.request.urlopen(sent, timeout=20) as answer:
        return json.loads(answer.read())


def chat(server: ModelServer, prompt: str, **options: Any) -> Any:
    return post(f"{server.url}/chat/completions", {"model": "m", "messages": [user(prompt)]} | options)


def user(prompt: str) -> dict[str, Any]:
    return {"role": "user", "content": prompt}


def test_a_reply_carries_text_and_usage_of_four_characters_a_token() -> None:
    with ModelServer(lambda request: Say(text="x" * 9)) as server:
        answer = chat(server, "12345678")
    assert answer["choices"][0]["message"]["content"] == "x" * 9
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


@pytest.mark.parametrize("cap", ["max_tokens", "max_completion_tokens"])
def test_a_cap_cuts_the_reply_unless_the_server_ignores_it(cap: str) -> None:
    with ModelServer(lambda request: Say(text="abcdefghijklmnop")) as server:
        answer = chat(server, "go", **{cap: 2})
    assert answer["choices"][0]["message"]["content"] == "abcdefgh"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 2
    with ModelServer(lambda request: Say(text="abcdefghijklmnop"), honour_cap=False, report_usage=False) as server:
        answer = chat(server, "go", **{cap: 2})
    assert answer["choices"][0]["message"]["content"] == "abcdefghijklmnop"
    assert "usage" not in answer


def test_a_cap_cuts_the_arguments_of_tool_calls_too() -> None:
    calls = (ToolCall(name="search", args={"query": "a long question"}), ToolCall(name="search", args={"query": "b"}))
    with ModelServer(lambda request: CallTools(calls=calls)) as server:
        answer = chat(server, "go", max_tokens=3)
    first, second = answer["choices"][0]["message"]["tool_calls"]
    assert first["function"]["arguments"] == '{"query": "a'
    assert second["function"]["arguments"] == ""
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3


def test_json_is_sent_as_the_text() -> None:
    with ModelServer(lambda request: SayJson(data={"a": [1, None]})) as server:
        assert json.loads(chat(server, "go")["choices"][0]["message"]["content"]) == {"a": [1, None]}


def test_every_request_is_kept_in_order_with_body_headers_and_idempotency_key() -> None:
    with ModelServer() as server:
        for number in range(3):
            body = {"model": "m", "messages": [user(f"question {number}")], "temperature": number}
            post(f"{server.url}/chat/completions", body, **{"Idempotency-Key": f"key-{number}", "X-Mark": "m"})
        assert post(server.call_url, {"name": "writer", "prompt": "hello"}) == {"text": "You said: hello"}
        assert server.count == 4
        assert [request.number for request in server.requests] == [1, 2, 3, 4]
        assert [request.prompt for request in server.requests[:3]] == ["question 0", "question 1", "question 2"]
        assert [request.idempotency_key for request in server.requests] == ["key-0", "key-1", "key-2", None]
        assert [request.body.get("temperature") for request in server.requests[:3]] == [0, 1, 2]
        assert server.requests[0].headers["x-mark"] == "m"
        assert (server.requests[3].path, server.requests[3].model) == ("/call", "writer")
        assert sorted(request.at for request in server.requests) == [request.at for request in server.requests]
        server.clear()
        assert server.count == 0


def test_the_same_request_made_again_gets_the_same_tool_call_ids() -> None:
    with ModelServer(lambda request: CallTools(calls=(ToolCall(name="search"),))) as server:
        first, again, other = (chat(server, prompt) for prompt in ("one", "one", "two"))
    ids = [answer["choices"][0]["message"]["tool_calls"][0]["id"] for answer in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("path", ["chat", "call"])
def test_a_scripted_failure_has_its_status_retry_after_and_body(path: str) -> None:
    with ModelServer(lambda request: Fail(status=429, retry_after=0.5, message="slow down", code="rate")) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            chat(server, "go") if path == "chat" else post(server.call_url, {"name": "a", "prompt": "b"})
        with caught.value as error:
            assert (error.code, error.headers["Retry-After"]) == (429, "0.5")
            expected = {"message": "slow down", "type": "invalid_request_error", "code": "rate"}
            assert json.loads(error.read()) == {"error": expected}
        assert server.count == 1
        server.answer = lambda request: Fail(status=503, body={"mine": True})
        with pytest.raises(urllib.error.HTTPError) as caught:
            chat(server, "go")
        with caught.value as error:
            assert (error.code, json.loads(error.read())) == (503, {"mine": True})


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"messages": 3}', b'{"messages": [{}]}', b'{"messages": [1]}'])
def test_a_request_of_a_wrong_shape_is_answered_with_a_clear_message_and_not_counted(body: bytes) -> None:
    with ModelServer() as server:
        for url in (f"{server.url}/chat/completions", server.call_url):
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(url, body)
            with caught.value as error:
                assert error.code == 400
                assert b"malformed request" in error.read()
        assert server.count == 0


def test_other_paths_are_not_found_and_models_are_listed() -> None:
    with ModelServer() as server:
        with urllib.request.urlopen(f"{server.url}/models", timeout=20) as answer:
            assert json.loads(answer.read())["data"]
        for data in (None, b"{}"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{server.url}/other", data, timeout=20)
            with caught.value as error:
                assert error.code == 404


def test_a_dropped_connection_is_seen_by_the_caller_and_the_server_continues() -> None:
    answers: list[ChatAnswer] = [Drop(), Say(text="here again")]
    with ModelServer(lambda request: answers.pop(0)) as server:
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            chat(server, "go")
        assert chat(server, "go")["choices"][0]["message"]["content"] == "here again"
        assert server.count == 2


def test_a_stream_that_is_dropped_ends_early_after_its_text() -> None:
    with ModelServer(lambda request: Drop(text="only the beginning")) as server:
        sent = json.dumps({"model": "m", "messages": [user("go")], "stream": True}).encode()
        with (
            urllib.request.urlopen(f"{server.url}/chat/completions", sent, timeout=20) as answer,
            pytest.raises(http.client.IncompleteRead) as caught,
        ):
            answer.read()
        assert b"only the beginning" in caught.value.partial
        assert b"[DONE]" not in caught.value.partial


def test_concurrent_requests_are_all_counted_and_answered_with_their_own_text() -> None:
    barrier = threading.Barrier(16)

    def answer(request: ChatRequest) -> ChatAnswer:
        barrier.wait(20)
        return Say(text=request.prompt, delay=0.01)

    with ModelServer(answer) as server, ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda number: chat(server, f"p{number}")["choices"][0]["message"]["content"], range(64)))
        assert said == [f"p{number}" for number in range(64)]
        assert Counter(request.number for request in server.requests) == Counter(range(1, 65))


def test_closing_does_not_wait_for_a_slow_answer_and_frees_the_port() -> None:
    server = ModelServer(lambda request: Say(text="late", delay=3600))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(chat, server, "go")
        server.wait_for(1)
        server.close()
        server.close()
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            waiting.result(20)
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_what_the_answer_function_raises_is_raised_when_the_block_ends() -> None:
    def answer(request: ChatRequest) -> ChatAnswer:
        raise LookupError(request.prompt)

    def ask() -> None:
        with ModelServer(answer) as server, pytest.raises((urllib.error.URLError, ConnectionError)):
            chat(server, "what broke")

    with pytest.raises(LookupError, match="what broke"):
        ask()


def test_waiting_for_requests_that_do_not_come_ends_with_the_count() -> None:
    with ModelServer() as server, pytest.raises(TimeoutError, match="0 requests arrived"):
        server.wait_for(1, timeout=0.01)


CHILD = """
import json, sys, urllib.request
body = json.dumps({"name": "child", "prompt": "x" * 100}).encode()
for _ in range(int(sys.argv[2])):
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, {"Idempotency-Key": "k"})).read()
"""


def test_the_server_outlives_children_that_are_killed_in_the_middle_of_a_call() -> None:  # law 2
    hold = threading.Event()

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.number == 3:
            hold.wait(20)
        return Say(text="y" * 100_000)

    with ModelServer(answer) as server:
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.call_url, "10"], stderr=subprocess.DEVNULL)
        server.wait_for(3)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        hold.set()
        subprocess.run([sys.executable, "-c", CHILD, server.call_url, "2"], check=True)
        assert server.count == 5
        assert {request.idempotency_key for request in server.requests} == {"k"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_that_lives_on_does_not_keep_a_dropped_connection_open() -> None:
    arrived, forked = threading.Event(), threading.Event()

    def answer(request: ChatRequest) -> ChatAnswer:
        arrived.set()
        forked.wait(20)
        return Drop()

    with ModelServer(answer) as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(chat, server, "go")
        arrived.wait(20)
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        try:
            forked.set()
            with pytest.raises((urllib.error.URLError, ConnectionError)):
                waiting.result(10)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


async def test_the_openai_client_streams_text_with_usage() -> None:
    openai = pytest.importorskip("openai")
    text = "A text that is longer than a single chunk of the stream."
    with ModelServer(lambda request: Say(text=text)) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[user("go")], stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            silent = await client.chat.completions.create(model="m", messages=[user("go")], stream=True, max_tokens=1)
            unasked = [chunk async for chunk in silent]
    pieces = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(pieces) == text
    assert len([piece for piece in pieces if piece]) > 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], 14)
    assert all(chunk.usage is None for chunk in unasked)
    assert unasked[-1].choices[0].finish_reason == "length"


async def test_the_openai_client_gets_tool_calls_streamed_and_whole() -> None:
    openai = pytest.importorskip("openai")

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.messages[-1].role == "tool":
            return Say(text=f"found: {request.prompt}")
        assert request.tools == ("search",)
        return CallTools(calls=(ToolCall(name="search", args={"query": "what the user wants to know"}),))

    with ModelServer(answer) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(model="m", messages=[user("go")], tools=[TOOL])
            call = whole.choices[0].message.tool_calls[0]
            async with client.chat.completions.stream(model="m", messages=[user("go")], tools=[TOOL]) as stream:
                streamed = (await stream.get_final_completion()).choices[0]
            history = [user("go"), whole.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "it"}]
            final = await client.chat.completions.create(model="m", messages=history, tools=[TOOL])
    assert json.loads(call.function.arguments) == {"query": "what the user wants to know"}
    assert streamed.finish_reason == "tool_calls"
    again = streamed.message.tool_calls[0]
    assert (again.id, again.function.name) == (call.id, "search")
    assert again.function.arguments == call.function.arguments
    assert final.choices[0].message.content == "found: it"
    assert server.requests[2].messages[1].tool_calls == ("search",)


async def test_the_openai_client_sees_a_rate_limit_with_its_retry_after() -> None:
    openai = pytest.importorskip("openai")
    with ModelServer(lambda request: Fail(status=429, retry_after=7)) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(model="m", messages=[user("go")])
    assert caught.value.response.headers["retry-after"] == "7"
    assert server.count == 1
