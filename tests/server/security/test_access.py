"""Every route and socket refuses strangers, and those whose role is too low; taken from the OpenAPI document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server.security.tokens import ROLES, Role, Sessions, Visitor
from tests.kit.server import TestServer, serving

PUBLIC = {("post", "/api/session")}
"""A code is traded without a token."""
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
    return [(method, path) for path, found in document["paths"].items() for method in found]


async def statuses(server: TestServer, headers: dict[str, str]) -> dict[tuple[str, str], int]:
    client = server.client(None, **headers)
    found: dict[tuple[str, str], int] = {}
    for method, path in await operations(server):
        if (method, path) not in PUBLIC:
            server.state.strangers._buckets.clear()  # pyright: ignore[reportPrivateUsage] - the rate is not the question
            answer = await client.request(method, re.sub(r"\{\w+\}", "x", path), json={} if method != "get" else None)
            found[method, path] = answer.status_code
    return found


@pytest.mark.parametrize("shown", ["nothing", "a wrong token", "a revoked token", "no scheme", "an unknown session"])
async def test_no_route_answers_a_stranger(tmp_path: Path, shown: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        token = server.token("admin")
        server.state.tokens.delete("admin-0")
        headers = {
            "nothing": {},
            "a wrong token": {"Authorization": "Bearer tw_wrong"},
            "a revoked token": {"Authorization": f"Bearer {token}"},
            "no scheme": {"Authorization": server.token("admin")},
            "an unknown session": {"Cookie": f"teamwright_session_{server.port}=guess; teamwright_session=guess"},
        }[shown]
        found = await statuses(server, headers)
    assert len(found) > 30
    assert {key: status for key, status in found.items() if status != 401} == {}


async def test_an_expired_session_opens_nothing() -> None:
    now = 1000.0
    sessions = Sessions(lambda: now)
    session = sessions.trade(sessions.new_code(Visitor("ann", "admin")))
    assert session is not None
    assert sessions.visitor(session) is not None
    now += 13 * 3600
    assert sessions.visitor(session) is None


@pytest.mark.parametrize("role", ROLES)
async def test_every_route_needs_its_role(tmp_path: Path, role: Role) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        found = await statuses(server, {"Authorization": f"Bearer {server.token(role)}"})
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
