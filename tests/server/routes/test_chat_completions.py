from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest

from teamwright.errors import JournalError
from teamwright.journal import MemoryJournal
from teamwright.server.routes import chat_completions
from tests.kit.server import TestServer, serving

TEAM = """\
agents:
  a: {scripted: replies.yaml}
  b: {scripted: replies.yaml}
teams:
  pair: {members: [a, b]}
"""
REPLIES = """\
rules:
  - {agent: a, match: break, error: refused}
  - {agent: a, reply: one}
  - {agent: b, match: "(?s)first question.*and then", reply: "I remember."}
  - {agent: b, match: first question, reply: "I was asked."}
  - {agent: b, reply: two}
"""


@asynccontextmanager
async def client(tmp_path: Path) -> AsyncGenerator[tuple[TestServer, openai.AsyncOpenAI]]:
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "team.yaml").write_text(TEAM)
    (folder / "replies.yaml").write_text(REPLIES)
    async with serving(MemoryJournal(), tmp_path, [folder]) as server:
        official = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token("run"), max_retries=0)
        async with official:
            yield server, official


async def test_the_official_client_asks_a_team_as_a_model(tmp_path: Path) -> None:
    async with client(tmp_path) as (_, official):
        assert [one.id async for one in official.models.list()] == ["pair"]
        asked = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Go"}]
        answer = await official.chat.completions.create(model="pair", messages=asked)  # pyright: ignore[reportArgumentType]
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("two", "stop")
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0


async def test_a_stream_has_what_members_said_as_reasoning_and_the_answer_as_content(tmp_path: Path) -> None:
    async with client(tmp_path) as (_, official):
        stream = await official.chat.completions.create(
            model="pair",
            messages=[{"role": "user", "content": "Go"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(one.content or "" for one in deltas) == "two"
    assert "a: one" in "".join(getattr(one, "reasoning_content", None) or "" for one in deltas)
    assert chunks[-1].usage is not None


async def test_a_conversation_of_the_server_goes_on(tmp_path: Path) -> None:
    async with client(tmp_path) as (_, official):
        for text in ("first question", "and then?"):
            answer = await official.chat.completions.create(
                model="pair", messages=[{"role": "user", "content": text}], metadata={"conversation": "c"}
            )
    assert answer.choices[0].message.content == "I remember."


async def test_a_failed_run_is_an_error_and_no_answer(tmp_path: Path) -> None:
    async with client(tmp_path) as (_, official):
        with pytest.raises(openai.APIStatusError, match="is failed") as error:
            await official.chat.completions.create(model="pair", messages=[{"role": "user", "content": "break"}])
        assert error.value.status_code == 502
        with pytest.raises(openai.NotFoundError, match="did you mean 'pair'"):
            await official.chat.completions.create(model="piar", messages=[{"role": "user", "content": "Go"}])


GO = {"role": "user", "content": "Go"}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"model": "nobody"}, 404),
        ({"model": "../pair"}, 404),
        ({"n": 2}, 422),
        ({"n": 1, "tools": [{"type": "function", "function": {"name": "f"}}], "temperature": 0.5}, 200),
        ({"messages": []}, 422),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, 400),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 422),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}, GO]}, 422),
        ({"messages": [{"role": "user", "content": None}]}, 422),
        ({"messages": [{"role": "user", "content": ""}]}, (200, 400)),
        ({"messages": [{"role": "user", "content": []}]}, (200, 400)),
        ({"messages": [{"role": "user", "content": "Hi", "name": "\u0000/.."}, GO]}, (200, 400)),
        ({"metadata": {"conversation": "../x"}}, (400, 422)),
        ({"metadata": {"conversation": "x" * 10_000}}, (400, 422)),
        ({"metadata": {"conversation": 5}}, 422),
        ({"stream_options": None, "metadata": {}}, 200),
    ],
)
async def test_odd_requests_have_a_fitting_status(
    tmp_path: Path, changed: dict[str, object], status: int | tuple[int, ...]
) -> None:
    async with client(tmp_path) as (server, _):
        for stream in (False, True):
            body = {"model": "pair", "messages": [GO], "stream": stream, **changed}
            answer = await server.client("run").post("/v1/chat/completions", json=body)
            assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text


async def test_a_stream_has_usage_where_it_is_asked_for(tmp_path: Path) -> None:
    async with client(tmp_path) as (server, _):
        for options, expected in ((None, False), ({"include_usage": True}, True)):
            body = {"model": "pair", "messages": [GO], "stream": True, "stream_options": options}
            text = (await server.client("run").post("/v1/chat/completions", json=body)).text
            assert ('"choices": []' in text, text.endswith("data: [DONE]\n\n")) == (expected, True)


async def test_a_failure_in_a_stream_is_an_item_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise JournalError("token=abcdef123456 can't be read")

    async with client(tmp_path) as (server, _):
        monkeypatch.setattr(type(server.state.engine.runs), "wait", broken)
        body = {"model": "pair", "messages": [GO], "stream": True}
        text = (await server.client("run").post("/v1/chat/completions", json=body)).text
    assert '"error": {"code": "run_failed", "message": "token=[redacted] can' in text


async def test_a_stream_ends_when_its_token_is_revoked_and_the_run_goes_on(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_completions, "HEARTBEAT", 0.01)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        body = {"model": "slow", "messages": [GO], "stream": True}
        async with server.client("run").stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            run_id = json.loads((await anext(lines)).removeprefix("data: "))["id"]
            assert server.state.tokens.delete("run-0")
            rest = [line async for line in lines if line.startswith("data: ")]
        assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "unauthorized"
        assert (await server.state.engine.runs.wait(run_id)).status == "completed"
