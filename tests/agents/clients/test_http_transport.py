"""Replies that end early, stall or never end, and what is sent to a server."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright import Engine, Limits, Team
from teamwright.agents.clients.http_transport import EventWatch, ReadBounds
from teamwright.agents.model import agent as model_agent
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import AgentError, AgentTimeout, InvalidOutput, Refused, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReplied
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.turn import Reply, Turn
from tests.agents.raw_server import DONE, STREAM, RawServer, Write, endless, event, says, slowly
from tests.agents.recording import Recording

CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b'}}
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def ask(server: RawServer, record: Recording | None = None, **settings: object) -> Reply:
    agent = ModelAgent("a", model=server.model, **settings)  # pyright: ignore[reportArgumentType]
    return await agent.respond(Turn("Hi"), (record or Recording()).ctx)


BROKEN: dict[str, bytes] = {
    "in the middle of a text": STREAM + says("Half an answ"),
    "in the middle of an event": STREAM + says("Half") + says(" an answer", "stop")[:40],
    "in the middle of a tool call": STREAM + event({"role": "assistant", "tool_calls": [CALL]}),
    "after headers": STREAM,
    "after a comment": STREAM + b": ping\n\n",
    "at once": b"",
    "in the middle of headers": STREAM[:30],
    "within a chunk": CHUNKED + chunk(says("Half")) + b"ff\r\ndata",
    "between chunks": CHUNKED + chunk(says("Half")),
    "between chunks, after the finish reason": CHUNKED + chunk(says("All", "stop")),
    "short of its length": LENGTH % 5000 + says("Half"),
    "after the words of an end": STREAM + says('data: [DONE]\n\n"finish_reason": "stop" [DONE] "type":"message_stop"'),
    "of no type": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + says("Half"),
    "of another type": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + says("Half"),
    "of JSON short of its length": JSON % 90 + b'{"a',
}


@pytest.mark.parametrize("where", BROKEN)
async def test_a_reply_that_breaks_off_is_a_failure_that_is_retried_and_charged(where: str) -> None:  # D-02
    with RawServer(BROKEN[where]) as server:
        with pytest.raises(AgentError) as caught:
            await ask(server)
        assert len(server.heads) == 1
    assert type(caught.value) is ServiceError, caught.value
    assert caught.value.retryable
    assert caught.value.unknown_cost
    assert "gave no whole reply" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        STREAM + says("All of it.", "stop"),
        STREAM + says("All of it.") + DONE,
        STREAM + says("All of it.") + b"data:[DONE]",
        STREAM + says("All of it.").replace(b"\n\n", b"\r\n\r\n") + b"data: [DONE]\r\n\r\n",
        STREAM + (says("All of it.") + DONE).replace(b"\n", b"\r"),
        STREAM + b"\xef\xbb\xbf" + says("All of it.") + DONE,
        CHUNKED + chunk(says("All of")) + chunk(says(" it.", "stop")) + chunk(DONE) + b"0\r\n\r\n",
        CHUNKED + chunk(says("All of it.", "stop")) + chunk(DONE),
    ],
)
async def test_a_stream_is_whole_with_a_finish_reason_or_an_end_marker(body: bytes) -> None:  # D-02
    with RawServer(body) as server:
        assert (await ask(server)).text == "All of it."


async def test_a_web_page_is_called_no_json_and_not_a_stream_that_broke_off() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>Welcome</html>"
    with RawServer(page) as server, pytest.raises(ServiceError, match="its response is not JSON"):
        await ask(server)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
async def test_the_generators_of_a_client_library_are_exhausted_and_not_abandoned(line_end: bytes) -> None:
    sent = (says("All of it.", "stop") + DONE).replace(b"\n", line_end)
    abandoned: list[object] = []
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=abandoned.append)
    try:
        with RawServer(CHUNKED + chunk(sent) + b"0\r\n\r\n") as server:
            assert (await ask(server)).text == "All of it."
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert abandoned == []


async def test_a_connection_that_cannot_be_made_costs_nothing() -> None:
    with RawServer(b"") as server:
        gone = server
    with pytest.raises(ServiceError) as caught:
        await ask(gone)
    assert not caught.value.unknown_cost


ENDS = [
    b"data: [DONE]\n\n",
    b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n',
    b'data: {"candidates": [{"finishReason" : "STOP"}]}\n\n',
    b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
    b'data: {"type":"message_stop"}\n\n',
    b'data: {"type":"response.completed","response":{}}\n\n',
    b'data: {"type":"message-end"}\n\n',
    b'event: error\ndata: {"type": "error"}\n\n',
]
TEXTS = st.lists(st.sampled_from(["word", "[DONE]", "data: [DONE]", '"finish_reason": "stop"', "\n", '"', "\\", "é"]))


@given(TEXTS, st.sampled_from(ENDS), st.lists(st.integers(1, 60), min_size=1))
def test_the_end_of_a_stream_is_seen_wherever_it_is_split_and_never_in_a_text(  # D-02
    words: list[str], end: bytes, sizes: list[int]
) -> None:
    told = b"".join(says(" ".join(words[:count])) for count in range(len(words) + 1))
    watch = EventWatch(ReadBounds())
    for data, complete in ((told, False), (end, True)):
        position = number = 0
        while position < len(data):
            size = sizes[number % len(sizes)]
            assert watch.feed(data[position : position + size]) is None
            position, number = position + size, number + 1
        assert watch.complete is complete


def test_a_dialect_without_its_own_end_may_just_end() -> None:
    watch = EventWatch(ReadBounds(), ends=False)
    watch.feed(b"data: {}\n\n")
    assert watch.may_end
    assert not EventWatch(ReadBounds()).may_end


ENDLESS: dict[str, Write] = {
    "a line": endless(STREAM + b'data: {"choices": [{"delta": {"content": "', b"x" * 65536),
    "an event of many lines": endless(STREAM, b"data: x\n" * 8192),
    "comments": endless(STREAM, (b": " + b"x" * 1000 + b"\n\n") * 60),
    "a body": endless(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", b" " * 65536),
    "an error": endless(b"HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\n\r\n", b" " * 65536),
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"b" * 1000 + b"\r\n"),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_reply_without_an_end_is_refused_in_bounded_memory(what: str) -> None:  # D-05 S-01
    with RawServer(ENDLESS[what]) as server:
        await ask_for_nothing(server)  # imports what is needed
        tracemalloc.start()
        try:
            with pytest.raises(AgentError) as caught:
                await ask(server, max_bytes=100_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(caught.value, InvalidOutput | ServiceError)
    assert caught.value.unknown_cost
    assert peak < 5_000_000


async def ask_for_nothing(server: RawServer) -> None:
    with pytest.raises(AgentError):
        await ask(server, max_bytes=1000)


async def test_an_endless_text_is_cut_with_a_warning() -> None:  # D-05 S-01
    record = Recording()
    with RawServer(endless(STREAM, says("word " * 2000))) as server:
        reply = await ask(server, record, max_bytes=100_000)
    assert len(reply.text.encode()) in range(99_900, 100_001)
    assert reply.truncated
    assert reply.warnings == ("the reply of 'a' was cut at 100000 bytes; raise  max_bytes  to get more of it",)
    assert await ModelAgent("a", model=server.model, max_bytes=100_000).respond(Turn("Hi"), record.again().ctx) == reply


async def test_an_endless_tool_call_and_endless_json_are_refused() -> None:  # D-05 S-01
    more = event({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 5000}}]})
    refused = pytest.raises(InvalidOutput, match="JSON of more than 100000 bytes")
    begun = STREAM + event({"role": "assistant", "tool_calls": [CALL]})
    with RawServer(endless(begun, more)) as server, refused:
        await ask(server, max_bytes=100_000)
    with RawServer(endless(STREAM + says('{"text": "'), says("word " * 2000))) as server, refused:
        await ask(server, max_bytes=100_000, output_schema={"type": "object"})


async def test_endless_thoughts_are_cut_too() -> None:  # D-05
    thoughts = event({"reasoning_content": "hm " * 2000})
    with RawServer(endless(STREAM, thoughts)) as server, pytest.raises(AgentError):
        await ask(server, max_bytes=100_000)


@pytest.mark.parametrize("piece", ["word " * 50, "語" * 400, "x" * 900])
async def test_a_server_that_ignores_the_output_cap_is_read_no_further(piece: str) -> None:  # D-05
    record = Recording(max_output=100)
    with RawServer(endless(STREAM, says(piece))) as server:
        reply = await ask(server, record)
    assert reply.truncated
    assert len(reply.text.encode()) < 100 * 16 + 5000
    (warning,) = reply.warnings
    assert "was cut at 100 tokens, its share of the budget" in warning


async def test_a_compressed_reply_is_refused_unopened() -> None:  # D-05
    body = gzip.compress(says("x" * 50_000_000, "stop"))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    with RawServer(head % len(body) + body) as server:
        with pytest.raises(InvalidOutput, match="encoding 'gzip'"):
            await ask(server)
        assert server.heads[0]["accept-encoding"] == "identity"


async def test_silence_in_the_middle_of_a_stream_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:  # D-05
    monkeypatch.setattr(model_agent, "IDLE_SECONDS", 0.2)
    pause = threading.Event()
    with RawServer(slowly([STREAM + says("Half")], pause, 20)) as server:
        with pytest.raises(AgentTimeout, match=r"fell silent for 0\.2 s.* timeout "):
            await ask(server)
        pause.set()


async def test_the_silence_before_the_first_word_is_no_silence_within_a_stream(  # D-05
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_agent, "IDLE_SECONDS", 0.2)
    pause = threading.Event()
    with RawServer(slowly([STREAM, says("At last.", "stop")], pause, 0.5)) as server:
        assert (await ask(server)).text == "At last."


@pytest.mark.parametrize(("end", "seconds"), [(b"", 0.2), (DONE, 60)])
async def test_a_server_that_keeps_the_connection_after_the_end_is_not_waited_for(  # D-02
    end: bytes, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_agent, "IDLE_SECONDS", seconds)
    pause = threading.Event()
    with RawServer(slowly([STREAM + says("All.", "stop") + end], pause, 20)) as server:
        with anyio.fail_after(15):
            assert (await ask(server)).text == "All."
        pause.set()


@pytest.mark.parametrize("key", ["own-key", None])
async def test_a_server_gets_nothing_that_is_meant_for_another(  # S-04
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ORG_ID", "PROJECT_ID", "ADMIN_KEY", "WEBHOOK_SECRET", "ORGANIZATION"):
        monkeypatch.setenv(f"OPENAI_{name}", "for-another")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: for-another\nAuthorization: Bearer for-another\nCookie: x=1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/for-another")
    with RawServer(STREAM + says("Hello.", "stop")) as server:
        model = server.model.model_copy(update={"api_key": key})
        await ModelAgent("a", model=model).respond(Turn("Hi"), Recording().ctx)
        (sent,) = server.heads
    assert "for-another" not in json.dumps(sent)
    assert sent["authorization"] == f"Bearer {key or 'api-key-not-set'}"
    assert {name for name in sent if name.startswith("openai-")} == set()
    assert "cookie" not in sent


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
async def test_a_redirect_is_not_followed(status: bytes) -> None:  # S-04
    with RawServer(STREAM + says("Thanks for the key.", "stop")) as other:
        head = b"HTTP/1.1 %b\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, other.url.encode())
        with RawServer(head) as server, pytest.raises((Refused, ServiceError)):
            await ask(server)
        assert other.heads == []


async def test_a_proxy_never_sees_a_key_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:  # S-04
    with RawServer(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with RawServer(STREAM + says("Hello.", "stop")) as server:
            assert (await ask(server)).text == "Hello."
        assert proxy.heads == []
        secure = server.model.model_copy(update={"url": "https://model.invalid/v1", "api_key": "own-key"})
        with pytest.raises(ServiceError):
            await ModelAgent("a", model=secure).respond(Turn("Hi"), Recording().ctx)
        assert [one[""] for one in proxy.heads] == ["CONNECT model.invalid:443 HTTP/1.1"]
        assert "own-key" not in json.dumps(proxy.heads)


async def test_a_server_without_tls_is_asked_without_reading_root_certificates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with RawServer(STREAM + says("Hello.", "stop")) as server:
        assert (await ask(server)).text == "Hello."
        secure = server.model.model_copy(update={"url": server.url.replace("http", "https", 1)})
        with pytest.raises(Refused, match=r"can't be reached: .*; correct or unset SSL_CERT_FILE='.*missing.pem'"):
            await ModelAgent("a", model=secure).respond(Turn("Hi"), Recording().ctx)


async def test_a_named_provider_is_watched_as_well(monkeypatch: pytest.MonkeyPatch) -> None:  # D-02
    with RawServer(STREAM + says("Half")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(ServiceError, match="gave no whole reply"):
            await ModelAgent("a", model="openai-chat:gpt-5-mini").respond(Turn("Hi"), Recording().ctx)


@pytest.mark.skipif(find_spec("anthropic") is None, reason="the extra 'anthropic' is not installed")
async def test_a_stream_in_the_dialect_of_anthropic_is_watched_as_well(monkeypatch: pytest.MonkeyPatch) -> None:  # D-02
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": usage}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}},
    ]
    body = b"".join(
        b"event: %b\ndata: %b\n\n" % (str(one["type"]).encode(), json.dumps(one).encode()) for one in events
    )
    with RawServer(STREAM + body) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with pytest.raises(ServiceError, match="gave no whole reply"):
            await ModelAgent("a", model="anthropic:claude-opus-5").respond(Turn("Hi"), Recording().ctx)


async def test_a_reply_that_broke_off_is_charged_in_full_and_asked_for_again() -> None:  # D-02
    with RawServer(STREAM + says("Half an answ"), STREAM + says("All of it.", "stop")) as server:
        agent = ModelAgent("a", model=server.model, max_tokens=100, retry=RetryPolicy(times=1, backoff=0))
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            with engine.bus.listening(lambda _: None):  # a reply is streamed to those who follow the run
                result = await engine.run(Team("t", members=[agent], limits=Limits(tokens=5000)), "go", run_id="r")
            history = await engine.runs.history("r")
    assert (result.output, result.status) == ("All of it.", "completed")
    facts = [event.fact for event in history.events]
    (failed,) = [fact for fact in facts if isinstance(fact, AgentCallFailed)]
    calls = [fact for fact in facts if isinstance(fact, AgentCalled)]
    assert (failed.error, failed.charged, failed.retry_in) == ("server", True, 0.0)
    (replied,) = [fact for fact in facts if isinstance(fact, AgentReplied) and fact.tally]
    assert replied.tally is not None
    assert replied.tally.charged == sum(call.reserved for call in calls)


async def test_a_reply_that_never_ends_is_over_when_its_time_is() -> None:  # D-05
    drip = (STREAM, *[b": still here\n\n"] * 1000)
    with RawServer(slowly(drip, threading.Event(), 0.02)) as server:
        agent = ModelAgent("a", model=server.model, timeout=0.5, retry=RetryPolicy(times=0))
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(Team("t", members=[agent]), "go")
    assert result.failure is not None
    assert result.failure.error == "timeout"
    assert result.failure.message.endswith("'raw' did not answer within 0.5 s")


async def test_a_flood_does_not_pass_its_deadline() -> None:  # D-05
    with RawServer(endless(STREAM, says("x" * 20), 4_000_000_000)) as server:
        agent = ModelAgent("a", model=server.model, max_bytes=1_000_000_000, max_tokens=10**9)
        async with Engine(MemoryJournal()) as engine:
            began = anyio.current_time()
            result = await engine.run(Team("t", members=[agent], limits=Limits(seconds=1)), "go")
            assert anyio.current_time() - began < 20
    assert (result.status, result.stop_reason) == ("timeout", "deadline")


async def test_a_model_has_sixty_seconds_of_silence_and_six_hundred_in_all() -> None:  # D-05
    record = Recording()
    with RawServer(STREAM + says("Hi", "stop")) as server:
        await ask(server, record)
        agent = ModelAgent("a", model=server.model)
    effect = record.effects["request-1"]
    assert (effect.timeout, effect.default_timeout, agent.idle_seconds) == (None, 600.0, 60.0)


@pytest.mark.parametrize(("timeout", "idle"), [(0.5, 60.0), (600, 60.0), (3000, 300.0)])
def test_a_longer_timeout_allows_more_silence(timeout: float, idle: float) -> None:
    assert ModelAgent("a", model="local", timeout=timeout).idle_seconds == idle
