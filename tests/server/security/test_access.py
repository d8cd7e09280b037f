"""Every route and socket refuses strangers, and those whose role is too low; taken from the OpenAPI document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server.routes import sockets
from teamwright.server.security.sessions import Sessions
from teamwright.server.security.tokens import ROLES, Role, Tokens, Visitor
from tests.kit.server import TestServer, serving

PUBLIC = {("post", "/api/session")}
"""A code or a token is traded without one in a header."""
LAST = ("delete", "/api/session")
"""Ends the session that is tried."""
READS = {
    "/api/lab/evaluate", "/api/lab/sweep", "/api/lab/simulate", "/api/lab/advise", "/api/lab/plan",
    "/api/runs/{run_id}/plan/difference", "/api/session",
}  # fmt: skip
ANSWERS = {
    "/api/runs/{run_id}/answers", "/api/runs/{run_id}/messages", "/api/runs/{run_id}/members/{member}/pause",
    "/api/runs/{run_id}/members/{member}/resume",
}  # fmt: skip
ADMIN = {"/api/audit", "/api/webhooks"}


def needed(method: str, path: str) -> Role:
    """The role that a route should need; a new route that changes something needs `run` unless it is named above."""
    if path in ADMIN:
        return "admin"
    if method == "get" or path in READS:
        return "read"
    return "answer" if path in ANSWERS else "run"


async def operations(server: TestServer) -> list[tuple[str, str]]:
    document: dict[str, Any] = (await server.client(None).get("/api/openapi.json")).json()
    found = [(method, path) for path, methods in document["paths"].items() for method in methods]
    return sorted(found, key=LAST.__eq__)


async def statuses(server: TestServer, headers: dict[str, str]) -> dict[tuple[str, str], int]:
    client = server.client(None, **headers)
    found: dict[tuple[str, str], int] = {}
    for method, path in await operations(server):
        if (method, path) not in PUBLIC:
            server.state.strangers._buckets.clear()  # pyright: ignore[reportPrivateUsage] - the rate is not the question
            answer = await client.request(method, re.sub(r"\{\w+\}", "x", path), json={} if method != "get" else None)
            found[method, path] = answer.status_code
    return found


@pytest.mark.parametrize(
    "shown",
    [
        "nothing",
        "a wrong token",
        "a revoked token",
        "no scheme",
        "the session of a revoked token",
        "an unknown session",
    ],
)
async def test_no_route_answers_a_stranger(tmp_path: Path, shown: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token("admin")
        cookie = await signed_in(server, token)
        server.state.tokens.delete("admin-0")
        headers = {
            "nothing": {},
            "a wrong token": {"Authorization": "Bearer tw_wrong"},
            "a revoked token": {"Authorization": f"Bearer {token}"},
            "no scheme": {"Authorization": server.token("admin")},
            "the session of a revoked token": {"Cookie": cookie},
            "an unknown session": {"Cookie": f"teamwright_session_{server.port}=guess; teamwright_session=guess"},
        }[shown]
        found = await statuses(server, headers)
    assert len(found) > 30
    assert {key: status for key, status in found.items() if status != 401} == {}


async def test_an_expired_session_opens_nothing(tmp_path: Path) -> None:
    now = 1000.0
    sessions = Sessions(Tokens(tmp_path / "tokens.json"), lambda: now)
    session = sessions.trade(sessions.new_code(Visitor("ann", "admin")))
    assert session is not None
    assert sessions.visitor(session) is not None
    now += 13 * 3600
    assert sessions.visitor(session) is None


async def signed_in(server: TestServer, token: str) -> str:
    """Sign in with a token, and return the cookie of the session."""
    answer = await server.client(None).post("/api/session", json={"token": token})
    assert answer.status_code == 200
    return answer.headers["Set-Cookie"].split(";")[0]


@pytest.mark.parametrize("shows", ["token", "session"])
@pytest.mark.parametrize("role", ROLES)
async def test_every_route_needs_its_role(tmp_path: Path, role: Role, shows: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token(role)
        by_session = {"Cookie": await signed_in(server, token)}
        found = await statuses(server, by_session if shows == "session" else {"Authorization": f"Bearer {token}"})
    refused = {key for key, status in found.items() if status == 403}
    assert refused == {key for key in found if ROLES.index(role) < ROLES.index(needed(*key))}
    assert not [key for key, status in found.items() if status >= 500]


@pytest.mark.parametrize("path", ["/api/socket", "/api/runs/x/socket"])
async def test_no_socket_answers_a_stranger(tmp_path: Path, path: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        for headers in ({}, {"Authorization": "Bearer tw_wrong"}, {"Cookie": "teamwright_session=guess"}):
            async with websockets.connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers) as socket:
                with pytest.raises(websockets.exceptions.ConnectionClosed):
                    await socket.recv()
                assert socket.close_code == 1008


async def test_a_socket_of_a_session_is_closed_when_its_token_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT", 0.02)
    async with serving(MemoryJournal(), tmp_path) as server:
        cookie = await signed_in(server, server.token("read"))
        address = f"ws://127.0.0.1:{server.port}/api/socket"
        async with websockets.connect(address, additional_headers={"Cookie": cookie}) as socket:
            assert json.loads(await socket.recv())["kind"] == "ready"
            server.state.tokens.delete("read-0")
            await socket.wait_closed()
            assert socket.close_code == 1008


async def test_a_token_is_traded_for_a_session_which_the_audit_names(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        browser = server.client(None)
        begun = await browser.post("/api/session", json={"token": f" {server.token('answer')}\n"})
        assert begun.json() == {"name": "answer-0", "role": "answer"}
        assert all(part in begun.headers["Set-Cookie"] for part in ("HttpOnly", "SameSite=strict"))
        first = browser.cookies[f"teamwright_session_{server.port}"]
        assert (await browser.post("/api/session", json={"token": server.token("read")})).status_code == 200
        assert server.state.sessions.visitor(first) is None  # the browser has another one
        assert (await browser.get("/api/session")).json()["role"] == "read"
        lines = server.state.audit.read(10)
    assert [(one.what, one.by, one.role, one.status) for one in lines] == [
        ("begin", "read-1", "read", 200),
        ("begin", "answer-0", "answer", 200),
    ]


@pytest.mark.parametrize(
    "given", [{}, {"code": "x", "token": "y"}, {"token": 3}, {"token": "x" * 300}, {"role": "admin"}]
)
async def test_a_session_begins_with_one_code_or_one_token(tmp_path: Path, given: dict[str, Any]) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        assert (await server.client(None).post("/api/session", json=given)).status_code == 422


async def test_who_guesses_tokens_has_to_wait_and_is_written_down(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client(None)
        server.state.strangers._clock = lambda: 0.0  # pyright: ignore[reportPrivateUsage] - no time passes
        found = [(await client.post("/api/session", json={"token": f"tw_{guess}"})).status_code for guess in range(62)]
        assert found == [401] * 60 + [429] * 2
        assert {(one.what, one.by, one.status) for one in server.state.audit.read(100)} == {("begin", "", 401)}
        other = {"Origin": "http://evil.test"}
        token = server.token("admin")
        assert (await client.post("/api/session", json={"token": token}, headers=other)).status_code == 403


async def test_a_session_is_no_token_a_token_no_session_and_each_is_of_its_own_port(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token("admin")
        name, session = (await signed_in(server, token)).split("=")
        for headers in (
            {"Authorization": f"Bearer {session}"},
            {"Cookie": f"{name}={token}"},
            {"Cookie": f"teamwright_session={session}"},
            {"Cookie": f"teamwright_session_1={session}"},
            {"Cookie": f"{name}={session}", "Authorization": "Bearer tw_wrong"},
        ):
            assert (await server.client(None, **headers).get("/api/session")).status_code == 401, headers
        assert (await server.client(None, Cookie=f"{name}={session}").get("/api/session")).status_code == 200
