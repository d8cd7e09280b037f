"""The ASGI application: routes, errors, and the guard before them."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version

from fastapi import FastAPI

from teamwright.server.errors import add_handlers
from teamwright.server.guard import LOOPBACK, Guard
from teamwright.server.routes import chat_completions, interventions, page, page_events, runs, session, teams
from teamwright.server.state import ServerState


def make_app(state: ServerState, hosts: Collection[str] = LOOPBACK) -> Guard:
    """Return the application over an open engine; it answers under these host names."""
    app = FastAPI(
        title="Teamwright",
        version=version("teamwright"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.server = state
    for part in (session, teams, runs, interventions, page_events, chat_completions, page):
        app.include_router(part.router)
    add_handlers(app)
    return Guard(app, hosts)
