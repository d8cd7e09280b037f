from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from teamwright import FunctionAgent, Team
from teamwright.errors import JournalError
from teamwright.journal import Journal, MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server import driven_runs as awaited_runs, event_feeds
from tests.kit.server import TestServer, serving
from tests.kit.terminal import write_team
from tests.server.conftest import PAIR
from tests.server.routes.test_sockets import Writer

TEAM = """\
agents:
  a: {model: scripted:replies.yaml}
  b: {model: scripted:replies.yaml}
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


async def test_the_answer_is_streamed_as_it_is_written_and_nothing_is_said_twice(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        writer = Writer("b")
        team = Team("t", members=[FunctionAgent("a", lambda text: "one"), writer])
        server.state.catalogue.load = lambda id_: team  # pyright: ignore[reportAttributeAccessIssue]
        body = {"model": "t", "messages": [GO], "stream": True}
        async with server.client("run").stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = (line.removeprefix("data: ") async for line in answer.aiter_lines() if line.startswith("data: {"))
            deltas: list[dict[str, str]] = []
            for word in ("The", " sea", " is"):
                writer.write(f"{word.strip()} ")
                async for line in lines:  # before the next word is written
                    deltas.append(json.loads(line)["choices"][0]["delta"])
                    if deltas[-1].get("content") == word:
                        break
            writer.write("wide.", None)
            deltas += [json.loads(line)["choices"][0]["delta"] async for line in lines]
    assert [one["content"] for one in deltas if one.get("content")] == ["The", " sea", " is", " wide."]
    assert [one["reasoning_content"] for one in deltas if "reasoning_content" in one] == ["a: one\n\n"]


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
        assert error.value.status_code == 422
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
        monkeypatch.setattr(type(server.state.driven), "wait", broken)
        body = {"model": "pair", "messages": [GO], "stream": True}
        text = (await server.client("run").post("/v1/chat/completions", json=body)).text
    assert '"error": {"code": "run_failed", "message": "token=[redacted] can' in text


async def test_a_stream_ends_when_its_token_is_revoked_and_the_run_goes_on(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feeds, "HEARTBEAT", 0.01)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        body = {"model": "slow", "messages": [GO], "stream": True}
        async with server.client("run").stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            run_id = json.loads((await anext(lines)).removeprefix("data: "))["id"]
            assert server.state.tokens.delete("run-0")
            rest = [line async for line in lines if line.startswith("data: ")]
        assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "unauthorized"
        assert (await server.state.engine.runs.wait(run_id)).status == "completed"


@asynccontextmanager
async def default_client(
    tmp_path: Path, teams: Path, journal: Journal | None = None, **options: Any
) -> AsyncGenerator[tuple[TestServer, openai.AsyncOpenAI]]:
    """The official client as it is, with its retries."""
    async with (
        serving(journal or MemoryJournal(), tmp_path, [teams]) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token("run"), **options) as official,
    ):
        yield server, official


async def runs_of(server: TestServer) -> list[str]:
    return [one.id for one in await server.state.engine.runs.list()]


async def ended(server: TestServer, run_id: str) -> str:
    async with asyncio.timeout(10):
        while (found := await server.state.engine.runs.find(run_id)) and found.status == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert found is not None
    return found.status


@pytest.mark.parametrize(("team", "code"), [("broken", "run_failed"), ("gated", "run_paused")])
@pytest.mark.parametrize("stream", [False, True])
async def test_one_call_without_an_answer_starts_one_run(
    tmp_path: Path, teams: Path, team: str, code: str, stream: bool
) -> None:
    write_team(teams / "broken", PAIR.replace("pair:", "broken:"), "rules:\n  - {agent: a, error: refused}\n")
    async with default_client(tmp_path, teams) as (server, official):

        async def ask() -> str | None:
            answer = await official.chat.completions.create(
                model=team, messages=[{"role": "user", "content": "Go"}], stream=stream
            )
            if not isinstance(answer, openai.AsyncStream):
                return answer.choices[0].message.content
            return "".join([one.choices[0].delta.content or "" async for one in answer])

        with pytest.raises(openai.APIError) as error:
            await ask()
        assert (error.value.code, len(await runs_of(server))) == (code, 1)
        if team == "gated":  # the same request finds the run, and its answer once it goes on
            (question,) = (await server.client("answer").get("/api/inbox")).json()
            (run_id,) = await runs_of(server)
            reply = {"key": question["key"], "text": "approve"}
            await server.client("answer").post(f"/api/runs/{run_id}/answers", json=reply)
            assert (await ask(), len(await runs_of(server))) == ("two", 1)


async def test_a_call_that_timed_out_finds_its_run_again(tmp_path: Path, teams: Path) -> None:
    async with default_client(tmp_path, teams, timeout=0.9) as (server, official):
        answer = await official.chat.completions.create(model="slow", messages=[{"role": "user", "content": "Go"}])
        assert answer.choices[0].message.content == "word word word"
        assert await runs_of(server) == [answer.id]
        again = await official.chat.completions.create(
            model="slow", messages=[{"role": "user", "content": "Go"}], timeout=20
        )
        assert again.id != answer.id  # it was answered: who asks again wants another answer


async def test_a_call_that_was_given_up_ends_its_run_unless_somebody_comes_back(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited_runs, "RETURN_SECONDS", 0.6)
    async with default_client(tmp_path, teams, timeout=0.3, max_retries=0) as (server, official):
        ask = partial(official.chat.completions.create, model="held", messages=[{"role": "user", "content": "Go"}])
        for _ in range(3):
            with pytest.raises(openai.APITimeoutError):
                await ask()
        (run_id,) = await runs_of(server)
        assert await ended(server, run_id) == "cancelled"
        with pytest.raises(openai.APITimeoutError):
            await ask(store=True)
        kept = (await runs_of(server))[0]
        await asyncio.sleep(1)
        found = await server.state.engine.runs.find(kept)
        assert (kept != run_id, found is not None and found.status) == (True, "running")


@pytest.mark.parametrize("kept", [{}, {"store": True}, {"background": True}])
async def test_a_closed_stream_ends_its_run_unless_it_is_stored(
    tmp_path: Path, teams: Path, kept: dict[str, bool]
) -> None:
    async with default_client(tmp_path, teams) as (server, official):
        stream = await official.chat.completions.create(
            model="slow" if kept else "held", messages=[{"role": "user", "content": "Go"}], stream=True, extra_body=kept
        )
        run_id = (await anext(aiter(stream))).id
        await stream.close()
        assert await ended(server, run_id) == ("completed" if kept else "cancelled")
        assert len(await runs_of(server)) == 1


async def test_requests_with_one_key_have_one_run_also_after_a_restart(tmp_path: Path, teams: Path) -> None:
    journal = tmp_path / "journal.db"
    found: set[str] = set()
    for _ in range(2):
        async with default_client(tmp_path, teams, SqliteJournal(journal)) as (server, official):
            for key in ("k", "k", "other"):
                answer = await official.chat.completions.create(
                    model="pair", messages=[{"role": "user", "content": "Go"}], extra_headers={"Idempotency-Key": key}
                )
                assert answer.choices[0].message.content == "two"
                if key == "k":
                    found.add(answer.id)
            if not server.state.tokens.delete("run-0"):
                raise AssertionError
    assert len(found) == 1


async def test_a_key_of_another_question_is_refused_and_starts_nothing(tmp_path: Path, teams: Path) -> None:
    async with default_client(tmp_path, teams) as (server, official):
        asked = partial(official.chat.completions.create, model="pair", extra_headers={"Idempotency-Key": "k"})
        first = await asked(messages=[{"role": "user", "content": "Go"}])
        with pytest.raises(openai.ConflictError, match="task"):
            await asked(messages=[{"role": "user", "content": "Stop"}])
        assert await runs_of(server) == [first.id]
        slow = partial(official.chat.completions.create, model="slow", extra_headers={"Idempotency-Key": "open"})
        one, two = (asyncio.create_task(slow(messages=[{"role": "user", "content": "Go"}])) for _ in range(2))
        async with asyncio.timeout(20):
            while len(await runs_of(server)) < 2:  # noqa: ASYNC110 - the server starts it
                await asyncio.sleep(0.02)
        with pytest.raises(openai.ConflictError, match="task"):  # also while the first is open
            await slow(messages=[{"role": "user", "content": "Stop"}])
        assert (await one).id == (await two).id


async def test_a_call_over_a_restart_finds_its_run(tmp_path: Path, teams: Path) -> None:
    journal, asked = tmp_path / "journal.db", {"model": "slow", "messages": [GO]}
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        client = server.client("run")
        waiting = asyncio.create_task(client.post("/v1/chat/completions", json=asked))
        async with asyncio.timeout(10):
            while not await runs_of(server):  # noqa: ASYNC110 - the server starts it
                await asyncio.sleep(0.02)
        (run_id,) = await runs_of(server)
        server.state.feeds.close()
        stopped = await waiting
        assert (stopped.status_code, stopped.json()["error"]["code"]) == (503, "stopping")
        headers = {"Authorization": client.headers["Authorization"]}
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        again = await server.client(None, **headers).post("/v1/chat/completions", json=asked, timeout=20)
        assert (again.json().get("id"), await runs_of(server)) == (run_id, [run_id])


async def test_equal_questions_of_a_client_that_counts_its_tries_are_different_calls(
    tmp_path: Path, teams: Path
) -> None:
    async with default_client(tmp_path, teams) as (server, official):
        ask = partial(official.chat.completions.create, model="slow", messages=[{"role": "user", "content": "Go"}])
        answers = await asyncio.gather(ask(), ask(), ask())
        assert len({one.id for one in answers}) == 3
        plain = [server.client("run")] * 2
        asked = {"model": "slow", "messages": [GO]}
        replies = await asyncio.gather(*(one.post("/v1/chat/completions", json=asked, timeout=20) for one in plain))
        assert len({one.json()["id"] for one in replies}) == 1


async def test_a_model_is_read_by_its_id(tmp_path: Path) -> None:
    async with client(tmp_path) as (_, official):
        assert (await official.models.retrieve("pair")).id == "pair"
        with pytest.raises(openai.NotFoundError, match="did you mean 'pair'"):
            await official.models.retrieve("piar")
