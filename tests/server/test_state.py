"""Every route and socket refuses strangers, and those whose role is too low; taken from the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from fastapi import FastAPI
from websockets.typing import Subprotocol

from teamwright.journal import MemoryJournal
from teamwright.server.app import make_app
from teamwright.server.credentials import ROLES, Role, Sessions, Tokens, Visitor
from teamwright.server.routes import sockets
from tests.kit.server import TestServer, serving

PUBLIC = {("post", "/api/session")}
"""A code or a token is traded without one in a header."""
SOCKETS = ("/api/socket", "/api/runs/x/socket")
OPEN = {"/{path}", "/api/openapi.json"}
"""The files of the page, and the description of the routes."""
LAST = ("delete", "/api/session")
"""Ends the session that is tried."""
READS = {
    "/api/lab/evaluate", "/api/lab/sweep", "/api/lab/simulate", "/api/lab/advise", "/api/lab/plan",
    "/api/runs/{run_id}/plan/difference", "/api/session",
    "/mcp",  # its methods need roles of their own: tests/server/mcp/test_team_server.py
    "/a2a/{team}", "/a2a/{team}/", "/a2a/{team}/tasks/{task_id}:subscribe",
}  # fmt: skip
ANSWERS = {
    "/api/runs/{run_id}/answers", "/api/runs/{run_id}/messages", "/api/runs/{run_id}/members/{member}/pause",
    "/api/runs/{run_id}/members/{member}/resume",
    "/a2a/{team}/message:send", "/a2a/{team}/message:stream",
    "/agui/{team}",  # a new run needs `run`: tests/server/chat/test_agui.py
    "/v1/responses",  # a request that answers nothing needs `run`: tests/server/chat/test_responses.py
}  # fmt: skip
ADMIN = {
    ("get", "/api/audit"), ("get", "/api/webhooks"), ("delete", "/api/runs/{run_id}"),
    ("post", "/api/memory/notes"), ("put", "/api/memory/notes/{note}"), ("delete", "/api/memory/notes/{note}"),
    ("post", "/api/experts"), ("put", "/api/experts/{name}"), ("delete", "/api/cluster/schedules/{name}"),
}  # fmt: skip


def needed(method: str, path: str) -> Role:
    """The role that a route should need; a new route that changes something needs `run` unless it is named above."""
    if (method, path) in ADMIN:
        return "admin"
    if method == "get" or path in READS:
        return "read"
    return "answer" if path in ANSWERS else "run"


OPERATIONS: list[tuple[str, str]] = []
"""Those of every server, from the first one that was asked: it takes longer to describe them than to try them."""


async def operations(server: TestServer) -> list[tuple[str, str]]:
    if not OPERATIONS:
        document: dict[str, Any] = (await server.client(None).get("/api/openapi.json")).json()
        found = [(method, path) for path, methods in document["paths"].items() for method in methods]
        OPERATIONS.extend(sorted(found, key=LAST.__eq__))
    return OPERATIONS


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
        "a cookie",
        "a protocol",
    ],
)
async def test_no_route_answers_a_stranger(tmp_path: Path, shown: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token("admin")
        session = await signed_in(server, token)
        server.state.tokens.delete("admin-0")
        own = await signed_in(server, server.token("admin"))
        headers = {
            "nothing": {},
            "a wrong token": {"Authorization": "Bearer tw_wrong"},
            "a revoked token": {"Authorization": f"Bearer {token}"},
            "no scheme": {"Authorization": server.token("admin")},
            "the session of a revoked token": {"Authorization": f"Bearer {session}"},
            "an unknown session": {"Authorization": "Bearer tws_guess"},
            "a cookie": {"Cookie": f"teamwright_session_{server.port}={own}; teamwright_session={own}"},
            "a protocol": {"Sec-WebSocket-Protocol": f"teamwright, teamwright.bearer.{own}"},
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
    """Sign in with a token, and return the session."""
    answer = await server.client(None).post("/api/session", json={"token": token})
    assert answer.status_code == 200
    return answer.json()["session"]


async def test_every_route_needs_its_role(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:  # one: each would start a process that computes
        for role in ROLES:
            token = server.token(role)
            for shown in (token, await signed_in(server, token)):
                found = await statuses(server, {"Authorization": f"Bearer {shown}"})
                refused = {key for key, status in found.items() if status == 403}
                assert refused == {key for key in found if ROLES.index(role) < ROLES.index(needed(*key))}, role
                assert not [key for key, status in found.items() if status >= 500], role


async def test_these_tests_forget_no_route(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        app: Any = make_app(server.state)
        while not isinstance(app, FastAPI):
            app = app.app if hasattr(app, "app") else app._app
        tried = {path for _, path in await operations(server)}
    found = {re.sub(r":\w+}", "}", path) for path in _paths(app.routes)}
    assert {path.replace("{run_id}", "x") for path in found - tried} == {*SOCKETS, *OPEN}


def _paths(routes: Iterable[Any], before: str = "") -> Iterator[str]:
    """The paths of routes and of what is mounted."""
    for route in routes:
        path = before + getattr(route, "path", "")
        if nested := getattr(route, "routes", None):
            yield from _paths(nested, path)
        else:
            yield path


@pytest.mark.parametrize("path", SOCKETS)
async def test_no_socket_answers_a_stranger(tmp_path: Path, path: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        own = await signed_in(server, server.token("admin"))
        offered = {"Sec-WebSocket-Protocol": "teamwright.bearer.tws_guess"}
        for headers in ({}, {"Authorization": "Bearer tw_wrong"}, {"Cookie": f"teamwright_session={own}"}, offered):
            async with websockets.connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers) as socket:
                with pytest.raises(websockets.exceptions.ConnectionClosed):
                    await socket.recv()
                assert socket.close_code == 1008


async def test_a_socket_of_a_session_is_closed_when_its_token_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT", 0.02)
    async with serving(MemoryJournal(), tmp_path) as server:
        offered = ["teamwright", f"teamwright.bearer.{await signed_in(server, server.token('read'))}"]
        address = f"ws://127.0.0.1:{server.port}/api/socket"
        async with websockets.connect(address, subprotocols=[Subprotocol(one) for one in offered]) as socket:
            assert socket.subprotocol == "teamwright"
            assert json.loads(await socket.recv())["kind"] == "ready"
            server.state.tokens.delete("read-0")
            await socket.wait_closed()
            assert socket.close_code == 1008


async def test_a_token_is_traded_for_a_session_which_the_audit_names(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        browser = server.client(None)
        begun = await browser.post("/api/session", json={"token": f" {server.token('answer')}\n"})
        first = begun.json().pop("session")
        assert (begun.json()["name"], begun.json()["role"]) == ("answer-0", "answer")
        browser.headers["Authorization"] = f"Bearer {first}"
        again = await browser.post("/api/session", json={"token": server.token("read")})
        browser.headers["Authorization"] = f"Bearer {again.json()['session']}"
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


async def test_a_session_is_no_token_and_a_token_no_session(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token("admin")
        session = await signed_in(server, token)
        for shown in (session.removeprefix("tws_"), f"tw_{session[4:]}", f"tws_{token[3:]}", f"{session} {token}"):
            answer = await server.client(None, Authorization=f"Bearer {shown}").get("/api/session")
            assert answer.status_code == 401, shown
            assert (await server.client(None).post("/api/session", json={"token": shown})).status_code == 401
        assert (await server.client(None).post("/api/session", json={"token": session})).status_code == 401
        assert (await server.client(None, Authorization=f"Bearer {session}").get("/api/session")).status_code == 200


async def test_no_answer_sets_a_cookie(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("admin")
        for method, path in await operations(server):
            answer = await client.request(method, re.sub(r"\{\w+\}", "x", path), json={} if method != "get" else None)
            assert "set-cookie" not in answer.headers
