"""Sockets and streams: replay from any number, then follow, without a gap or a duplicate; no client holds up a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from teamwright import FunctionAgent, Team
from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server import event_feeds as channel, state
from teamwright.server.event_feeds import Feed
from teamwright.server.routes import sockets
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Usage
from tests.kit.server import TestServer, serving


@asynccontextmanager
async def connect(server: TestServer, path: str) -> AsyncGenerator[ClientConnection]:
    headers = {"Authorization": f"Bearer {server.token('read')}"}
    async with websockets.connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers) as socket:
        yield socket


async def items(server: TestServer, run_id: str, after: int = 0) -> list[dict[str, Any]]:
    async with connect(server, f"/api/runs/{run_id}/socket?form=events&after={after}") as socket:
        return [json.loads(text) async for text in socket]


async def rest(feed: Feed) -> None:
    while await feed.next() is not None:
        pass


async def closing(socket: ClientConnection) -> tuple[int | None, str | None]:
    """The code and the reason with which the server closes a socket."""
    with suppress(websockets.exceptions.ConnectionClosed):
        async for _ in socket:
            pass
    return socket.close_code, socket.close_reason


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [one["number"] for one in found if "number" in one]


async def start(server: TestServer, team: str, **more: object) -> str:
    answer = await server.client("run").post("/api/runs", json={"team": team, "task": "Go", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["run_id"]


async def test_whoever_comes_whenever_gets_each_event_once(tmp_path: Path, teams: Path) -> None:  # law 7
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        run_id = await start(server, "slow")
        followers = []
        for after in (0, 1, 3, 0, 5, 2):
            followers.append((after, asyncio.create_task(items(server, run_id, after))))
            await asyncio.sleep(0.15)
        found = [(after, await task) for after, task in followers]
        last = len(await server.state.engine.journal.read(run_id))
        for after, one in found:
            assert numbers(one) == list(range(after + 1, last + 1)), after
            assert one[-1]["kind"] == "end"
        assert any(item["kind"] == "delta.text" for item in found[0][1])


async def test_what_has_left_the_window_is_read_from_the_journal(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "WINDOW_ITEMS", 3)
    monkeypatch.setattr(channel, "CHUNK", 2)
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        run_id = await start(server, "pair")
        await server.state.engine.runs.wait(run_id)
        last = len(await server.state.engine.journal.read(run_id))
        for after in (0, 4, last - 1, last):
            assert numbers(await items(server, run_id, after)) == list(range(after + 1, last + 1))


async def test_a_client_that_falls_behind_is_dropped_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "WINDOW_ITEMS", 5)
    monkeypatch.setattr(channel, "HEARTBEAT", 0.2)
    async with serving(MemoryJournal(), tmp_path) as server:
        gate = asyncio.Event()

        async def wait(text: str) -> str:
            await gate.wait()
            return text

        team = Team("t", members=[FunctionAgent(f"m{number}", wait) for number in range(10)])
        handle = await server.state.engine.start(team, "Go", run_id="long")
        async with server.state.feeds.follow("long", form="events") as feed:
            while await feed.next():
                pass
            seen = feed.number
            gate.set()
            assert (await handle.result()).status == "completed"  # it never waited for the client
            with pytest.raises(sockets.TooSlow) as dropped:
                await rest(feed)
        assert dropped.value.number >= seen


async def test_a_socket_stays_open_over_a_pause_and_gets_what_follows(tmp_path: Path, teams: Path) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        run_id = await start(server, "gated")
        following = asyncio.create_task(items(server, run_id))
        await server.state.engine.runs.wait(run_id)
        await asyncio.sleep(0.3)
        client = server.client("answer")
        (question,) = (await client.get(f"/api/runs/{run_id}/questions")).json()
        await client.post(f"/api/runs/{run_id}/answers", json={"key": question["key"], "text": "approve"})
        found = await following
        last = len(await server.state.engine.journal.read(run_id))
        assert numbers(found) == list(range(1, last + 1))


async def test_silence_is_filled_with_heartbeats(tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT", 0.2)
    monkeypatch.setattr(channel, "HEARTBEAT", 0.2)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = await start(server, "slow")
        assert {"kind": "heartbeat"} in await items(server, run_id)
        run_id = await start(server, "slow")
        async with server.client("read").stream("GET", f"/api/runs/{run_id}/stream") as stream:
            assert ": still here" in [line async for line in stream.aiter_lines()]


async def test_a_stream_continues_after_the_last_event_id(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = await start(server, "pair")
        headers = {"Last-Event-ID": "4"}
        address = f"/api/runs/{run_id}/stream?form=events"
        async with server.client("read").stream("GET", address, headers=headers) as stream:
            lines = [line async for line in stream.aiter_lines()]
        ids = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
        assert ids == list(range(5, ids[-1] + 1))


async def test_one_socket_shows_all_runs_and_follows_some(tmp_path: Path, teams: Path) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        first = await start(server, "pair")
        await server.state.engine.runs.wait(first)
        async with connect(server, "/api/socket") as socket:
            begun = [json.loads(await socket.recv()) for _ in range(2)]
            assert [(one["kind"], one.get("run_id")) for one in begun] == [("row", first), ("ready", None)]
            assert (begun[0]["run"]["status"], begun[0]["run"]["task"]) == ("completed", "Go")
            await socket.send(json.dumps({"follow": first, "after": 2, "form": "events"}))
            second = await start(server, "pair")
            found: list[dict[str, Any]] = []
            ended = set[str]()
            while ended != {first, second}:
                item = json.loads(await asyncio.wait_for(socket.recv(), 10))
                found.append(item)
                if item["kind"] == "end" or item.get("run", {}).get("status") == "completed":
                    ended.add(item["run_id"])
        followed = [one for one in found if one.get("run_id") == first and "number" in one]
        last = len(await server.state.engine.journal.read(first))
        assert numbers(followed) == list(range(3, last + 1))


async def test_an_end_of_the_token_ends_the_socket(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT", 0.1)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = await start(server, "slow")
        async with connect(server, f"/api/runs/{run_id}/socket") as socket:
            for one in server.state.tokens.all():
                server.state.tokens.delete(one.name)
            assert (await closing(socket))[0] == 1008


async def test_a_server_that_stops_says_so(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = await start(server, "gated")
        await server.state.engine.runs.wait(run_id)
        async with connect(server, f"/api/runs/{run_id}/socket") as socket:
            await socket.recv()
            server.state.feeds.close()
            assert await closing(socket) == (1012, "the server stops; come back later")


async def test_secrets_are_masked_also_across_pieces(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        team = Team("t", members=[FunctionAgent("a", lambda text: "the key is sk-abcdefghijklmnopqrstuvwxyz")])
        await server.state.engine.run(team, "Go", run_id="leaky")
        shown = json.dumps(await items(server, "leaky"))
        read = [(await server.client("read").get(f"/api/runs/leaky{path}")).text for path in ("", "/events")]
    for text in (shown, *read):
        assert "the key is" in text
        assert "sk-abc" not in text


async def test_a_socket_sends_page_events_as_they_are_listed(tmp_path: Path, teams: Path) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        run_id = await start(server, "slow")
        async with connect(server, f"/api/runs/{run_id}/socket") as socket:
            live = [json.loads(text) async for text in socket]
        listed = (await server.client("read").get(f"/api/runs/{run_id}/page-events?after=2")).json()
        assert [one for one in live if one.get("number", 0) > 2] == listed
        assert "".join(one["text"] for one in live if one["kind"] == "delta").startswith("word word")
        assert (await server.client("read").get(f"/api/runs/{run_id}/page-events?after=1000")).json() == []


async def test_an_end_of_the_token_ends_the_stream(
    tmp_path: Path, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "HEARTBEAT", 0.1)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        run_id = await start(server, "gated")
        async with asyncio.timeout(5), server.client("read").stream("GET", f"/api/runs/{run_id}/stream") as stream:
            for one in server.state.tokens.all():
                server.state.tokens.delete(one.name)
            assert "event: refused" in [line async for line in stream.aiter_lines()]


class Writer(Agent):
    """A member that writes its reply piece by piece, each when the test lets it."""

    kind = "model"

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        effect = Effect("model", "m", "request", self._call, 84, 1, 100, None)
        return Reply.of(self.name, str((await ctx.effect("request", effect)).value))

    async def _call(self, attempt: Attempt) -> Returned:
        said: list[str] = []
        while (piece := await self.pieces.get()) is not None:
            attempt.delta(piece)
            said.append(piece)
        return Returned("".join(said), Usage(requests=1, input_tokens=5, output_tokens=5))

    def write(self, *pieces: str | None) -> None:
        for piece in pieces:
            self.pieces.put_nowait(piece)


KEY = "MIIEpAIBAAKCAQEA7bq2\nZm9vYmFyZm9vYmFyZm9v\n"


@pytest.mark.parametrize("form", ["page", "events"])
@pytest.mark.parametrize("window", [4096, 2])
async def test_who_comes_in_the_middle_of_a_reply_gets_its_masked_text_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, window: int
) -> None:
    monkeypatch.setattr(channel, "WINDOW_ITEMS", window)
    async with serving(MemoryJournal(), tmp_path) as server:
        one, other = Writer("one"), Writer("other")
        team = Team("t", members=[one, other])
        handle = await server.state.engine.start(team, "Go", run_id="r")

        async def late(after: int, seen: asyncio.Event) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            async with connect(server, f"/api/runs/r/socket?form={form}&after={after}") as socket:
                async for text in socket:
                    found.append(json.loads(text))
                    if found[-1]["kind"].startswith("delta"):
                        seen.set()
            return found

        readers: list[asyncio.Task[list[dict[str, Any]]]] = []
        lines = KEY.splitlines(keepends=True)
        begin, end = "The key: -----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"
        for word in [begin, *lines, end, "and more ", "of it "]:
            one.write(word)
            await asyncio.sleep(0.02)
            seen, last = asyncio.Event(), len(await server.state.engine.journal.read("r"))
            readers.append(asyncio.create_task(late(last if len(readers) % 2 else 0, seen)))
            await asyncio.wait_for(seen.wait(), 10)
        monkeypatch.setattr(channel, "WINDOW_ITEMS", 4096)
        one.write(None)
        other.write("done", None)
        await handle.result()
        for reader in readers:
            found = await reader
            pieces = [item for item in found if item["kind"] in ("delta", "delta.text") and "The key" in item["text"]]
            shown = "".join(item["text"] for item in found if item["kind"] in ("delta", "delta.text"))
            assert shown.startswith("The key: [redacted]")
            assert [item["offset"] for item in pieces] == [0]
            assert not [line for line in KEY.splitlines() if line in json.dumps(found)]


async def test_messages_of_a_visitor_are_paced_and_nobody_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, burst = 0.0, 20
    monkeypatch.setattr(state, "MESSAGES", (20.0, float(burst)))
    async with serving(MemoryJournal(), tmp_path) as server:
        monkeypatch.setattr(server.state.messages, "_clock", lambda: now)
        async with connect(server, "/api/socket") as socket:
            assert json.loads(await socket.recv())["kind"] == "ready"
            for number in range(burst + 20):
                await socket.send(json.dumps({"follow": f"nobody-{number}"}))
            answered = [json.loads(await socket.recv())["kind"] for _ in range(burst)]
            assert set(answered) == {"error"}
            with pytest.raises(TimeoutError):  # no time passes for the limit
                await asyncio.wait_for(socket.recv(), 0.3)
            async with connect(server, "/api/socket") as other:  # of another visitor
                assert json.loads(await other.recv())["kind"] == "ready"
                await other.send(json.dumps({"follow": "nobody"}))
                assert json.loads(await other.recv())["kind"] == "error"
            now = 1.0
            answered = [json.loads(await asyncio.wait_for(socket.recv(), 10))["kind"] for _ in range(20)]
            assert set(answered) == {"error"}
