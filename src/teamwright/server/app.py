"""The ASGI application: routes, errors, and the guard before them."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version

from fastapi import FastAPI
from starlette.requests import HTTPConnection

from teamwright.errors import TeamwrightError
from teamwright.server.drain import Drain
from teamwright.server.errors import add_handlers
from teamwright.server.routes import (
    audit,
    chat_completions,
    interventions,
    page,
    page_events,
    records,
    runs,
    session,
    sockets,
    teams,
)
from teamwright.server.security.access import known_visitor
from teamwright.server.security.audit import Audited
from teamwright.server.security.guard import LOOPBACK, Guard
from teamwright.server.state import ServerState
from teamwright.wings import hooks

OWN_ROUTERS = (
    session.router,
    teams.router,
    runs.router,
    sockets.router,
    interventions.router,
    interventions.inbox_router,
    audit.router,
    page_events.router,
    records.router,
    chat_completions.router,
)


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
    for router in (*OWN_ROUTERS, *hooks("routes"), page.router):  # the page last: it has an answer for every address
        app.router.routes.extend(router.routes)  # `include_router` would build each route again, at its first request
    add_handlers(app)

    def identify(connection: HTTPConnection) -> str | None:
        try:
            visitor = known_visitor(connection, state)
        except TeamwrightError:  # the route says what is wrong with the tokens
            return None
        return None if visitor is None else visitor.name

    return Guard(Audited(Drain(app, state.feeds), state.audit), hosts, identify)
