from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server import guard
from teamwright.server.credentials import Visitor
from teamwright.server.guard import HEADERS, ConnectionLimit, RateLimit
from tests.kit.server import serving


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", ""])
async def test_a_name_that_is_not_ours_is_refused(tmp_path: Path, host: str) -> None:  # DNS rebinding
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client("admin", Host=host).get("/api/runs")
    assert answer.status_code in (400, 421)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]:80"])
async def test_our_own_names_are_allowed(tmp_path: Path, host: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        assert (await server.client("read", Host=host).get("/api/runs")).status_code == 200


async def test_a_page_of_another_site_changes_nothing(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("admin", Origin="http://evil.example")
        answer = await client.post("/api/runs", json={"team": "t", "task": "Go"})
        assert (answer.status_code, "evil.example" in answer.text) == (403, True)
        shown = {"Authorization": f"Bearer {server.token('admin')}", "Origin": "http://evil.example"}
        with pytest.raises(websockets.exceptions.InvalidStatus):
            await websockets.connect(f"ws://127.0.0.1:{server.port}/api/runs/x/socket", additional_headers=shown)


async def test_a_body_without_end_is_not_read(tmp_path: Path) -> None:
    async def endless() -> object:
        for _ in range(1000):
            yield b"x" * 65_536

    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("admin")
        assert (await client.post("/api/runs", content=b"x" * 20_000_000)).status_code == 413
        answer = await client.post("/api/runs", content=endless(), headers={"Content-Type": "application/json"})  # pyright: ignore[reportArgumentType]
        assert answer.status_code == 413


async def test_browsers_are_told_to_be_careful(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        headers = (await server.client("read").get("/api/runs")).headers
    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe-inline" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize("origin", ["null", "http://[::1", "", "http://", "file://", "http://localhost"])
async def test_an_origin_that_is_not_this_address_changes_nothing(tmp_path: Path, origin: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client("admin", Origin=origin).post("/api/lab/evaluate", json={})
    assert answer.status_code == 403
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.lab
async def test_an_own_origin_may_be_written_in_capitals(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("admin", Host=f"LOCALHOST:{server.port}", Origin=f"http://localhost:{server.port}")
        assert (await client.post("/api/lab/evaluate", json={})).status_code == 200


@pytest.mark.lab
async def test_a_body_that_is_sent_too_slowly_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)

    async def slow() -> AsyncGenerator[bytes]:
        yield b"{"
        await asyncio.sleep(3)
        yield b"}"

    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client("admin").post(
            "/api/lab/evaluate", content=slow(), headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 408


async def test_a_failure_of_the_server_is_an_error_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:

        def fail(_: object) -> None:
            raise RuntimeError("a secret of the server")

        monkeypatch.setattr(type(server.state.overview), "page", fail)
        answer = await server.client("read").get("/api/runs")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


def test_each_holder_has_its_own_connections_and_gets_them_back() -> None:
    limit = ConnectionLimit(2)
    with ExitStack() as stack:
        held = [stack.enter_context(limit.held(holder)) for holder in ("a", "a", "a", "b")]
        assert held == [True, True, False, True]
    with limit.held("a") as allowed:
        assert allowed
    assert limit._open == {}  # pyright: ignore[reportPrivateUsage] - nothing is kept of who has left


async def test_a_visitor_with_too_many_sockets_is_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_OF_VISITOR", 2)
    async with serving(MemoryJournal(), tmp_path) as server:
        address = f"ws://127.0.0.1:{server.port}/api/socket"
        ann, bob = ({"Authorization": f"Bearer {server.token('read')}"} for _ in range(2))
        first = await websockets.connect(address, additional_headers=ann)
        async with (
            websockets.connect(address, additional_headers=ann),
            websockets.connect(address, additional_headers=bob),
        ):
            with pytest.raises(websockets.exceptions.InvalidStatus):
                await websockets.connect(address, additional_headers=ann)
            refused = await server.client(None, **ann).get("/api/runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert (await server.client(None, **bob).get("/api/runs")).status_code == 200
        await first.close()
        assert (await server.client(None, **ann).get("/api/runs")).status_code == 200


async def test_strangers_of_an_address_have_a_limit_and_visitors_are_not_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_OF_STRANGERS", 1)
    async with serving(MemoryJournal(), tmp_path) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")  # and no body
        await writer.drain()
        stranger = server.client(None, Authorization="Bearer tw_wrong")
        async with asyncio.timeout(10):
            while (await stranger.get("/api/runs")).status_code != 429:  # the first one may not have arrived yet
                pass
        assert (await server.client("read").get("/api/runs")).status_code == 200
        writer.close()


async def test_a_file_of_tokens_that_can_not_be_read_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        (tmp_path / "server-tokens.json").write_text("[broken", encoding="utf-8")
        answer = await client.get("/api/runs")
    assert (answer.status_code, "move it away" in answer.text) == (400, True)


def test_calls_are_allowed_at_once_and_then_at_their_rate() -> None:
    now = 0.0
    limit = RateLimit(2.0, 3, lambda: now)
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.wait("b") == 0
    now = 0.5
    assert (limit.wait("a"), limit.wait("a")) == (0, 0.5)


def test_addresses_are_forgotten_before_they_fill_the_memory() -> None:
    limit = RateLimit(1.0, 1)
    for number in range(guard.MOST_ADDRESSES + 100):
        limit.wait(str(number))
    assert len(limit._buckets) == guard.MOST_ADDRESSES  # pyright: ignore[reportPrivateUsage]


async def test_guessing_tokens_is_stopped(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        stranger = server.client(None, Authorization="Bearer tw_guess")
        codes = [(await stranger.get("/api/runs")).status_code for _ in range(70)]
        assert codes[:60] == [401] * 60
        assert codes[-1] == 429
        limited = await stranger.get("/api/runs")
        assert (limited.json()["error"]["code"], limited.headers["Retry-After"]) == ("rate_limited", "1")
        assert (await server.client("read").get("/api/runs")).status_code == 200  # who has a token is not locked out


async def test_every_change_leaves_a_line_with_who_and_from_where(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        runner, reader, admin = server.client("run"), server.client("read"), server.client("admin")
        run_id = (await runner.post("/api/runs", json={"team": "pair", "task": "secret words"})).json()["run_id"]
        assert (await reader.post(f"/api/runs/{run_id}/cancel")).status_code == 403
        await server.client(None).post("/api/session", json={"code": "guess"})
        await reader.get("/api/runs")
        lines = (await admin.get("/api/audit")).json()
        refused = await runner.get("/api/audit")
    assert refused.status_code == 403
    shown = [(one["what"], one["by"], one["role"], one["status"], one["address"]) for one in lines]
    assert shown == [
        ("begin", "", "", 401, "127.0.0.1"),
        ("cancel_run", "read-1", "read", 403, "127.0.0.1"),
        ("start_run", "run-0", "run", 201, "127.0.0.1"),
    ]
    assert lines[1]["on"] == {"run_id": run_id}
    file = tmp_path / "server-audit.jsonl"
    assert "secret words" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_line_names_the_run_that_was_started(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client = server.client("run")
        run = (await client.post("/api/runs", json={"team": "pair", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run)
        fork = (await client.post(f"/api/runs/{run}/forks", json={"at": 1})).json()["run_id"]
        asked = {"model": "pair", "messages": [{"role": "user", "content": "Go"}]}
        answer = (await client.post("/v1/chat/completions", json=asked)).json()["id"]
        lines = server.state.audit.read(3)
    assert [(one.what, one.on) for one in lines] == [
        ("complete", {"run_id": answer}),
        ("fork_run", {"run_id": run, "fork": fork}),
        ("start_run", {"run_id": run}),
    ]


async def test_a_stranger_can_not_fill_the_audit(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        nobody = server.client(None)
        for _ in range(80):
            await nobody.post("/api/runs", json={})
            await nobody.post("/api/nothing", json={})
        assert len((tmp_path / "server-audit.jsonl").read_text().splitlines()) <= 70


async def test_a_line_says_who_began_a_session(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        code = server.state.sessions.new_code(Visitor("ann", "run"))
        await server.client(None).post("/api/session", json={"code": code})
        (line,) = (await server.client("admin").get("/api/audit")).json()
    assert (line["what"], line["by"], line["role"], line["status"]) == ("begin", "ann", "run", 200)
