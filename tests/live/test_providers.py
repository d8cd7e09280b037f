"""The smoke tests of providers run against a server on loopback, and skip what has no key."""

from __future__ import annotations

import pytest

from teamwright.testing.chat import CallTools, ChatAnswer, ChatRequest, Fail, Say, SayJson, ToolCall
from teamwright.testing.model_server import ModelServer
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


async def test_a_server_that_works_passes_and_another_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(good) as server:
        environment = {"LIVE_SERVER_URL": server.url, "LIVE_SERVER_MODEL": "tiny"}
        assert await check_all(environment, ["server"]) == 0
    assert "server     passed" in capsys.readouterr().out
    with ModelServer(lambda _: Fail(status=401, message="no such key")) as server:
        assert await check_all({**environment, "LIVE_SERVER_URL": server.url}, ["server"]) == 1
    assert "server     FAILED" in capsys.readouterr().out
