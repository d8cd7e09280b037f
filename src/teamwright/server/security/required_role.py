"""Identifies the visitor of a request or a socket: by a token, or by the session of a browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from teamwright.server.error_responses import NotAllowed, NotKnown, TooManyTries
from teamwright.server.security.credentials import SESSION_PREFIX, Role, Visitor
from teamwright.server.state import ServerState

BEARER = "bearer "
SUBPROTOCOL, SHOWN = "teamwright", "teamwright.bearer."
"""What a socket of a browser offers, which can't send a header: the protocol, and a token or session after its name."""


def state_of(connection: HTTPConnection) -> ServerState:
    """Return what the parts of the server share."""
    state = connection.app.state.server
    assert isinstance(state, ServerState)
    return state


def visitor_of(connection: HTTPConnection) -> Visitor:
    """Return who sends a request; raises `NotKnown`."""
    found = known_visitor(connection, state_of(connection))
    if found is None:
        raise stranger(connection)
    connection.state.visitor = found
    return found


def known_visitor(connection: HTTPConnection, state: ServerState) -> Visitor | None:
    """Return who sends a request; `None` for a stranger."""
    shown = shown_secret(connection)
    if shown.startswith(SESSION_PREFIX):
        return state.sessions.visitor(shown)
    return state.tokens.visitor(shown) if shown else None


def shown_secret(connection: HTTPConnection) -> str:
    """Return the token or session that a request shows; empty if there is none.

    There is no cookie: a browser would send it to every port of this machine, where other programs listen.
    """
    header = connection.headers.get("authorization", "")
    if header.lower().startswith(BEARER):
        return header[len(BEARER) :].strip()
    offered = connection.headers.get("sec-websocket-protocol", "") if connection.scope["type"] == "websocket" else ""
    found = (one.strip() for one in offered.split(","))
    return next((one.removeprefix(SHOWN) for one in found if one.startswith(SHOWN)), "")


def offers_subprotocol(connection: HTTPConnection) -> bool:
    """Whether a socket offers our protocol, which has to be accepted then."""
    return SUBPROTOCOL in (one.strip() for one in connection.headers.get("sec-websocket-protocol", "").split(","))


def stranger(connection: HTTPConnection) -> NotKnown:
    """Return the error for a visitor who shows nothing that is known; one who tries often has to wait."""
    address = connection.client.host if connection.client is not None else ""
    return TooManyTries() if state_of(connection).strangers.wait(address) else NotKnown()


def need(connection: HTTPConnection, role: Role) -> Visitor:
    """Return the visitor, who has to have this role; raises `NotKnown` or `NotAllowed`."""
    visitor = visitor_of(connection)
    if not visitor.may(role):
        raise NotAllowed(visitor, role)
    return visitor


def _reader(connection: HTTPConnection) -> Visitor:
    return need(connection, "read")


def _answerer(connection: HTTPConnection) -> Visitor:
    return need(connection, "answer")


def _runner(connection: HTTPConnection) -> Visitor:
    return need(connection, "run")


def _admin(connection: HTTPConnection) -> Visitor:
    return need(connection, "admin")


MAY_READ, MAY_ANSWER, MAY_RUN, MAY_ADMIN = Depends(_reader), Depends(_answerer), Depends(_runner), Depends(_admin)
"""What a route needs where it does not matter who the visitor is."""
Server = Annotated[ServerState, Depends(state_of)]
Reader = Annotated[Visitor, Depends(_reader)]
Answerer = Annotated[Visitor, Depends(_answerer)]
Runner = Annotated[Visitor, Depends(_runner)]
Admin = Annotated[Visitor, Depends(_admin)]
"""The visitor of a route, who may read, answer questions and steer, start and end runs, or administer the server."""
