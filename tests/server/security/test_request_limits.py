from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server.security import request_limits
from teamwright.server.security.request_limits import HEADERS
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
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.3)

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
