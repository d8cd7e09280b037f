"""The smoke tests of providers run against a server on loopback, and skip what has no key."""

from __future__ import annotations

import os

import pytest

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
from tests.kit.wire_formats import WireCall, WireReply
from tests.kit.wire_server import WireRequest, WireServer
from tests.live.providers import PROVIDERS, check_all


def good(request: ChatRequest) -> ChatAnswer:
    if "add" not in request.tools:
        return Say(text="A sorted tree.")
    if request.messages[-1].role == "tool":
        return SayJson(data={"sum": 5555})
    return CallTools(calls=(ToolCall(name="add", args={"a": 1234, "b": 4321}),))


async def test_without_keys_each_provider_is_skipped_and_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert await check_all({}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[one.name, "skipped"] for one in PROVIDERS]
    assert lines[2].endswith("set GOOGLE_API_KEY or GEMINI_API_KEY")
    assert lines[-1].endswith("set LIVE_SERVER_URL and LIVE_SERVER_MODEL")


def answer_as_any_provider(request: WireRequest) -> WireReply:
    if "add" not in request.tools:
        return WireReply("A sorted tree.")
    if "5555" not in request:
        return WireReply(calls=(WireCall("add", {"a": 1234, "b": 4321}),))
    if "final_result" in request.tools:
        return WireReply(calls=(WireCall("final_result", {"sum": 5555}),))
    return WireReply('{"sum": 5555}')


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("openai", "openai"),
        ("anthropic", "anthropic"),
        ("google", "google.genai"),
        ("azure", "openai"),
        ("ollama", "openai"),
    ],
)
async def test_the_test_of_a_provider_runs_to_its_end(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(package)
    with WireServer(answer_as_any_provider) as server:
        server.point_to(monkeypatch)
        for variable, value in {
            "AZURE_OPENAI_API_KEY": "key-of-a-test",
            "AZURE_OPENAI_ENDPOINT": server.url,
            "OPENAI_API_VERSION": "2025-04-01-preview",
            "LIVE_AZURE_MODEL": "gpt-5-mini",
            "OLLAMA_BASE_URL": f"{server.url}/v1",
            "LIVE_OLLAMA_MODEL": "qwen3:8b",
        }.items():
            monkeypatch.setenv(variable, value)
        assert await check_all(os.environ, [name]) == 0, capsys.readouterr().out
        assert any(request.stream for request in server.requests)
    assert f"{name:10} passed" in capsys.readouterr().out


async def test_a_name_that_is_no_provider_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert await check_all({}, ["openia"]) == 2
    assert "there is no provider 'openia' here; known are openai, anthropic" in capsys.readouterr().out


async def test_a_server_that_works_passes_and_another_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(good) as server:
        environment = {"LIVE_SERVER_URL": server.url, "LIVE_SERVER_MODEL": "tiny"}
        assert await check_all(environment, ["server"]) == 0
    assert "server     passed" in capsys.readouterr().out
    with ModelServer(lambda _: Fail(status=401, message="no such key")) as server:
        assert await check_all({**environment, "LIVE_SERVER_URL": server.url}, ["server"]) == 1
    assert "server     FAILED" in capsys.readouterr().out
